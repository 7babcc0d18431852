"""Computes for each answer class of a task how often it is found: confusion matrix, sensitivity, specificity, ROC area.

A task's questions share answer classes if they are closed and choose among the same few answers, such as benign,
malignant and normal. A class is compared with all others of its task, over the questions that offer it as an option.
A reply without a readable answer counts against the sensitivity of the true class, and is no false alarm for any other.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from medtune.data.grouping import grouped
from medtune.data.types import Interval, Prediction, Question
from medtune.eval.metric import ParsedReply
from medtune.eval.scoring.parse_replies import LIKELIHOOD, PER_TOKEN
from medtune.eval.statistics import Floats
from medtune.eval.statistics.calibration import brier_score, option_probabilities, true_place
from medtune.eval.statistics.column_sums import Sums
from medtune.eval.statistics.intervals import mean_interval, statistic_interval, wilson

FEW_PATIENTS = 5
"""With fewer patients on one side of the curve, leaving one out tells too little about how much the area varies."""

MAX_LEVELS = 256
"""The largest number of different scores in an interval. More are joined into quantiles, which changes the area of
10,000 simulated scores by less than 0.0001."""

MAX_CLASSES = 20
"""The largest number of classes of a task. The value is our own choice: a larger matrix cannot be read."""
MIN_RECURRING = 2
"""The number of questions that offer a class, on average, from which a task's answers count as classes."""
_NONE_TRUE, _NONE_ELSE = "no question has this true answer", "no question has another true answer"
_NO_SHARES = "no likelihood reading, so there are no probabilities"


def roc_area(scores: Sequence[float] | Floats, is_true: Sequence[bool]) -> Sums:
    """Returns the sums whose statistic is the area under the ROC curve; it is NaN if only one of both sides occurs.

    The area is the probability that a question of the class has a higher score than another question; equal scores
    count one half.

    >>> roc_area([0.9, 0.4, 0.4, 0.1], [True, True, False, False]).value()
    0.875

    Source: Hanley & McNeil 1982, doi:10.1148/radiology.143.1.7063747; scikit-learn, `roc_auc_score`.
    """
    levels, places = np.unique(np.asarray(scores, dtype=np.float64), return_inverse=True)
    number = len(levels)

    def finish(sums: Floats) -> Floats:
        true, other = sums[..., :number], sums[..., number:]
        below = np.cumsum(other, axis=-1) - other / 2
        pairs = true.sum(axis=-1) * other.sum(axis=-1)
        won = (true * below).sum(axis=-1)
        area: Floats = np.divide(won, pairs, out=np.full_like(won, np.nan), where=pairs > 0)
        return area

    return Sums(
        rows=np.arange(len(places)),
        columns=places + number * ~np.asarray(is_true, dtype=np.bool_),
        values=np.ones(len(places)),
        num_rows=len(places),
        width=2 * number,
        finish=finish,
    )


def roc_area_interval(scores: Sequence[float], is_true: Sequence[bool], patients: Sequence[str]) -> Interval:
    """Returns the 95 % interval of the area under the ROC curve, with patients as clusters.

    If fewer than `FEW_PATIENTS` patients are on one of the two sides, the interval is Wilson's with n = number of
    patients on the smaller side.
    """
    sides = ({p for p, true in zip(patients, is_true, strict=True) if true is side} for side in (True, False))
    fewest = min(map(len, sides))
    if fewest < FEW_PATIENTS:
        return wilson(roc_area(scores, is_true).value() * fewest, fewest)
    statistic = roc_area(_joined(np.asarray(scores, dtype=np.float64)), is_true)
    return statistic_interval(statistic, patients, right=None)


