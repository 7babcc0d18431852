"""What is audited: one phase's answers to the questions that have options, read by one parser."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from medtune.data.types import Condition, Prediction, Question
from medtune.eval.audit.row import AuditRow, accuracy_row
from medtune.eval.benchmark import Benchmark, ParsedReplies
from medtune.eval.parsed_reply import ParsedReply
from medtune.eval.scoring.baselines import TrainAnswers, train_answers
from medtune.eval.scoring.parse_replies import parse_all


@dataclass(frozen=True)
class Subject:
    """One phase's answers, and what could be learnt without looking.

    Attributes:
        phase: "final" or "zero_shot".
        parser: Whose reading counts as the model's answer.
        questions: Those with options that the phase was asked.
        parsed: Condition -> parser -> parsed replies, one per question and in their order.
        train: The train split's questions with options; empty where there is none.
    """

    phase: str
    parser: str
    questions: tuple[Question, ...]
    parsed: ParsedReplies = field(repr=False)
    train: tuple[Question, ...] = field(repr=False)

    @cached_property
    def patients(self) -> list[str]:
        """Of each question."""
        return [question.patient_id for question in self.questions]

    @cached_property
    def answers(self) -> list[str | None]:
        """The model's, of each question; None where nothing could be read."""
        return [row.parsed for row in self.parsed["image"][self.parser]]

    @cached_property
    def right(self) -> list[float]:
        """Whether the model answered each question rightly: 1 or 0."""
        return self.right_of(self.answers)

    @cached_property
    def learnt(self) -> TrainAnswers | None:
        """What the train questions alone teach; None where there are none."""
        return train_answers(self.train)

    def right_of(self, answers: Sequence[str | None]) -> list[float]:
        """Returns whether each of some answers to the questions is right: 1 or 0."""
        return [float(said == asked.answer) for said, asked in zip(answers, self.questions, strict=True)]

    def seen(self, condition: Condition) -> Sequence[ParsedReply] | None:
        """Returns the parsed replies under a condition, read by the same parser; None where it was not asked."""
        rows = self.parsed.get(condition, {}).get(self.parser)
        return rows if rows and any(row.prediction for row in rows) else None

    def row_of(self, name: str, title: str, answers: Sequence[str | None], *, note: str = "") -> AuditRow:
        """Returns the accuracy of answers that need no model, with the model's gap to it."""
        return accuracy_row(name, title, self.right_of(answers), self.patients, model=self.right, note=note)

    def answered(self, answer: Callable[[Question], str | None]) -> list[str | None]:
        """Returns what a rule says to each question."""
        return [answer(question) for question in self.questions]


def subject_of(
    phase: str,
    questions: Sequence[Question],
    predictions: Sequence[Prediction],
    benchmark: Benchmark,
    *,
    parser: str,
    train: Sequence[Question],
) -> Subject:
    """Returns what is to be audited; an unanswered question counts as wrong.

    Args:
        phase: "final" or "zero_shot".
        questions: All that the phase was asked.
        predictions: The phase's, and what was asked for the audit beside it.
        benchmark: Whose parsers read the answers.
        parser: The primary one.
        train: The train split.

    Raises:
        ValueError: A prediction does not fit the questions, none has options, or the parser read nothing.
    """
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
    return Subject(phase, parser, asked, parsed, tuple(question for question in train if is_choice(question)))


def is_choice(question: Question) -> bool:
    """Returns whether the question has options of which one is right."""
    return len(question.options) > 1 and question.answer_kind in ("choice", "yes_no")
