"""Defines the rows of an audit: a value with its interval, the model's distance to it, and a flag if suspicious."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Annotated

import numpy as np
from pydantic import Field
from pydantic.json_schema import SkipJsonSchema

from medtune.data.types import Condition, Interval, Prediction, Question
from medtune.eval.audit.probes import Probe
from medtune.eval.benchmark import Benchmark
from medtune.eval.evidence import ParsedReplies
from medtune.eval.metric import ParsedReply, num_passes
from medtune.eval.scoring.baselines import TrainAnswers, train_answers
from medtune.eval.scoring.parse_replies import parse_all
from medtune.eval.scoring.tables import Table, table_text
from medtune.eval.statistics import intervals
from medtune.eval.statistics.column_sums import mean_of
from medtune.eval.statistics.patient_swaps import holm, patient_p

ACCURACY = "accuracy"
NO_MODEL = "no model"
SUBTYPE = "subtype, or task without one"
CHECKS_ALPHA = 0.01
"""The p value, after Holm's correction over the checks, up to which one is called better than the model. Beside the
gain, which is judged at 0.05, it keeps the probability that anything on a page is claimed wrongly at about 5 %."""
BETTER, NOT_BEATEN = "this check is surely better than the model", "the model is not surely better than this check"
IMAGE_WORDS = (
    "the image misleads: the model is surely better without its own image",
    "the image is not shown to be used: the model is not surely better with it",
)
ORDER_WORDS = (
    "the order of the frames misleads: the model is surely better with another",
    "the order of the frames is not shown to be used: the model is not surely better with it",
)

Answers = tuple[str | None, ...]
"""The answers to a question, one for each pass; None where no answer could be read."""


@dataclass(frozen=True, slots=True)
class Gap:
    """The difference between the model's accuracy and the accuracy of a row.

    Attributes:
        value: The model's accuracy minus the row's, on the same questions.
        ci95: 95 % interval of the difference, paired by question, with patients as clusters.
        permutation_p: Two-sided p value of the difference, from swaps of the two for whole patients; None where the
            interval does not lie below 0, so that nothing is claimed, or where it is not recorded.
        permutation_p_holm: The same after Holm's correction over all checks of the audit.
    """

    value: float
    ci95: Interval
    permutation_p: float | None = None
    permutation_p_holm: float | None = None

    @property
    def is_better(self) -> bool:
        """True if the row is surely better than the model: by its interval, and by its p value among all checks."""
        return self.ci95.high < 0 and self.permutation_p_holm is not None and self.permutation_p_holm <= CHECKS_ALPHA


@dataclass(frozen=True, slots=True)
class AuditRow:
    """One row of an audit.

    Attributes:
        name: Name of the row for programs, e.g. "blank_image".
        title: Name of the row for readers.
        phase: The phase that gave the answers: "final", "zero_shot", or "no model" if no model was asked.
        metric: Name of the measure, e.g. "accuracy".
        value: Value of the measure.
        n: Number of questions behind the value.
        ci95: 95 % interval with patients as clusters; None for an expected value.
        gap: The difference between the model's accuracy and the value; None if the value is not an accuracy.
        flag: The reason to be suspicious; None if there is none.
        note: Describes how the row was made.
    """

    name: str
    title: str
    phase: str
    metric: str
    value: float
    n: int
    ci95: Interval | None = None
    gap: Gap | None = None
    flag: str | None = None
    note: str = ""
    # The ids of the questions behind the value, where these are not all that have options; in no file.
    counts: Annotated[tuple[str, ...], Field(exclude=True), SkipJsonSchema()] = field(
        default=(), repr=False, compare=False
    )


@dataclass(frozen=True, slots=True)
class Collapse:
    """The answer that the model gives most often within a subtype, and how often this answer is the true one.

    Attributes:
        answer: The answer; None stands for replies that could not be read.
        share: Share of the subtype's questions that got this answer.
        truth_share: Share of the subtype's questions whose true answer it is.
        excess_ci95: 95 % interval of `share - truth_share`, with patients as clusters.
        n: Number of questions of the subtype.
        flag: The reason to be suspicious; None if there is none.
    """

    answer: str | None
    share: float
    truth_share: float
    excess_ci95: Interval
    n: int
    flag: str | None


@dataclass(frozen=True, slots=True)
class Audit:
    """The audit of one phase.

    Attributes:
        rows: All rows, the model's own accuracy first.
        collapse: The most frequent answer of each subtype, or of each task whose questions have no subtype.
    """

    rows: tuple[AuditRow, ...]
    collapse: dict[str, Collapse]

    @property
    def flagged(self) -> tuple[AuditRow, ...]:
        return tuple(row for row in self.rows if row.flag)


def accuracy_row(
    name: str,
    title: str,
    right: Sequence[float],
    patients: Sequence[str],
    *,
    model: Sequence[float] | None,
    phase: str = NO_MODEL,
    note: str = "",
) -> AuditRow:
    """Returns the row of an accuracy, with the model's distance to it on the same questions.

    Args:
        right: For each question 1 if the row's answer is right and 0 if it is wrong, or the probability of a right
            answer.
    """
    gap = None
    if model is not None:
        found = intervals.gain_interval(right, model, patients)
        p = patient_p(mean_of([*right, *model]), patients) if found.high < 0 else None
        gap = Gap(float(np.mean(model)) - float(np.mean(right)), found, p)
    interval = intervals.mean_interval(right, patients)
    return AuditRow(name, title, phase, ACCURACY, float(np.mean(right)), len(right), interval, gap, note=note)


def ids_of(questions: Iterable[Question]) -> tuple[str, ...]:
    return tuple(question.id for question in questions)


def flagged(row: AuditRow, flag: str | None) -> AuditRow:
    """Returns the row with a flag, which is added to a flag that it has already; None changes nothing."""
    return replace(row, flag="; ".join(filter(None, [row.flag, flag])) or None)


def flagged_if_level(rows: Sequence[AuditRow], words: Mapping[str, tuple[str, str]]) -> tuple[AuditRow, ...]:
    """Returns the rows of an audit, of which those are flagged that the model does not surely beat.

    Args:
        rows: All rows of the audit; the p values of those with a gap are adjusted as one family.
        words: Name of a row -> the flags of a row that is surely better than the model, and of one that the model does
            not surely beat. Rows without a gap, and those that are not named here, get none.
    """
    gaps = [row.gap for row in rows if row.gap]
    adjusted = iter(holm([1.0 if gap.permutation_p is None else gap.permutation_p for gap in gaps]).p_values)
    found = []
    for row in rows:
        if row.gap:
            p = next(adjusted)
            gap = row.gap if row.gap.permutation_p is None else replace(row.gap, permutation_p_holm=p)
            row = replace(row, gap=gap)
            if row.name in words and gap.ci95.low <= 0:
                row = flagged(row, words[row.name][0 if gap.is_better else 1])
        found.append(row)
    return tuple(found)


def audit_text(audit: Audit, *, title: str) -> str:
    """Returns the audit as plain text: the table of the rows, their flags, and the most frequent answers."""
    columns = ("row", "value", "n", "95 % interval", "model minus row", "")
    cells = tuple(
        (
            row.title,
            row.value,
            row.n,
            row.ci95 and row.ci95.text(),
            f"{row.gap.value:+.3f} ({row.gap.ci95.text(signed=True)})" if row.gap else None,
            "FLAG" if row.flag else "",
        )
        for row in audit.rows
    )
    collapse = tuple(
        (kind, found.answer, found.share, found.truth_share, found.n, "FLAG" if found.flag else "")
        for kind, found in audit.collapse.items()
    )
    answers = Table("Most frequent answer per subtype", (SUBTYPE, "answer", "share", "true share", "n", ""), collapse)
    notes = [f"95 % intervals: {intervals.METHOD}.", *(f"FLAG {row.title}: {row.flag}" for row in audit.flagged)]
    return "\n".join(
        [table_text(Table(title, columns, cells, tuple(notes))), *(["", table_text(answers)] if collapse else [])]
    )


@dataclass(frozen=True)
class AuditedPhase:
    """The answers of one phase, and the train questions from which answers can be learnt without looking.

    Attributes:
        phase: "final" or "zero_shot".
        parser: Name of the parser whose reading counts as the model's answer.
        questions: The questions with options that the phase was asked.
        parsed: Parsed replies by condition and parser, one per question in the order of `questions`.
        train: The questions with options of the train split; empty if there is no train split.
    """

    phase: str
    parser: str
    questions: tuple[Question, ...]
    parsed: ParsedReplies = field(repr=False)
    train: tuple[Question, ...] = field(repr=False)

    @cached_property
    def patients(self) -> list[str]:
        return [question.patient_id for question in self.questions]

    @cached_property
    def answers(self) -> list[Answers]:
        """The model's answers to each question, one for each pass."""
        return answers_in(self.parsed["image"][self.parser])

    @cached_property
    def right(self) -> list[float]:
        """For each question the share of the passes in which the model's answer is right, 0 to 1."""
        return rights_in(self.parsed["image"][self.parser])

    @property
    def num_passes(self) -> int:
        """The number of times that the model was asked each question with its image."""
        return num_passes(self.parsed["image"][self.parser])

    @cached_property
    def learnt(self) -> TrainAnswers | None:
        """The most frequent answers to the train questions; None if there are no train questions."""
        return train_answers(self.train)

    def right_of(self, answers: Sequence[str | None]) -> list[float]:
        """Returns for each question 1 if the answer given here is right, else 0."""
        return [float(said == asked.answer) for said, asked in zip(answers, self.questions, strict=True)]

    def seen(self, condition: Condition) -> Sequence[ParsedReply] | None:
        """Returns the parsed replies under a condition, read by the same parser; None if it was not asked."""
        rows = self.parsed.get(condition, {}).get(self.parser)
        return rows if rows and any(row.is_answered for row in rows) else None

    def row_of(self, name: str, title: str, answers: Sequence[str | None], *, note: str = "") -> AuditRow:
        """Returns the row of the accuracy of answers that no model gave, with the model's distance to it."""
        return accuracy_row(name, title, self.right_of(answers), self.patients, model=self.right, note=note)

    def probe_row(self, probe: Probe) -> AuditRow:
        """Returns the row of a probe, with the model's distance to it on the questions that the probe was asked."""
        if probe.asked is None:
            return self.row_of(probe.name, probe.title, probe.answers, note=probe.note)
        asked = [self.questions[number] for number in probe.asked]
        right = [float(said == question.answer) for said, question in zip(probe.answers, asked, strict=True)]
        model = [self.right[number] for number in probe.asked]
        patients = [question.patient_id for question in asked]
        row = accuracy_row(probe.name, probe.title, right, patients, model=model, note=probe.note)
        return replace(row, counts=ids_of(asked))

    def answered(self, answer: Callable[[Question], str | None]) -> list[str | None]:
        """Returns the answer of a rule to each question; None where the rule has none."""
        return [answer(question) for question in self.questions]


