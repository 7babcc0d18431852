"""What answers without looking at an image would score: the floor that a model has to leave.

Random is an expectation. The others are real answers put through the benchmark's own metric, so that they stand on
its scale: the most frequent train answer of a task ("majority"), the best single position in the options
("constant_letter", chosen on the evaluated questions themselves, so it flatters), and the most frequent train answer
to the same question text with the same options ("question_prior", which falls back to the task's majority where the
train questions never asked it). Ties go to the answer seen first in train, or to the first position.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from medtune.data.types import Question
from medtune.eval.benchmark import Judged, Metric
from medtune.eval.metrics.accuracy import metric as accuracy

BASELINES = ("random", "majority", "constant_letter", "question_prior", "text_only", "other_image")


def random_choice(questions: Sequence[Question]) -> float | None:
    """Returns the expected accuracy of guessing, mean(1 / options); None where a question has no options.

    Example:
        >>> options = ("a", "b", "c", "d")
        >>> random_choice([Question("q", "m", "?", options[:n], "a", "choice", "p") for n in (2, 4)])
        0.375
    """
    if not all(question.options for question in questions):
        return None
    return sum(1 / len(question.options) for question in questions) / len(questions)


@dataclass(frozen=True, slots=True)
class TrainAnswers:
    """The most frequent answers of the train split: to each task, and to each wording with its set of options."""

    by_task: Mapping[Hashable, str]
    by_wording: Mapping[Hashable, str]


def train_answers(train: Sequence[Question]) -> TrainAnswers | None:
    """Returns what a model could have learned from the train questions alone; None where there are none."""
    if not train:
        return None
    return TrainAnswers(by_task=_most_frequent(train, _task), by_wording=_most_frequent(train, _wording))


def majority(questions: Sequence[Question], train: TrainAnswers, metric: Metric) -> float:
    """Returns the metric of always giving a task's most frequent train answer; unknown tasks count as wrong."""
    return metric([Judged(question, None, train.by_task.get(_task(question))) for question in questions])


def question_prior(questions: Sequence[Question], train: TrainAnswers, metric: Metric) -> float:
    """Returns the metric of giving the most frequent train answer to the same words and options."""
    return metric(
        [
            Judged(question, None, train.by_wording.get(_wording(question), train.by_task.get(_task(question))))
            for question in questions
        ]
    )


def constant_letter(questions: Sequence[Question], metric: Metric) -> float | None:
    """Returns the metric of always choosing one position, the best one; None where a question has no options."""
    if not all(question.options for question in questions):
        return None
    return max(
        metric([Judged(q, None, q.options[position] if position < len(q.options) else None) for q in questions])
        for position in range(max(len(question.options) for question in questions))
    )


def blind_baselines(
    questions: Sequence[Question], train: TrainAnswers | None, metric: Metric
) -> dict[str, float | None]:
    """Returns the four baselines that need no model, by name; None where one does not apply.

    Args:
        questions: Those evaluated, at least one.
        train: Of the train split of the same benchmark.
        metric: The benchmark's primary one; "random" is known for accuracy alone.
    """
    return {
        "random": random_choice(questions) if metric is accuracy else None,
        "majority": majority(questions, train, metric) if train else None,
        "constant_letter": constant_letter(questions, metric),
        "question_prior": question_prior(questions, train, metric) if train else None,
    }


def _task(question: Question) -> Hashable:
    return question.facets.get("task")


def _wording(question: Question) -> Hashable:
    return question.text, frozenset(question.options)


def _most_frequent(train: Iterable[Question], key: Callable[[Question], Hashable]) -> dict[Hashable, str]:
    answers: defaultdict[Hashable, Counter[str]] = defaultdict(Counter)
    for question in train:
        answers[key(question)][question.answer] += 1
    return {name: counts.most_common(1)[0][0] for name, counts in answers.items()}
