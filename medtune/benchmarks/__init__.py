"""Benchmarks, one folder (or file) each: sources, words, prompts, parsers, tables and published numbers.

The rest of medtune asks this module for a benchmark or a source by name and never imports one itself.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, cast

from medtune.data import catalog
from medtune.data.json_text import json_value
from medtune.data.raw.source import Place, Source
from medtune.data.types import AnswerKind, Question
from medtune.eval.benchmark import Benchmark
from medtune.eval.published import Paper

OWN_QUESTIONS = "vqa"
"""The benchmark for anybody's own questions."""


def names() -> list[str]:
    """Returns the names of all benchmarks, sorted."""
    return catalog.names(catalog.BENCHMARKS)


def find_benchmark(name: str) -> Benchmark:
    """Returns the benchmark of that name, with the sources that plugins add to it behind its own."""
    found = catalog.made(catalog.BENCHMARKS, name, Benchmark)
    return replace(found, sources=(*found.sources, *catalog.added_sources(name)))


def find_source(name: str) -> Source:
    return replace(catalog.made(catalog.SOURCES, name, Source), name=name)


def own_question(id_: str, *, answer: str, options: Sequence[str], patient_id: str) -> Question:
    """Returns a question of `OWN_QUESTIONS` of which no text and no media are known, for scoring alone."""
    # Imported here, because `medtune list` has to start quickly.
    from medtune.benchmarks.vqa.row_answers import answered

    said = answered(
        Place("", 0), text="", answer=answer.strip(), options=tuple(options), declared="", unit="", field="answer"
    )
    facets = {"task": said.kind}
    return Question(id_, id_, "", said.options, said.answer, said.kind, patient_id, facets, said.unit, "test")


def example(
    name: str | int, text: str, answer: str, *options: str, kind: str | None = None, unit: str | None = None,
    **facets: str,
) -> Question:  # fmt: skip
    """Returns a synthetic question, of which `Benchmark.examples` holds some.

    Without a `kind` it has a choice, or yes or no where the facet "task" says so, or a text where there are no options.
    """
    kind = kind or ("text" if not options else "yes_no" if facets["task"] == "yes_no" else "choice")
    of = f"example-{name}"
    return Question(of, f"{of}-media", text, options, answer, cast("AnswerKind", kind), f"{of}-patient", facets, unit)


def published(name: str) -> dict[str, Any]:
    """Returns the content of a benchmark's published.json: the numbers that its paper prints, with their source."""
    folder = catalog.find(catalog.BENCHMARKS, name).folder
    if folder is None:
        raise FileNotFoundError(f"the benchmark {name!r} is one file, without a published.json beside it")
    found: dict[str, Any] = json_value((folder / "published.json").read_text("utf-8"))
    return found


def paper_of(name: str) -> Paper | None:
    """Returns the paper of a benchmark; None where there is no such benchmark."""
    if name not in names():
        return None
    known = find_benchmark(name)
    try:
        printed = str(published(name)["source"])
    except FileNotFoundError:
        printed = None
    return Paper(known.title, known.citation, known.url, printed)
