"""A benchmark is a composition: prompts, parsers, metrics and the sources that it accepts."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from medtune.data.media.augment import AllowedChanges, allow_nothing
from medtune.data.types import AnswerFormat, Condition, Prediction, Prompt, Question
from medtune.eval.asking.official_prompts import OURS, OfficialPrompts
from medtune.eval.asking.protocol import AnswerProtocol
from medtune.eval.judge.task import JudgeTask
from medtune.eval.metric import Metric
from medtune.eval.parsed_reply import ParsedReply
from medtune.eval.published_numbers import Reference, no_references
from medtune.eval.scoring.bertscore import BertModel
from medtune.eval.scoring.tables import Table

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
        examples: Synthetic questions, for the contract tests and for a first look.
        renders: Other wordings, for conditions that change the prompt, e.g. "with_anatomy".
        tables: What `medtune score` prints beside the scores.
        judging: How free answers are judged by a language model; None where no answer needs it.
        references: Printed numbers of other models on other data, comparable with the primary metric.
        protocol: How its authors had their models answer; None where they do not say.
        official: How the benchmark's own prompts are read; None where there are none to read.
        wording: Whose prompts `render` gives: "ours", or which official ones.
        keeps: Which changes of a training image leave a question's answer true.
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
    examples: tuple[Question, ...]
    renders: Mapping[Condition, Render] = field(default_factory=dict)
    tables: Tables = no_tables
    references: Callable[[], Sequence[Reference]] = no_references
    allowed_changes: AllowedChanges = allow_nothing
    judging: JudgeTask | None = None
    protocol: AnswerProtocol | None = None
    official: OfficialPrompts | None = None
    wording: str = OURS

    @property
    def primary(self) -> str:
        """Name of the metric that results and checkpoints go by."""
        return next(iter(self.metrics))

    @property
    def primary_metric(self) -> Metric:
        """The metric that results and checkpoints go by."""
        return self.metrics[self.primary]

    @property
    def higher_is_better(self) -> bool:
        """Whether more of the primary metric is better."""
        return self.primary_metric.higher_is_better

    def for_part(self, questions: Sequence[Question]) -> Benchmark:
        """Returns the benchmark for some of its questions: the first metric that is about any of them is primary."""
        about = (name for name, metric in self.metrics.items() if any(map(metric.covers, questions)))
        first = next(about, self.primary)
        return replace(self, metrics={first: self.metrics[first], **self.metrics})
