"""Defines the type of a benchmark: its prompts, parsers and metrics, and the sources whose data it accepts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from medtune.data.media.augment import AllowedChanges, allow_nothing
from medtune.data.types import AnswerFormat, Condition, MediaRef, Prompt, Question
from medtune.eval.asking.answerer import AnswerProtocol
from medtune.eval.asking.official_prompts import OUR_WORDING, OfficialPrompts
from medtune.eval.evidence import Evidence
from medtune.eval.judge import JudgeTask
from medtune.eval.metric import Metric, ParsedReply
from medtune.eval.published import MARKS, Paper, PublishedNumber, no_references
from medtune.eval.scoring.reply_rules import ReplyRule
from medtune.eval.scoring.tables import Table
from medtune.eval.studies.published import PublishedTable

if TYPE_CHECKING:
    from medtune.eval.predictions.tool_files import ToolRows

MAX_LEVELS = 50
"""The largest number of values of a facet by which scores are broken down if the benchmark does not name the facet."""
Render = Callable[[Question, AnswerFormat], Prompt]
Parser = Callable[[str, Question], str | None]


PaperOf = Callable[[str], Paper | None]
"""Returns the paper of a benchmark by its name; None if there is no such benchmark."""


class Tables(Protocol):
    """A function that makes a benchmark's own tables, in the form of its paper."""

    def __call__(self, evidence: Evidence) -> Sequence[Table]:
        """Returns the tables in the order in which they are shown."""


class Reasoned(NamedTuple):
    """A reply, the program that gave it, and what each of its steps gave."""

    reply: str
    program: str
    steps: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Oracle:
    """Answers a benchmark's questions from masks, as `medtune oracle` does.

    Attributes:
        look: A function of (name, scan, folder of masks, case's name there) that finds out what a scan holds. Without a
            folder the masks are the prepared ones. Processes share the scans, so that its result must be picklable.
        answer: A function of (question, what the scan holds).
        picture: A function of (question, scan, folder, case's name, what it holds) that returns the slice that the
            question is about, RGB, (H, W, 3), with the outlines of the masks.
        write_table: A function of (path, what each scan holds) that writes all of it as a table.
    """

    look: Callable[[str, MediaRef, Path | None, str], Any]
    answer: Callable[[Question, Any], Reasoned]
    picture: Callable[[Question, MediaRef, Path | None, str, Any], NDArray[np.uint8]]
    write_table: Callable[[Path, Sequence[Any]], None]


def nothing_missing(questions: Sequence[Question]) -> str:
    """Returns "", for a benchmark that publishes no numbers of other models."""
    return ""


def no_published_tables() -> Sequence[PublishedTable]:
    """Returns no tables, for a benchmark whose paper's tables no study fills."""
    return ()


def no_tables(evidence: Evidence) -> Sequence[Table]:
    """Returns no tables, for a benchmark that has none of its own."""
    return ()


def no_result_rows(path: Path, questions: Sequence[Question]) -> ToolRows | None:
    """Returns nothing, for a benchmark without result files of its own."""
    return None


