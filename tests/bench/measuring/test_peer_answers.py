from dataclasses import replace
from pathlib import Path

import pytest

from bench.measuring import peer_answers
from bench.measuring.peer_answers import answers, apart, compared_answers
from bench.measuring.peer_job import write_image
from bench.measuring.peer_process import ENVIRONMENTS, python_of
from bench.measuring.peers_qwen import write_peers_model
from medtune.data.types import MediaGroup, MediaRef, Prediction, PredictionKey, Reading
from medtune.models.contract import Assembled

VISUAL_TOKENS = 16
ROOT = Path(__file__).resolve().parents[4]


def test_how_far_answers_are_apart() -> None:
    replies = [Prediction(PredictionKey(str(n), "image", "generation", 0), text=text) for n, text in enumerate("ab")]
    assert apart(replies, ["a", "b"], "generation") == 0.0
    assert apart(replies, ["a", "c"], "generation") == 0.5
    key = PredictionKey("0", "image", "likelihood", 0)
    read = [Prediction(key, option_logprobs=(-1.0, -2.0)), Prediction(key, option_logprobs=(-3.0,))]
    assert apart(read, [[-1.0, -2.0], [-3.5]], "likelihood") == 0.5
    with pytest.raises(ValueError, match="shorter"):
        apart(read, [[-1.0], [-3.5]], "likelihood")


@pytest.mark.slow
def test_lmms_eval_answers_the_same_and_another_image_is_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    if not (ENVIRONMENTS / "lmms" / ".ready").is_file():
        pytest.skip("lmms-eval's environment is not built (make bench-peers)")
    python = python_of("lmms").absolute()
    weights = tmp_path / "model"
    weights.mkdir()
    write_peers_model(weights, width=128, layers=2)
    for name in ("same", "other"):
        scratch = tmp_path / name
        scratch.mkdir()
        if name == "other":
            show_medtune_another_image(monkeypatch, tmp_path / "other.png")
        generated, likely = compared_answers(
            VISUAL_TOKENS,
            {"generation": 0.0, "likelihood": 0.0},
            python=python,
            weights=weights,
            scratch=scratch,
            questions=5,
            runs=1,
        )
        assert generated.agree == likely.agree == (name == "same")


def show_medtune_another_image(monkeypatch: pytest.MonkeyPatch, path: Path) -> None:
    write_image(path, visual_tokens=VISUAL_TOKENS, seed=9)

    def other(assembled: Assembled, group: MediaGroup, reading: Reading) -> list[Prediction]:
        return answers(assembled, replace(group, media=(MediaRef(path),)), reading)

    monkeypatch.setattr(peer_answers, "answers", other)
