"""Tests of `medtune export` and `medtune chat` on a run of a tiny random model."""

import io
import json
from collections.abc import Iterator, Sequence
from pathlib import Path

import PIL.Image
import pytest

from medtune.data.types import MediaGroup, Prediction, Request
from medtune.models.answering import LocalAnswerer
from medtune.trainer.commands.cli import main
from tests.trainer.conftest import Capture, Nano, Told, json_of

pytestmark = pytest.mark.usefixtures("forked_readers")


@pytest.fixture(scope="module")
def run(prepared_tiny: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("runs") / "run"
    quick = ("eval.readings=[likelihood]", "eval.conditions=[image]", "model.tuning.language.lr=0.05")
    assert Nano(prepared_tiny).here("run", out, *quick) == 0
    return out


@pytest.fixture
def picture(tmp_path: Path) -> Path:
    path = tmp_path / "picture.png"
    PIL.Image.new("RGB", (64, 48), (90, 10, 200)).save(path)
    return path


def answers(folder: Path) -> dict[str, list[float]]:
    lines = [json.loads(line) for line in (folder / "predictions.jsonl").read_text().splitlines()]
    return {line["question_id"]: line["option_logprobs"] for line in lines}


def test_an_exported_run_evaluates_as_the_run_did(run: Path, prepared_tiny: Path, tmp_path: Path, shown: Told) -> None:
    out = tmp_path / "model"
    assert f"model.weights={out}" in shown(main(["export", str(run), "--out", str(out)]))
    again = tmp_path / "again"
    settings = (f"model.weights={out}", "eval.readings=[likelihood]", "eval.conditions=[image]")
    assert Nano(prepared_tiny).here("eval", again, *settings) == 0
    before, after = answers(run / "final"), answers(again / "zero_shot")
    assert before.keys() == after.keys()
    for question, logprobs in before.items():
        assert after[question] == pytest.approx(logprobs, abs=1e-3)
    assert before != answers(run / "zero_shot")
    weights = json_of(again / "weights.json")
    assert all("exported to model" in text for text in weights.values())


def test_the_model_card_has_results_origin_and_terms(run: Path, tmp_path: Path) -> None:
    out = tmp_path / "model"
    assert main(["export", str(run), "--out", str(out), "--no-proof"]) == 0
    card = (out / "README.md").read_text("utf-8")
    results = json_of(run / "results.json")
    assert f"{results['phases']['final']['overall']['value']:.3f}" in card
    assert results["data_hash"] in card
    for words in ("no medical device", "Apache-2.0", "- projector: random", "nano\\_busi\\_lora", "lora:"):
        assert words in card
    assert sorted(path.name for path in tmp_path.iterdir()) == ["model"]
    assert main(["export", str(run), "--out", str(out)]) == 1


def test_export_of_no_run_is_refused(tmp_path: Path, refused: Told) -> None:
    assert "no run is here" in refused(main(["export", str(tmp_path / "none"), "--out", str(tmp_path / "out")]))
    assert not (tmp_path / "out").exists()


def test_chat_answers_each_question_and_each_line(
    run: Path, picture: Path, capsys: Capture, shown: Told, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = ["chat", str(run), "--media", str(picture)]
    assert main([*asked, "--question", "What is it?", "--question", "Where?"]) == 0
    said = capsys.readouterr()
    assert len(said.out.splitlines()) >= 2
    assert "For research" in said.err
    monkeypatch.setattr("sys.stdin", io.StringIO("What is it?\nWhere?\n\nnever asked\n"))
    assert shown(main(asked)) == said.out
    assert shown(main([*asked, "--question", "What is it?", "--max-new-tokens", "1"])) != said.out


def test_chat_shows_several_pictures_together_or_none(
    run: Path, picture: Path, tmp_path: Path, shown: Told, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = tmp_path / "other.png"
    PIL.Image.effect_noise((64, 48), 90).convert("RGB").save(other)
    asked: list[tuple[str, ...]] = []

    def watched(answerer: LocalAnswerer, group: MediaGroup, requests: Sequence[Request]) -> Iterator[Prediction]:
        asked.append(tuple(ref.path.name for ref in group.media))
        return answer(answerer, group, requests)

    answer = LocalAnswerer.answer
    monkeypatch.setattr(LocalAnswerer, "answer", watched)
    for paths in ([picture, other], []):
        media = [argument for path in paths for argument in ("--media", str(path))]
        assert shown(main(["chat", str(run), *media, "--question", "What is it?"]))
    assert asked == [(picture.name, "other.png"), ()]


def test_chat_says_what_is_missing(run: Path, picture: Path, tmp_path: Path, capsys: Capture, refused: Told) -> None:
    assert "none.png" in refused(main(["chat", str(run), "--media", str(tmp_path / "none.png"), "--question", "?"]))
    volume = tmp_path / "ct.nii.gz"
    volume.write_bytes(b"")
    assert main(["chat", str(run), "--media", str(volume), "--question", "?"]) == 1
    assert "taken for a volume; the model nano_pocket reads images only" in capsys.readouterr().err
    assert "the question is empty" in refused(main(["chat", str(run), "--media", str(picture), "--question", " "]))
