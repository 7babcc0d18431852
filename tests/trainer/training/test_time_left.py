"""The time that the whole run still takes, and the pace of its steps, from its own steps and answers."""

import shutil
import time
from pathlib import Path

import pytest
import torch

from medtune.data.progress import clock as told
from medtune.eval.results.metrics_file import read_metrics
from medtune.eval.results.schema import ResultsFile
from medtune.eval.results.typed_json import read_json
from medtune.models.sequence.builder import IGNORED, Sequence
from medtune.models.sequence.packing import Shown, pack
from medtune.models.sequence.tree import grow
from medtune.trainer.recipe.read import read_recipe
from medtune.trainer.throughput import (
    PADDING,
    PEAK_GB,
    QUESTIONS_PER_S,
    STEP_S,
    TARGETS_PER_S,
    TOKENS_PER_S,
    VISUAL_PER_S,
    Throughput,
)  # fmt: skip
from medtune.trainer.time_left import TimeLeft
from medtune.trainer.training.batches import MicroBatch
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
    printed = capsys.readouterr()
    lines = [line for line in printed.err.splitlines() if line.startswith("training: ")]
    assert lines
    assert all(" left of the run" in line for line in lines if "loss" in line)
    paces = [line for line in printed.out.splitlines() if "questions/s" in line]
    assert [line.partition(":")[0] for line in paces] == ["step 2", "step 4"]
    values: dict[str, list[float]] = {}
    for row in read_metrics(tmp_path / "run" / "metrics.csv"):
        values.setdefault(row.name, []).append(row.value)
    assert all(len(values[name]) == 4 for name in (STEP_S, QUESTIONS_PER_S, VISUAL_PER_S, TARGETS_PER_S, PEAK_GB))
    # The steps of a second, times the questions of a step.
    asked = [step_s * a_second for step_s, a_second in zip(values[STEP_S], values[QUESTIONS_PER_S], strict=True)]
    assert asked == pytest.approx([round(each) for each in asked])
    assert all(0 <= share < 1 for share in values[PADDING])
    assert all(visual < tokens for visual, tokens in zip(values[VISUAL_PER_S], values[TOKENS_PER_S], strict=True))
    assert {"zero_shot/seconds", "final/seconds"} <= values.keys()
    assert "train/mfu" not in values, "no CPU has a known peak"


def test_results_and_report_say_how_long_each_phase_took(nano_run: Path, nano: Nano, tmp_path: Path) -> None:
    """A phase that an earlier process had begun is left out: here all but the final one, which waits to be done."""
    run = Path(shutil.copytree(nano_run, tmp_path / "run"))
    seconds = read_json(run / "results.json", ResultsFile).seconds
    assert list(seconds) == ["zero_shot", "training", "final"]
    assert all(took > 0 for took in seconds.values())
    said = (
        f"zero-shot {told(seconds['zero_shot'])}, training {told(seconds['training'])}, final {told(seconds['final'])}"
    )
    assert said in (run / "report.html").read_text("utf-8")
    for file in (run / "results.json", *(run / "final").glob("*.jsonl")):
        file.unlink()
    assert nano.here("run", run, extra=("--resume",)) == 0
    assert list(read_json(run / "results.json", ResultsFile).seconds) == ["final"]


def test_the_pace_counts_what_the_passes_computed_and_no_validation(clock: list[float]) -> None:
    trees = [grow([Sequence((7,) * n, (IGNORED,) * (n - 1) + (7,), tuple(range(n)), ())], [n]) for n in (4, 6)]
    rows = pack([[Shown(tree, None)] for tree in trees], pad_id=0)
    batch = MicroBatch(0, rows, None, 5, 2, 2, 2, 1, ("a", "b"))
    pace = Throughput()
    for waited_s in (30.0, 0.0):
        # A validation before the second step.
        clock[0] += waited_s
        pace.begin()
        clock[0] += 2.0
        pace.count(batch)
        pace.step_done()
    found = pace.take(torch.device("cpu"))
    assert (found[STEP_S], found[QUESTIONS_PER_S]) == (2.0, 1.0)
    # The last token of an answer is predicted and never read.
    assert found[TOKENS_PER_S] == 2 * (3 + 5) / 4
    assert found[PADDING] == pytest.approx(1 - 8 / 10)
    assert pace.steps == 0
    assert pace.take(torch.device("cpu"))[QUESTIONS_PER_S] == 0.0