def _joined(scores: Floats) -> Floats:
    if len(np.unique(scores)) <= MAX_LEVELS:
        return scores
    edges = np.quantile(scores, np.linspace(0, 1, MAX_LEVELS + 1)[1:-1])
    return np.searchsorted(np.unique(edges), scores).astype(np.float64)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassScore:
    """One number about an answer class or a task.

    Attributes:
        value: The number, 0 to 1; None if it is not defined on these questions.
        n: Number of questions behind it.
        ci95: 95 % interval with patients as clusters; None without a value.
        reason: Reason why there is no value; "" if there is one.
    """

    value: float | None
    n: int
    ci95: Interval | None = None
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerClass:
    """One answer class of a task against the rest.

    Attributes:
        name: The answer.
        support: Number of questions whose true answer it is.
        offered: Number of questions that offer it as an option.
        sensitivity: Share of the questions with this true answer that were answered so.
        specificity: Share of the other questions that offer it and were not answered so.
        auc: Area under the ROC curve of its probability, over the questions that offer it.
    """

    name: str
    support: int
    offered: int
    sensitivity: ClassScore
    specificity: ClassScore
    auc: ClassScore


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskClasses:
    """The answer classes of a task, or of a subtype of a task.

    Attributes:
        name: "TASK: SUBTYPE", or "TASK" for questions without a subtype.
        task: Name of the task.
        n: Number of questions.
        classes: The classes in the order of the matrix.
        confusion: For each true class the number of replies, in all passes, with each class; the last number
            counts those without a readable answer.
        probabilities: Name of the reading that gives the probabilities; "" if there is none.
        brier: Brier score of the probabilities, 0 to 1, lower is better.
    """

    name: str
    task: str
    n: int
    classes: tuple[AnswerClass, ...]
    confusion: tuple[tuple[int, ...], ...]
    probabilities: str
    brier: ClassScore


class ByTask(NamedTuple):
    """The tasks of a phase that have answer classes, and those that have none.

    Attributes:
        found: The tasks that have answer classes.
        left_out: Name of each other task with closed questions -> the reason why it has none.
    """

    found: tuple[TaskClasses, ...]
    left_out: Mapping[str, str]


class _Shares(NamedTuple):
    patient: str
    true: str
    of: Mapping[str, float]
    brier: float


def classes_by_task(parsed: Mapping[str, Sequence[ParsedReply]], *, parser: str, facet: str) -> ByTask:
    """Returns the answer classes of each task with closed questions, in order of appearance.

    Args:
        parser: Name of the parser whose answers are counted. The probabilities are those of the likelihood reading,
            per token if this is the name of that reading.
    """
    reading = PER_TOKEN if parser == PER_TOKEN else LIKELIHOOD
    likelihoods = {row.question.id: row.prediction for row in parsed.get(reading, ()) if row.prediction}
    tasks = grouped(
        (row for row in parsed[parser] if is_scored_choice(row)), lambda row: task_name(row.question, facet)
    )
    found, left_out = [], {}
    for name, rows in tasks.items():
        classes = shared_classes([row.question for row in rows])
        if isinstance(classes, str):
            left_out[name] = classes
        else:
            read = [(row, likelihoods.get(row.question.id)) for row in rows]
            shares = [_shares(row, said, reading) for row, said in read if said and said.option_logprobs]
            found.append(_task(name, rows, classes, shares, reading=reading))
    return ByTask(tuple(found), left_out)


def is_scored_choice(row: ParsedReply) -> bool:
    """Returns whether a reply chooses among given answers, and does not wait for a judge."""
    return row.question.answer_kind in ("choice", "yes_no") and not row.unscored


def shared_classes(questions: Sequence[Question]) -> Sequence[str] | str:
    """Returns the sorted answers that a task's questions choose among, or the reason why these are no classes."""
    # A scale that offers only some numbers may have a truth between them, which is a class too.
    offered = [{*question.options, question.answer} for question in questions]
    classes = sorted(set[str]().union(*offered))
    if len(classes) > MAX_CLASSES:
        return f"{len(classes)} different answers, more than {MAX_CLASSES}"
    if sum(map(len, offered)) < MIN_RECURRING * len(classes):
        return "its questions have answers of their own, which do not recur"
    return classes


