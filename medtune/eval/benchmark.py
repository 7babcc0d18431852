"""A benchmark is a composition: prompts, parsers, metrics and the sources that it accepts."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import cast

from medtune.data import catalog
from medtune.data.types import AnswerFormat, Prediction, Prompt, Question

PACKAGE = "medtune.eval.benchmarks"


@dataclass(frozen=True, slots=True)
class Judged:
    """A question, what was answered, and what a parser read from it.

    Attributes:
        prediction: None where the question was never answered: it counts as wrong.
        parsed: The option (or value) that was read; None where nothing could be.
    """

    question: Question
    prediction: Prediction | None
    parsed: str | None

    @property
    def correct(self) -> bool:
        """Whether the parsed answer is the true one, to the letter."""
        return self.parsed is not None and self.parsed == self.question.answer


Render = Callable[[Question, AnswerFormat], Prompt]
Parser = Callable[[str, Question], str | None]
Metric = Callable[[Sequence[Judged]], float]


@dataclass(frozen=True, slots=True)
class Benchmark:
    """One benchmark.

    Attributes:
        version: Changes whenever a number could: prompts, parsers or metrics.
        licence: Of the questions and media, not of this code.
        sources: Names in data/sources whose prepared folders it accepts; the first is the default.
        facets: What scores are broken down by.
        render: Words a question; training and evaluation use this one function.
        parsers: Reply -> option, by name; the first is the default.
        metrics: By name; the first is primary.
        higher_is_better: Of the primary metric.
        examples: Synthetic questions, for the contract tests and for a first look.
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

    @property
    def primary(self) -> str:
        """Name of the metric that results and checkpoints go by."""
        return next(iter(self.metrics))


def benchmark(name: str) -> Benchmark:
    """Returns the benchmark of that name.

    Raises:
        ValueError: There is none; the message offers the nearest name.
    """
    build = cast("Callable[[], Benchmark]", catalog.load(PACKAGE, name, "benchmark"))
    return build()
