"""The type of compare.json, and how it is made from a comparison."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass

from pydantic import with_config

from medtune.eval.comparing.compare import Comparison, Difference
from medtune.eval.results.schema import DOCUMENT, Count, Labelled
from medtune.eval.scoring.tables import finite_number

Ends = tuple[float | None, float | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class RightAndWrong:
    """How many questions each side answered rightly."""

    both_right: Count
    only_first: Count
    only_second: Count
    both_wrong: Count


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedLevel:
    """How the sides differ on some of the questions that both answered.

    Attributes:
        n: Number of questions.
        first: Primary metric of the first side; None where it has no value.
        second: Primary metric of the second side; None where it has no value.
        difference: Second minus first.
        ci95: 95 % interval of the difference, paired by question, resampled by patient.
        mcnemar_p: Exact, two-sided; None where answers are not right or wrong.
        permutation_p: Two-sided, with the sign flipped for whole patients; None as above.
        holm_p: `permutation_p` after Holm's correction over the tasks; None overall.
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
        names: What the two sides are called.
        labels: The data of each side.
        benchmark: Name and version of the benchmark.
        metric: Name of the primary metric.
        parser: The reading of both sides' answers.
        both: Questions that both answered and that have a score on both sides: all that is compared.
        only_first: Questions that only the first side answered; they are left out.
        only_second: Questions that only the second side answered; they are left out.
        neither: Questions that nobody answered.
        reworded: Questions of `both` whose prompts are known to differ.
        overall: The difference on all questions.
        by_task: Task -> the difference on its questions.
        unscored: Questions that both answered, but an answer waits for a judge; they are left out.
        uncounted: Task -> questions that the parser cannot read; they are left out.
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