def task_name(question: Question, facet: str) -> str:
    """Returns "TASK: LEVEL" with the question's level of a facet finer than the task, or "TASK" if it has none."""
    task, part = question.facets.get("task", "all"), question.facets.get(facet)
    return task if part is None or facet == "task" else f"{task}: {part}"


def _shares(row: ParsedReply, said: Prediction, reading: str) -> _Shares:
    shown, logprobs = said.options_shown or row.question.options, said.option_logprobs or ()
    if reading == PER_TOKEN and said.option_tokens:
        logprobs = tuple(total / number for total, number in zip(logprobs, said.option_tokens, strict=True))
    shares = option_probabilities(logprobs)
    true = row.question.answer
    brier = brier_score(shares, true_place(shown, true))
    return _Shares(row.question.patient_id, true, dict(zip(shown, shares, strict=True)), brier)


def _task(
    name: str, rows: Sequence[ParsedReply], classes: Sequence[str], shares: Sequence[_Shares], *, reading: str
) -> TaskClasses:
    place = {label: number for number, label in enumerate(classes)}
    replies = [reply for row in rows for reply in row.passes]
    true = [place[reply.question.answer] for reply in replies]
    # The last column holds the replies from which no class could be read.
    said = [len(classes) if reply.parsed is None else place.get(reply.parsed, len(classes)) for reply in replies]
    cells = np.zeros((len(classes), len(classes) + 1), dtype=np.intp)
    np.add.at(cells, (true, said), 1)
    brier = _mean([each.brier for each in shares], [each.patient for each in shares], _NO_SHARES)
    return TaskClasses(
        name=name,
        task=rows[0].question.facets.get("task", "all"),
        n=len(rows),
        classes=tuple(_class(label, rows, shares) for label in classes),
        confusion=tuple(tuple(line) for line in cells.tolist()),
        probabilities=reading if shares else "",
        brier=brier,
    )


def _class(label: str, rows: Sequence[ParsedReply], shares: Sequence[_Shares]) -> AnswerClass:
    own = [row for row in rows if row.question.answer == label]
    rest = [row for row in rows if row.question.answer != label and label in (row.question.options or (label,))]
    return AnswerClass(
        name=label,
        support=len(own),
        offered=len(own) + len(rest),
        sensitivity=_mean([_share_said(label, row) for row in own], _patients(own), _NONE_TRUE),
        specificity=_mean([1 - _share_said(label, row) for row in rest], _patients(rest), _NONE_ELSE),
        auc=_area(label, [each for each in shares if label in each.of]),
    )


def _share_said(label: str, row: ParsedReply) -> float:
    return sum(reply.parsed == label for reply in row.passes) / len(row.passes)


def _area(label: str, shares: Sequence[_Shares]) -> ClassScore:
    if not shares:
        return ClassScore(value=None, n=0, reason=_NO_SHARES)
    is_true = [each.true == label for each in shares]
    if len(set(is_true)) < 2:
        return ClassScore(value=None, n=len(shares), reason=_NONE_ELSE if any(is_true) else _NONE_TRUE)
    scores, patients = [each.of[label] for each in shares], [each.patient for each in shares]
    ci95 = roc_area_interval(scores, is_true, patients)
    return ClassScore(value=roc_area(scores, is_true).value(), n=len(shares), ci95=ci95)


def _mean(values: Sequence[float], patients: Sequence[str], without: str) -> ClassScore:
    if not values:
        return ClassScore(value=None, n=0, reason=without)
    ci95 = mean_interval(values, patients)
    return ClassScore(value=sum(values) / len(values), n=len(values), ci95=ci95)


def _patients(rows: Sequence[ParsedReply]) -> list[str]:
    return [row.question.patient_id for row in rows]