@dataclass(frozen=True, slots=True)
class Benchmark:
    """One benchmark.

    Attributes:
        title: The benchmark's name as its paper writes it.
        version: The version of our prompts, parsers and metrics; it changes whenever a score could change.
        licence: The licence of the questions and media, not of this code.
        url: The address of the benchmark.
        citation: The paper to be cited.
        sources: Names of the sources whose prepared folders it accepts; the first that recognises the user's files is
            the default, or the first of all if none of them tells its files.
        facets: Names of the facets, such as the task, by which scores are broken down.
        any_facet: Whether scores are broken down by every other facet that the questions have, too, for a benchmark
            whose data bring their own. A facet with more than `MAX_LEVELS` values is left out.
        class_facet: The facet whose levels each have a confusion matrix: "task", or a finer one if the questions of a
            task choose among different answers.
        render: Returns the prompt of a question; training and evaluation use this same function.
        parsers: Functions that read an answer from a reply, by name; the first is the default.
        metrics: The metrics by name; the first is primary. `for_part` puts the first that is about any of the questions
            in front, and whoever scores takes the benchmark from there.
        examples: Synthetic questions, for the contract tests and as an illustration.
        renders: Functions like `render` for conditions that change the prompt, e.g. "with_anatomy".
        tables: Makes the tables that `medtune score` prints after the scores, from one reply to each question. If the
            questions were asked in several passes, it makes the tables of each pass, and their mean is shown.
        repeat_tables: Makes the tables for which the benchmark has a rule of its own for several replies to a question,
            such as a majority vote. They come after the others.
        rules: The rules by which other tools turn replies into numbers, by name. Their numbers for the same replies are
            shown beside ours.
        references: Returns published numbers of other models that can be compared with the primary metric.
        allowed_changes: Says which changes of a training image leave the answer to a question true.
        judging: How a language model judges free answers; None if no answer needs a judge.
        protocol: The published settings with which the benchmark's models answered; None if none are published.
        official: How the benchmark's official prompts, or those of a kit, are read and used; None if medtune can read
            none.
        wording: The name of the prompts that `render` returns: "ours", or the name of the official or kit's prompts.
        missing: Says how much less some questions are than those of the published numbers, e.g. "6 of its 7,241
            questions"; "" if they are the same.
        result_rows: A function of (path, questions) that returns the rows of the benchmark's own result files, which
            are a file or lie in a folder, or None where the path holds no such file.
        oracle: Answers the questions from masks; None for a benchmark whose answers no mask tells.
        size_facets: Those of the facets that say how large or faint what is asked about is, for tables of an oracle.
        published_tables: Returns the tables of the paper, which studies fill.
        tables_in_kit: Returns those of them whose printed cells are read from a folder with the benchmark's own
            release; None where there are none.
        reply_score: Returns what a single reply is worth, 0 to 1, for a benchmark whose primary metric is no mean over
            replies; a training on rewards pays it. None takes the primary metric's own number.
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
    repeat_tables: Tables = no_tables
    rules: Mapping[str, ReplyRule] = field(default_factory=dict)
    references: Callable[[], Sequence[PublishedNumber]] = no_references
    allowed_changes: AllowedChanges = allow_nothing
    judging: JudgeTask | None = None
    protocol: AnswerProtocol | None = None
    official: OfficialPrompts | None = None
    wording: str = OUR_WORDING
    missing: Callable[[Sequence[Question]], str] = nothing_missing
    class_facet: str = "task"
    any_facet: bool = False
    result_rows: Callable[[Path, Sequence[Question]], ToolRows | None] = no_result_rows
    oracle: Oracle | None = None
    size_facets: tuple[str, ...] = ()
    published_tables: Callable[[], Sequence[PublishedTable]] = no_published_tables
    tables_in_kit: Callable[[Path], Sequence[PublishedTable]] | None = None
    reply_score: Callable[[ParsedReply], float] | None = None

    @property
    def primary(self) -> str:
        """The name of the metric by which results are reported and checkpoints are chosen."""
        return next(iter(self.metrics))

    @property
    def primary_metric(self) -> Metric:
        """The metric by which results are reported and checkpoints are chosen."""
        return self.metrics[self.primary]

    @property
    def level_metric(self) -> str:
        """The name of the primary metric on the levels of a facet: of a composite they hold a part each."""
        return f"{self.primary}_part" if self.primary_metric.is_composite else self.primary

    @property
    def higher_is_better(self) -> bool:
        """True where a higher value of the primary metric is better."""
        return self.primary_metric.higher_is_better

    def facets_of(self, questions: Iterable[Question]) -> tuple[str, ...]:
        """Returns the names of the facets by which scores of these questions are broken down.

        Where `prepare` found that questions have a look-alike in train, that is a facet too, and so are folds.
        """
        questions = list(questions)
        marked = [facet for facet in MARKS if any(facet in question.facets for question in questions)]
        return (*self.facets, *(self._other_facets(questions) if self.any_facet else ()), *marked)

    def _other_facets(self, questions: Sequence[Question]) -> list[str]:
        levels: dict[str, set[str]] = {}
        for question in questions:
            for facet, value in question.facets.items():
                levels.setdefault(facet, set()).add(value)
        known = {*self.facets, *MARKS}
        return [facet for facet, found in levels.items() if facet not in known and len(found) <= MAX_LEVELS]

    def for_part(self, questions: Sequence[Question], *, drawn: Sequence[Question] | None = None) -> Benchmark:
        """Returns the benchmark for some of its questions, with the first metric that covers any of them as primary.

        Metrics that are not defined on these questions are left out. Published numbers are numbers of the primary
        metric; if another metric becomes primary, there are none.

        Args:
            drawn: Those of the questions that are asked, on which a metric has to be defined; None is all of them.
        """
        asked = questions if drawn is None else drawn
        defined = {name: metric for name, metric in self.metrics.items() if metric.is_defined_on(asked)}
        about = (name for name, metric in defined.items() if any(map(metric.covers, questions)))
        first = next(about, self.primary)
        if first == self.primary:
            return replace(self, metrics={first: self.metrics[first], **defined})
        return replace(self, metrics={first: self.metrics[first], **defined}, references=no_references)
