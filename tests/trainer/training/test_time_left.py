"""The time that the whole run still takes, from its own steps and answers."""

import time
from pathlib import Path

import pytest

from medtune.trainer.recipe.read import read_recipe
from medtune.trainer.time_left import TimeLeft
from medtune.trainer.training.checkpoints import is_validated
from medtune.trainer.training.fit import StepProgress
from tests.trainer.conftest import Capture, Nano


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    return now


def test_steps_validations_and_the_final_phase_are_counted_at_the_pace_so_far(clock: list[float]) -> None:
    left = TimeLeft(images=10, validated_images=4, final_conditions=3)
    clock[0] += 50
    left.step_begins()
    clock[0] += 2
    left.step_done(steps_left=9, validations_left=2)
    assert left.of_run_s is None, "nothing was answered yet, so that nobody knows how long answers take"
    left.answered(10, 5.0)
    clock[0] += 4
    left.step_done(steps_left=8, validations_left=2)
    assert left.of_run_s == pytest.approx(8 * 3 + (2 * 4 + 3 * 10) * 0.5)
    left.answered(4, 8.0)
    left.step_begins()
    clock[0] += 3
    left.step_done(steps_left=0, validations_left=0)
    assert left.of_run_s == pytest.approx(30 * 2.0), "the last pace counts, and waiting in a validation is no step"


def test_a_training_alone_ends_with_its_steps(clock: list[float]) -> None:
    left = TimeLeft(validated_images=4)
    clock[0] += 2
    left.step_done(steps_left=5, validations_left=0)
    assert left.of_run_s == pytest.approx(10)


@pytest.mark.parametrize(
    ("every", "steps", "step", "expected"),
    [(2, 4, 0, 2), (2, 4, 1, 2), (2, 4, 2, 1), (2, 5, 4, 1), (3, 7, 2, 3), (9, 4, 3, 1)],
)
def test_validations_to_come_are_those_that_the_training_makes(
    every: int, steps: int, step: int, expected: int
) -> None:
    recipe = read_recipe("nano_busi_lora", [f"train.max_steps={steps}", f"eval.every_steps={every}"])
    shown = StepProgress.__new__(StepProgress)
    shown._recipe = recipe
    found = shown._validations_after(step)
    assert found == expected
    assert found == sum(is_validated(each, every_steps=every, last=steps) for each in range(step + 1, steps + 1))


def test_a_run_says_it_in_a_pipe(nano: Nano, tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("medtune.data.progress.LINE_EVERY_S", 0.0)
    assert nano.here("run", tmp_path / "run", "train.max_steps=4", "eval.conditions=[image]") == 0
    lines = [line for line in capsys.readouterr().err.splitlines() if line.startswith("training: ")]
    assert lines
    assert all(" left of the run" in line for line in lines if "loss" in line)
