"""Scores of answers that are given without looking at the image. A model has to do better than these baselines.

"random" is an expected value. The others are real answers scored by the benchmark's own metric: "majority" gives the
most frequent train answer of the task, "constant_letter" the best single position among the options (it is chosen on
the evaluated questions themselves, so it flatters), and "question_prior" the most frequent train answer to the same
question text with the same options, or the task's majority where the train questions never asked it. Ties go to the
answer seen first in train, or to the first position.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from medtune.data.types import Question
from medtune.eval.metric import Metric, ParsedReply
from medtune.eval.statistics import Numbers
from medtune.eval.statistics.column_sums import Statistic

BASELINES = ("random", "majority", "constant_letter", "question_prior", "text_only", "other_image")


@dataclass(frozen=True, slots=True)
class TrainAnswers:
    """The most frequent answers in the train split."""

    by_task: Mapping[Hashable, str]
    by_prompts: Mapping[Hashable, str]  # The most frequent answer to each question text with its set of options.

    def majority(self, question: Question) -> str | None:
        """Returns the most frequent train answer of the question's task; None if the train split lacks the task."""
        return self.by_task.get(_task(question))

    def prior(self, question: Question) -> str | None:
        """Returns the most frequent train answer to the same text and options, or else that of the task."""
        return self.by_prompts.get(_wording(question), self.majority(question))


def train_answers(train: Iterable[Question]) -> TrainAnswers | None:
    """Returns what the baselines answer: the most frequent answers of the train split; None if that is empty."""
    tasks, wordings = _Counts(), _Counts()
    for question in train:
        tasks.add(_task(question), question.answer)
        wordings.add(_wording(question), question.answer)
    return TrainAnswers(tasks.most_frequent(), wordings.most_frequent()) if tasks.counted else None


class TrainSplit(Iterable[Question]):
    """The questions of a train split, read anew by each who goes through them; their answers are counted once.

    The 712,000 questions of a large split take 8 seconds and 1.8 GB, which each validation of a run would spend.
    """

    def __init__(self, read: Callable[[], Iterable[Question]]) -> None:
        self._read = read

    def __iter__(self) -> Iterator[Question]:
        return iter(self._read())

    def __bool__(self) -> bool:
        return self.answers is not None

    @cached_property
    def answers(self) -> TrainAnswers | None:
        return train_answers(self)


@dataclass(frozen=True, slots=True)
class Blind:
    """The baselines of some questions, from which those of any part of them are computed."""

    questions: Sequence[Question]
    metric: Metric
    # The metric of each way to answer, by the baseline's name; of several ways the best one counts.
    measured: Mapping[str, Sequence[Statistic]]

    def of(self, part: Numbers) -> dict[str, float | None]:
        """Returns the baselines of the questions with these numbers, by name; None where one does not apply."""
        chosen = [self.questions[number] for number in part.tolist()]
        has_options = all(question.options for question in chosen)
        found = {
            name: self.metric.best_of(each.part(part).value() for each in ways) for name, ways in self.measured.items()
        }
        return {
            "random": self.metric.guessing(chosen),
            **found,
            "constant_letter": found["constant_letter"] if has_options else None,
        }


def blind(questions: Sequence[Question], train: TrainAnswers | None, metric: Metric) -> Blind:
    """Returns the four baselines that need no model; `train` is None where there is no train split."""

    def answered(answer: Callable[[Question], str | None]) -> Statistic:
        return metric.on([ParsedReply(question, None, answer(question)) for question in questions])

    def at(position: int) -> Callable[[Question], str | None]:
        return lambda question: question.options[position] if position < len(question.options) else None

    num_positions = max(len(question.options) for question in questions)
    measured: dict[str, list[Statistic]] = {
        "majority": [],
        "constant_letter": [answered(at(position)) for position in range(num_positions)],
        "question_prior": [],
    }
    if train:
        measured["majority"].append(answered(train.majority))
        measured["question_prior"].append(answered(train.prior))
    return Blind(questions, metric, measured)


def _task(question: Question) -> Hashable:
    return question.facets.get("task")


def _wording(question: Question) -> Hashable:
    return question.text, frozenset(question.options)


class _Counts:
    def __init__(self) -> None:
        self.counted: defaultdict[Hashable, Counter[str]] = defaultdict(Counter)

    def add(self, asked: Hashable, answer: str) -> None:
        self.counted[asked][answer] += 1

    def most_frequent(self) -> dict[Hashable, str]:
        return {asked: answers.most_common(1)[0][0] for asked, answers in self.counted.items()}
