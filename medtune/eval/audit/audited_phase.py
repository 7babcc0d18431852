"""What an audit asks about: the answers of one phase, and the train questions from which answers can be learnt."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from medtune.data.types import Condition, Prediction, Question
from medtune.eval.audit.probes import Probe
from medtune.eval.audit.row import AuditRow, accuracy_row, ids_of
from medtune.eval.benchmark import Benchmark
from medtune.eval.evidence import ParsedReplies
from medtune.eval.metric import ParsedReply, num_passes
from medtune.eval.scoring.baselines import TrainAnswers, train_answers
from medtune.eval.scoring.parse_replies import parse_all

Answers = tuple[str | None, ...]
"""The answers to a question, one for each pass; None where no answer could be read."""


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
