"""The bench of rewards: medtune's side on a small step, and without TRL's environment it says how to build it."""

from pathlib import Path

import pytest

from bench import rewards
from bench.measuring.peer_job import groups, trainable
from bench.measuring.peers_qwen import write_peers_model
from bench.rewards import step
from medtune.trainer.replies.learning import ReplyLearning


def test_without_its_environment_it_says_how_to_build_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(FileNotFoundError, match=r"trl.*is not built; run `make bench-rewards`"):
        rewards.bench(None)


def test_it_runs_on_one_thing_alone() -> None:
    with pytest.raises(ValueError, match="leave 'pocket' out"):
        rewards.bench("pocket")


@pytest.mark.soak
@pytest.mark.filterwarnings("ignore")
def test_given_draws_have_the_gradient_of_drawing_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The parity with TRL learns from given tokens; here these are the ones that medtune draws itself."""
    monkeypatch.setattr(step, "DRAWS", 3)
    monkeypatch.setattr(step, "NEW_TOKENS", 3)
    (weights := tmp_path / "model").mkdir()
    write_peers_model(weights, width=32, layers=1)
    (tmp_path / "images").mkdir()
    asked = groups(tmp_path / "images", images=1, questions=2, visual_tokens=16)
    learner = trainable(weights, tmp_path / "adapter")
    drawn: list[list[int]] = []
    paid: list[float] = []
    of_question = ReplyLearning._of_question

    def noted(self: ReplyLearning, draws: object) -> object:
        for layout, told in draws:  # type: ignore[attr-defined]
            drawn.append([label for label in layout.labels if label >= 0])
            paid.append(told.total)
        return of_question(self, draws)  # type: ignore[arg-type]

    with monkeypatch.context() as patch:
        patch.setattr(ReplyLearning, "_of_question", noted)
        _, norms = step.trained(learner, asked, 1, steps=1)
    _, given = step.trained(learner, asked, 1, given=(drawn, paid), steps=1)
    assert len(drawn) == 6
    assert norms[0] > 0
    assert given == pytest.approx(norms, rel=1e-5)
