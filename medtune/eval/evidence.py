"""The answers of one evaluation, from which a benchmark makes its own tables, and papers' tables take their cells."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from medtune.data.grouping import grouped
from medtune.data.types import Condition, Prediction, Question
from medtune.eval.metric import ParsedReply, passes_of
from medtune.eval.scoring.bertscore import BertModel

ParsedReplies = Mapping[Condition, Mapping[str, Sequence[ParsedReply]]]


@dataclass(frozen=True, slots=True)
class Evidence:
    """The answers of one evaluation, from which a benchmark may make its own tables.

    Attributes:
        questions: The questions that were to be answered.
        predictions: The predictions.
        parsed: Parsed replies by condition and parser. `Benchmark.tables` gets those of one pass, so that each row is
            one reply; `Benchmark.repeat_tables` gets all of them, so that `passes` of a row are the replies to it.
        parser: Name of the primary parser.
        text_model: The model for the BERTScore of free text; None leaves it out.
        unlike_published: Why the numbers must not stand among published ones, as a clause; "" if they may.
        train: The train split of the same folder; empty where there is none.
        before: The primary metric of the same model before training; None if it is not known.
    """

    questions: Sequence[Question]
    predictions: Sequence[Prediction]
    parsed: ParsedReplies
    parser: str
    text_model: BertModel | None = None
    unlike_published: str = ""
    train: Iterable[Question] = ()
    before: float | None = None
    _rows: dict[Condition, Sequence[ParsedReply]] = field(default_factory=dict, init=False, repr=False, compare=False)
    _parts: dict[object, dict[Hashable, list[int]]] = field(default_factory=dict, init=False, repr=False, compare=False)

    def rows(self, condition: Condition) -> Sequence[ParsedReply]:
        """Returns one parsed reply per question under a condition, read by the primary parser.

        A likelihood reading has no reply to questions without options. For these, the reply of the first parser that
        has one is returned.
        """
        if condition not in self._rows:
            read = self.parsed.get(condition, {})
            found = dict[str, ParsedReply]()
            for rows in (read.get(self.parser, ()), *read.values()):
                for row in rows:
                    found.setdefault(row.question.id, row)
            self._rows[condition] = tuple(found.values())
        return self._rows[condition]

    def part(
        self, condition: Condition, of: Callable[[Question], Hashable], values: Iterable[Hashable]
    ) -> Sequence[ParsedReply]:
        """Returns those of `rows` for whose question a function gives one of some values.

        The function is asked once for each question, however many parts of it there are.
        """
        rows = self.rows(condition)
        if (condition, of) not in self._parts:
            self._parts[condition, of] = grouped(range(len(rows)), lambda place: of(rows[place].question))
        known = self._parts[condition, of]
        return [rows[place] for place in sorted(place for value in values for place in known.get(value, ()))]

    def by_pass(self) -> list[Evidence]:
        """Returns the evidence of each pass, with one reply to a question under every condition.

        If conditions were asked in different numbers of passes, there are as many passes as it takes to count all
        passes of each condition equally often: with five passes with the image and one without it, the one is in each.
        """
        passes = {
            condition: {name: passes_of(rows) for name, rows in parsers.items()}
            for condition, parsers in self.parsed.items()
        }
        numbers = [len(rows) for parsers in passes.values() for rows in parsers.values()]
        if max(numbers) == 1:
            return [self]
        return [self._of_pass(number, passes) for number in range(math.lcm(*numbers))]

    def _of_pass(
        self, number: int, passes: Mapping[Condition, Mapping[str, Sequence[Sequence[ParsedReply]]]]
    ) -> Evidence:
        parsed = {
            condition: {name: rows[number % len(rows)] for name, rows in parsers.items()}
            for condition, parsers in passes.items()
        }
        said = {
            row.prediction.key: row.prediction
            for parsers in parsed.values()
            for rows in parsers.values()
            for row in rows
            if row.prediction is not None
        }
        return replace(self, predictions=[*said.values()], parsed=parsed)
