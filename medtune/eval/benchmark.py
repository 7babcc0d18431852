"""A benchmark: its prompts, parsers and metrics, and the sources whose data it accepts."""

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

ParsedReplies = Mapping[Condition, Mapping[str, Sequence[ParsedReply]]]


@dataclass(frozen=True, slots=True)
class Evidence:
    """Everything from which a benchmark may make its own tables.

    Attributes:
        predictions: All predictions of the file, further repeats included, which `parse_replies` can read.
        parsed: Parsed replies of the first pass, by condition and parser.
        parser: Name of the primary parser.
        text_model: For BERTScore; None leaves it out.
    """

    questions: Sequence[Question]
    predictions: Sequence[Prediction]
    parsed: ParsedReplies
    parser: str
    text_model: BertModel | None = None

    def rows(self, condition: Condition) -> Sequence[ParsedReply]:
        """Returns one parsed reply per question, read by the primary parser.

        A likelihood reading has no reply to questions without options; the first parser that has one is taken there.
        """
        read = self.parsed.get(condition, {})
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
        licence: The licence of the questions and media, not of this code.
        sources: Names of the sources whose prepared folders it accepts; the first is the default.
        facets: Names of the facets by which scores are broken down.
        render: Puts a question into words; training and evaluation use this one function.
        parsers: Functions that read an answer from a reply, by name; the first is the default.
        metrics: The metrics by name; the first is primary.
        examples: Synthetic questions, for the contract tests and for a first look.
        renders: Other wordings, for conditions that change the prompt, e.g. "with_anatomy".
        tables: Makes the tables that `medtune score` prints beside the scores.
        judging: How free answers are judged by a language model; None where no answer needs it.
        references: Printed numbers of other models on other data, comparable with the primary metric.
        protocol: How its authors had their models answer; None where they do not say.
        official: How the benchmark's own prompts are read; None where there are none to read.
        wording: The author of the prompts that `render` gives: "ours", or which official ones.
        allowed_changes: Says which changes of a training image leave a question's answer true.
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
        """The name of the metric by which results are reported and checkpoints are chosen."""
        return next(iter(self.metrics))

    @property
    def primary_metric(self) -> Metric:
        """The metric by which results are reported and checkpoints are chosen."""
        return self.metrics[self.primary]

    @property
    def higher_is_better(self) -> bool:
        """True where a higher value of the primary metric is better."""
        return self.primary_metric.higher_is_better

    def for_part(self, questions: Sequence[Question]) -> Benchmark:
        """Returns the benchmark for some of its questions: the first metric that is about any of them is primary."""
        about = (name for name, metric in self.metrics.items() if any(map(metric.covers, questions)))
        first = next(about, self.primary)
        return replace(self, metrics={first: self.metrics[first], **self.metrics})