def subject_of(
    phase: str,
    questions: Sequence[Question],
    predictions: Sequence[Prediction],
    benchmark: Benchmark,
    *,
    parser: str,
    train: Sequence[Question],
) -> AuditedPhase:
    """Returns the subject of an audit, in which an unanswered question counts as wrong."""
    found = parse_all(questions, predictions, benchmark)
    if parser not in found["image"]:
        raise ValueError(f"the audit goes by the parser {parser!r}; these predictions have {', '.join(found['image'])}")
    asked = tuple(question for question in questions if is_choice(question))
    if not asked:
        raise ValueError("none of these questions has options; an audit asks whether answers could be guessed")
    parsed: Mapping[Condition, Mapping[str, list[ParsedReply]]] = {
        condition: {name: [row for row in rows if is_choice(row.question)] for name, rows in parsers.items()}
        for condition, parsers in found.items()
    }
    return AuditedPhase(phase, parser, asked, parsed, tuple(question for question in train if is_choice(question)))


def answers_in(rows: Sequence[ParsedReply]) -> list[Answers]:
    """Returns the answers to each question, one for each pass; None where no answer could be read."""
    return [tuple(reply.parsed for reply in row.passes) for row in rows]


def rights_in(rows: Sequence[ParsedReply]) -> list[float]:
    """Returns for each question the share of the passes whose answer is right, 0 to 1."""
    return [row.share_right for row in rows]


def is_choice(question: Question) -> bool:
    """Returns whether the question has several options, one of which is right."""
    return len(question.options) > 1 and question.answer_kind in ("choice", "yes_no")
