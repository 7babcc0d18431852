"""A benchmark is a composition: prompts, parsers, metrics and the sources that it accepts."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import update_wrapper
from itertools import compress
from typing import Protocol

from medtune.data.media.augment import AllowedChanges, allow_nothing
from medtune.data.types import AnswerFormat, Condition, Interval, Prediction, Prompt, Question
from medtune.eval.asking.official_prompts import OURS, OfficialPrompts
from medtune.eval.asking.protocol import AnswerProtocol
from medtune.eval.judge.task import JudgeTask
from medtune.eval.published_numbers import Reference, no_references
from medtune.eval.scoring.bertscore import BertModel
from medtune.eval.scoring.tables import Table
from medtune.eval.statistics.summed_metric import Sums
from medtune.eval.workload import Workload


@dataclass(frozen=True, slots=True)
class ParsedReply:
    """A question, what was answered, and what a parser read from it.

    Attributes:
        prediction: None where the question was never answered: it counts as wrong.
        parsed: The option (or value) that was read; None where nothing could be.
        unscored: Whether the reply waits for a judge: it is neither right nor wrong, and no score counts it.
    """

    question: Question
    prediction: Prediction | None
    parsed: str | None
    unscored: bool = False

    @property
    def correct(self) -> bool:
        """Whether the parsed answer is the true one, to the letter."""
        return self.parsed is not None and self.parsed == self.question.answer


def scored_everywhere(sides: Sequence[Sequence[ParsedReply]]) -> list[list[ParsedReply]]:
    """Returns each side's rows of the questions that wait for a judge on none of them.

    Args:
        sides: Rows of the same questions in the same order.

    Raises:
        ValueError: The sides have different numbers of rows.
    """
    kept = [not any(row.unscored for row in answers) for answers in zip(*sides, strict=True)]
    return [list(compress(rows, kept)) for rows in sides]


class SummedMetric:
    """A metric that column sums over the parsed replies determine; called, it gives the value."""

    def __init__(self, sums: Callable[[Sequence[ParsedReply]], Sums]) -> None:
        self.sums = sums
        update_wrapper(self, sums)

    def __call__(self, parsed: Sequence[ParsedReply]) -> float:
        """Returns the value; ValueError where there is no row."""
        return self.sums(parsed).value()


def measure(metric: Metric, rows: Sequence[ParsedReply]) -> Callable[[Sequence[int]], float]:
    """Returns what gives the metric of any part of the rows, by their numbers; the part holds no unscored row.

    A metric of sums looks at each row once, however many parts are asked for.
    """
    if isinstance(metric, SummedMetric):
        sums = metric.sums(rows)
        return lambda chosen: sums.part(chosen).value()
    return lambda chosen: metric([rows[number] for number in chosen])


def every_question(question: Question) -> bool:
    """Returns True: the metric is about all questions."""
    return True


@dataclass(frozen=True, slots=True)
class Scale:
    """How a metric's numbers are to be read.

    Attributes:
        worst: Of a silent model; inf where an error has no limit.
        best: Of a perfect one; below `worst` where lower is better.
        covers: The questions that the metric is about; where there is none of them, it is left out.
    """

    worst: float = 0.0
    best: float = 1.0
    covers: Callable[[Question], bool] = every_question

    @property
    def bounds(self) -> Interval:
        """Lowest and highest possible value."""
        return Interval(min(self.worst, self.best), max(self.worst, self.best))


Verdicts = Mapping[Condition, Mapping[str, Sequence[ParsedReply]]]


@dataclass(frozen=True, slots=True)
class Evidence:
    """All that a benchmark's own tables may be made of.

    Attributes:
        predictions: Every one of the file, further repeats included; `judging.judge` reads those.
        verdicts: Condition -> parser -> parsed replies of the first pass.
        parser: Whose reading is primary.
        text_model: For BERTScore; None leaves it out.
    """

    questions: Sequence[Question]
    predictions: Sequence[Prediction]
    verdicts: Verdicts
    parser: str
    text_model: BertModel | None = None

    def rows(self, condition: Condition) -> Sequence[ParsedReply]:
        """Returns one parsed reply per question, by the primary parser.

        A likelihood says nothing of questions without options; those go by the first parser that has them.
        """
        read = self.verdicts.get(condition, {})
        found = dict[str, ParsedReply]()
        for rows in (read.get(self.parser, ()), *read.values()):
            for row in rows:
                found.setdefault(row.question.id, row)
        return list(found.values())


class Tables(Protocol):
    """Makes a benchmark's own tables, in the shape of its paper."""

    def __call__(self, evidence: Evidence) -> Sequence[Table]:
        """Returns the tables in the order to be shown."""


Render = Callable[[Question, AnswerFormat], Prompt]
Parser = Callable[[str, Question], str | None]
Metric = Callable[[Sequence[ParsedReply]], float]


def no_tables(evidence: Evidence) -> Sequence[Table]:
    """Returns no tables: the benchmark has none of its own."""
    return ()


@dataclass(frozen=True, slots=True)
class Benchmark:
    """One benchmark.

    Attributes:
        version: Changes whenever a number could: prompts, parsers or metrics.
        licence: Of the questions and media, not of this code.
        sources: Names of the sources whose prepared folders it accepts; the first is the default.
        facets: What scores are broken down by.
        render: Words a question; training and evaluation use this one function.
        parsers: Reply -> option, by name; the first is the default.
        metrics: By name; the first is primary.
        higher_is_better: Of the primary metric.
        examples: Synthetic questions, for the contract tests and for a first look.
        scales: Of the metrics that are not shares of all questions, by name.
        renders: Other wordings, for conditions that change the prompt, e.g. "with_anatomy".
        tables: What `medtune score` prints beside the scores.
        judging: How free answers are judged by a language model; None where no answer needs it.
        references: Printed numbers of other models on other data, comparable with the primary metric.
        protocol: How its authors had their models answer; None where they do not say.
        official: How the benchmark's own prompts are read; None where there are none to read.
        wording: Whose prompts `render` gives: "ours", or which official ones.
        allowed_changes: Which changes of a training image leave a question's answer true.
        workload: What `medtune bench` needs to know of the benchmark: its size, and data that stand in for its own.
    """

    title: str
    version: str
    licence: str
    url: str
    citation: str
    sources: tuple[str, ...]
    facets: tuple[str, ...]
    render: Render
    parsers: Mapping[str, Parser]
    metrics: Mapping[str, Metric]
    higher_is_better: bool
    examples: tuple[Question, ...]
    scales: Mapping[str, Scale] = field(default_factory=dict)
    renders: Mapping[Condition, Render] = field(default_factory=dict)
    tables: Tables = no_tables
    references: Callable[[], Sequence[Reference]] = no_references
    allowed_changes: AllowedChanges = allow_nothing
    judging: JudgeTask | None = None
    protocol: AnswerProtocol | None = None
    official: OfficialPrompts | None = None
    wording: str = OURS
    workload: Workload = field(default_factory=Workload)

    def scale(self, metric: str) -> Scale:
        """Returns how the metric of that name is to be read: as a share of all questions unless `scales` says more."""
        return self.scales.get(metric, Scale())

    @property
    def primary(self) -> str:
        """Name of the metric that results and checkpoints go by."""
        return next(iter(self.metrics))

    def for_part(self, questions: Sequence[Question]) -> Benchmark:
        """Returns the benchmark for some of its questions: the first metric that is about any of them is primary."""
        about = (name for name in self.metrics if any(map(self.scale(name).covers, questions)))
        first = next(about, self.primary)
        return replace(self, metrics={first: self.metrics[first], **self.metrics})
