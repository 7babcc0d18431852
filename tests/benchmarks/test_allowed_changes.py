"""Tests which changes of training media the benchmarks allow for each task."""

import pytest

from medtune.benchmarks import find_benchmark
from medtune.benchmarks.rexsonovqa.scored_items import TYPES
from medtune.data.media.augment import ALL_CHANGES, changes_allowed_by_all
from medtune.data.types import Question

BOTH = {"move", "grey"}


@pytest.mark.parametrize(
    ("name", "task", "changes"),
    [
        ("m3d_vqa", "plane", BOTH),
        ("m3d_vqa", "phase", {"move"}),
        ("m3d_vqa", "organ", BOTH),
        ("m3d_vqa", "abnormality", {"move"}),
        ("m3d_vqa", "location", {"grey"}),
        ("rexsonovqa", TYPES[0], {"grey"}),
        ("rexsonovqa", TYPES[1], set()),
        ("rexsonovqa", TYPES[2], BOTH),
        ("fetal_sweep", "sweep_direction", ALL_CHANGES),
        ("fetal_sweep", "last_part", ALL_CHANGES),
        ("fetal_sweep", "placenta_side", {"mirror", "grey"}),
        ("vqa", "conversation", set()),
    ],
)
def test_a_task_allows_what_leaves_its_answers_true(name: str, task: str, changes: set[str]) -> None:
    question = Question("q", "m", "What?", ("a", "b"), "a", "choice", "p", {"task": task})
    assert changes_allowed_by_all([question], find_benchmark(name).allowed_changes) == changes
