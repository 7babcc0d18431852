"""Defines the type of compare.json and makes the content of that file from a comparison."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass

from pydantic import with_config

from medtune.eval.comparing.compare import Comparison, Difference
from medtune.eval.results.schema import DOCUMENT, Count, Labelled
from medtune.eval.scoring.tables import finite_number
from medtune.eval.statistics.intervals import METHOD

Ends = tuple[float | None, float | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class RightAndWrong:
    """The number of questions that both sides, one side or no side answered right.

    Attributes:
        both_right: Number of questions that both sides answered right.
        only_first: Number of questions that only the first side answered right.
        only_second: Number of questions that only the second side answered right.
        both_wrong: Number of questions that neither side answered right.
    """

    both_right: Count
    only_first: Count
    only_second: Count
    both_wrong: Count


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedLevel:
    """The difference between the sides on some of the questions that both answered.

    Attributes:
        n: Number of questions.
        first: Primary metric of the first side; None if it has no value.
        second: Primary metric of the second side; None if it has no value.
        difference: Second minus first; None if one of them has no value.
        ci95: 95 % interval of the difference, paired by question, with patients as clusters; None for an end without
            value.
        mcnemar_p: Two-sided p value of McNemar's exact test; None if answers are not simply right or wrong.
        permutation_p: Two-sided p value of the permutation test that flips whole patients; None in the same case.
        holm_p: `permutation_p` of a task after Holm's correction over the tasks; None for all questions together.
        counts: Number of questions that both sides, one side or no side answered right.
    """

    n: Count
    first: float | None
    second: float | None
    difference: float | None
    ci95: Ends
    mcnemar_p: float | None
    permutation_p: float | None
    holm_p: float | None
    counts: RightAndWrong


@with_config(DOCUMENT)
@dataclass(frozen=True, slots=True, kw_only=True)
class CompareFile:
    """compare.json: two sets of answers to the same questions.

    Attributes:
        names: Names of the two sides.
        labels: Labels of the data of each side.
        benchmark: Name and version of the benchmark.
        metric: Name of the primary metric.
        parser: Name of the parser that read the answers of both sides.
        both: Number of questions that both sides answered, with a score on both; only these are compared.
        only_first: Number of questions that only the first side answered; they are left out.
        only_second: Number of questions that only the second side answered; they are left out.
        neither: Number of questions of the split that neither side answered.
        reworded: Number of compared questions whose prompts are known to differ.
        overall: The difference on all compared questions.
        by_task: Task -> the difference on its questions.
        unscored: Number of questions that both sides answered, but with an answer that waits for a judge; they are left
            out.
        uncounted: Task -> number of questions that the parser cannot read; they are left out.
        interval_method: Name of the method of the 95 % intervals.
    """

    names: tuple[str, str]
    labels: tuple[Labelled, Labelled]
    benchmark: str
    metric: str
    parser: str
    both: Count
    only_first: Count
    only_second: Count
    neither: Count
    reworded: Count
    overall: ComparedLevel
    by_task: Mapping[str, ComparedLevel]
    unscored: Count
    uncounted: Mapping[str, Count]
    interval_method: str


def compare_file(found: Comparison) -> CompareFile:
    """Returns the content of compare.json."""
    first, second = found.labels
    return CompareFile(
        names=found.names,
        labels=(Labelled(**asdict(first)), Labelled(**asdict(second))),
        benchmark=found.benchmark,
        metric=found.metric,
        parser=found.parser,
        both=found.both,
        only_first=found.only_first,
        only_second=found.only_second,
        neither=found.neither,
        reworded=found.reworded,
        overall=_level(found.overall),
        by_task={task: _level(each) for task, each in found.by_task.items()},
        unscored=found.unscored,
        uncounted=dict(found.uncounted),
        interval_method=METHOD,
    )


def _level(each: Difference) -> ComparedLevel:
    paired = each.paired
    return ComparedLevel(
        n=paired.n,
        first=finite_number(each.first),
        second=finite_number(each.second),
        difference=finite_number(paired.value),
        ci95=(finite_number(paired.ci95.low), finite_number(paired.ci95.high)),
        mcnemar_p=each.mcnemar_p,
        permutation_p=each.permutation_p,
        holm_p=each.holm_p,
        counts=RightAndWrong(
            both_right=paired.both_right,
            only_first=paired.only_before,
            only_second=paired.only_after,
            both_wrong=paired.both_wrong,
        ),
    )
