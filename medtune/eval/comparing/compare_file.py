"""Defines the type of compare.json, which is what a comparison of two sets of answers is."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from pydantic import with_config

from medtune.eval.comparing.verdict import Verdict
from medtune.eval.results.gain_schema import Readability
from medtune.eval.results.phase_schema import Count
from medtune.eval.results.schema import DOCUMENT, Labelled
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
        num_patients: Number of patients that the questions are about.
        verdict: "gain" if the second side is better, "loss" if the first is, both by `permutation_p` (by `holm_p` for a
            task) and by `ci95`; "format" if the second side is better but not surely so on the questions whose replies
            can be read on both sides; else "unclear".
        readability: The questions by whether the replies of the first side ("before") and of the second ("after") can
            be read, and the two parts of the difference; None if all can be read.
        permutation_p: Two-sided p value of the primary metric's difference, from swaps of the sides for whole patients.
        holm_p: `permutation_p` of a task after Holm's correction over the tasks; None for all questions together.
        mcnemar_p: Two-sided p value of McNemar's exact test, which takes questions as independent; None if answers are
            not simply right or wrong.
        counts: Number of questions that both sides, one side or no side answered right.
    """

    n: Count
    num_patients: Count
    first: float | None
    second: float | None
    difference: float | None
    ci95: Ends
    verdict: Verdict
    permutation_p: float
    holm_p: float | None
    mcnemar_p: float | None
    counts: RightAndWrong
    readability: Readability | None = None


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
        repeats: Number of passes of each side: how many times it was asked each question. The numbers of right answers
            are then those of questions with more than half of their answers right.
        other_answers: For each side condition and reading -> number of its answers that are not compared.
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
    repeats: tuple[Count, Count] = (1, 1)
    other_answers: tuple[Mapping[str, Count], Mapping[str, Count]] = field(default_factory=lambda: ({}, {}))
    interval_method: str = METHOD
