"""Decides whether questions are the whole of U2-Bench: only on the whole there is a U2-Score, and a rank by it."""

from collections import Counter
from collections.abc import Sequence

from medtune.benchmarks.u2_bench.parsers import task_of
from medtune.benchmarks.u2_bench.weights_and_ranges import CASES
from medtune.data.types import Question

REJECTED_SHARE = 0.01
"""Largest share of a task's cases that may be missing, because `prepare` could not read them."""


def has_every_task(questions: Sequence[Question]) -> bool:
    """Returns whether there are questions of all eight tasks, which the U2-Score is made of."""
    return set(CASES) <= {task_of(question) for question in questions}


def missing(questions: Sequence[Question]) -> str:
    """Returns how many of the published cases the questions are, e.g. "6 of its 7,241 questions"; "" if all."""
    asked = Counter(task_of(question) for question in questions)
    if all(asked[task] >= (1 - REJECTED_SHARE) * cases for task, cases in CASES.items()):
        return ""
    return f"{len(questions):,} of its {sum(CASES.values()):,} questions"
