"""A signal in a validation is obeyed before its next batch, and the resumed run equals the one that nobody stops."""

import math
import os
import signal
from collections.abc import Sequence
from pathlib import Path

import pytest
from safetensors.torch import load_file

from medtune.trainer.runs.run_folder import RunFolder
from tests.ranks import run_ranks
from tests.trainer.launch.started_ranks import arguments, asked, by_torchrun, losses

SETTINGS = ("train.max_steps=4", "eval.every_steps=2", "eval.val_questions=9", "eval.batch_size=1",
            "train.ema_decay=0.5")  # fmt: skip


def train_and_stop(rank: int, world_size: int, words: Sequence[str], stop_at: int | None) -> list[int]:
    """Runs medtune; the last rank gets SIGUSR1 in its batch of this number, counted over all validations, from 1.

    Returns:
        The exit status, and the number of batches that were answered.
    """
    from medtune.trainer.commands.cli import main
    from medtune.trainer.training.validation.measures import BatchAsker

    answered, measured = [0], BatchAsker.measured

    def counted(asker: BatchAsker, batch: object) -> object:
        answered[0] += 1
        if answered[0] == stop_at and rank == world_size - 1:
            os.kill(os.getpid(), signal.SIGUSR1)
        return measured(asker, batch)  # type: ignore[arg-type]

    BatchAsker.measured = counted  # type: ignore[method-assign, assignment]
    return [main(list(words)), answered[0]]


@pytest.fixture(scope="module")
def whole(prepared_tiny: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, int]:
    """The run that nobody stops, and the number of batches of a validation on each of two devices."""
    out = tmp_path_factory.mktemp("whole") / "run"
    words = arguments("run", prepared_tiny, out, *SETTINGS)
    ((status, batches),) = run_ranks(1, train_and_stop, words, None, environment=lambda rank: {})
    assert status == 0
    assert batches >= 6, "a validation has to have several batches on each device"
    return out, math.ceil(batches / 4)


@pytest.mark.parametrize(
    ("validation", "strategy"),
    [
        pytest.param(1, "ddp", id="middle", marks=pytest.mark.slow),
        pytest.param(2, "deepspeed_stage_3", id="last-step-zero-3", marks=pytest.mark.soak),
        pytest.param(2, "ddp", id="last-step", marks=pytest.mark.soak),
        pytest.param(1, "fsdp", id="fsdp", marks=pytest.mark.soak),
        pytest.param(1, "deepspeed_stage_3", id="zero-3", marks=pytest.mark.soak),
    ],
)
def test_stopped_in_a_validation(
    prepared_tiny: Path, whole: tuple[Path, int], tmp_path: Path, validation: int, strategy: str
) -> None:
    out, (uninterrupted, each) = tmp_path / "run", whole
    words = arguments("run", prepared_tiny, out, *SETTINGS, f"train.strategy={strategy}")
    stop_at = (validation - 1) * each + 1
    assert run_ranks(2, train_and_stop, words, stop_at, environment=by_torchrun(1, 2)) == [[0, stop_at]] * 2
    folder, step = RunFolder(out), 2 * validation
    assert folder.saved_step() == step
    assert folder.validation_due()
    assert not folder.validation(step).exists()
    again = run_ranks(2, train_and_stop, [*words, "--resume"], None, environment=by_torchrun(1, 2))
    assert again == [[0, (3 - validation) * each]] * 2
    assert not folder.validation_due()
    assert losses(out) == pytest.approx(losses(uninterrupted), abs=1e-6)
    for phase in ("validation/step_000002", "validation/step_000004", "final"):
        assert sorted(asked(out, phase)) == sorted(asked(uninterrupted, phase))
    mine, theirs = (load_file(run / "checkpoints" / "best.safetensors") for run in (out, uninterrupted))
    assert mine.keys() == theirs.keys()
    assert max(float((mine[name] - theirs[name]).abs().max()) for name in mine) < 1e-4
