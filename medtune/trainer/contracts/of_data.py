"""The contract of a benchmark: a perfect model scores the best, a silent one the worst, and prompts hide the answer."""

import json
import re
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from math import isclose
from pathlib import Path
from typing import Literal, get_args

from medtune.benchmarks import find_benchmark, find_source
from medtune.data import catalog
from medtune.data.prepared.read import Prepared
from medtune.data.prepared.work.take import read_source
from medtune.data.prepared.write import prepare
from medtune.data.raw.source import Source, SourceTable
from medtune.data.types import SPLITS, AnswerFormat, AnswerKind, Prediction, PredictionKey, Provenance, Question
from medtune.eval.benchmark import Benchmark
from medtune.eval.metric import ParsedReply
from medtune.eval.scoring.parse_replies import parse_replies
from medtune.eval.scoring.score import score_phase
from medtune.eval.scoring.tables import table_text
from medtune.trainer.contracts import Contract, once

PUBLISHED = ("official", "vsi")
"""The prefixes of the names of parsers that read replies as published code does, each in one answer format."""
ANSWER_FORMATS: tuple[AnswerFormat, ...] = ("text", "letter")
_TOLERANCE = 1e-6

LIMIT = 12
"""The number of patients that a simulation makes for the check."""
SEED = 3
_LONG = 6
"""The smallest number of characters of a name that is searched for; a shorter one may occur in pixels by chance."""


@contextmanager
def opened_benchmark(name: str) -> Iterator[Benchmark]:
    yield find_benchmark(name)


def it_says_what_it_is_and_under_which_terms(found: Benchmark) -> Iterator[str]:
    for field in ("title", "version", "licence", "citation", "sources", "metrics", "parsers"):
        if not getattr(found, field):
            yield f"Benchmark.{field} is empty; fill it in"
    if not found.url.startswith("https://"):
        yield f"Benchmark.url is {found.url!r}; give an address that begins with https://"


def one_of_its_sources_is_there(found: Benchmark) -> Iterator[str]:
    known = catalog.names(catalog.SOURCES)
    if not set(found.sources) & set(known):
        hint = catalog.nearest(found.sources[0], known) if found.sources else ""
        yield (
            f"Benchmark.sources is {found.sources}, and there is no such source.{hint} Write `def source()` in the "
            "benchmark's file, or a module in its folder `sources`; the module's name is the source's name"
        )


def its_examples_are_whole(found: Benchmark) -> Iterator[str]:
    if len(found.examples) < 2:
        yield f"Benchmark.examples holds {len(found.examples)}; write two or three synthetic questions"
    if len({question.id for question in found.examples}) != len(found.examples):
        yield "two examples have the same id; give each its own"
    for question in found.examples:
        if question.options and question.answer not in question.options:
            yield f"example {question.id}: the answer {question.answer!r} is not among its options"


def its_examples_show_every_facet(found: Benchmark) -> Iterator[str]:
    if found.class_facet not in found.facets:
        yield f"Benchmark.class_facet is {found.class_facet!r}; wanted one of Benchmark.facets, {sorted(found.facets)}"
    shown: set[str] = set().union(*(question.facets for question in found.examples))
    if shown != set(found.facets):
        yield (
            f"the examples have the facets {sorted(shown)}, Benchmark.facets is {sorted(found.facets)}; "
            "make them the same"
        )


@once("prompts")
def its_prompt_shows_question_and_options(found: Benchmark) -> Iterator[tuple[str, str]]:
    for question, answer_format in _examples_by_format(found):
        prompt, at = found.render(question, answer_format), f"example {question.id}, answer format {answer_format}"
        if prompt != found.render(question, answer_format):
            yield "random", f"{at}: `render` gives another prompt when it is called again; take out what is random"
        if question.text not in prompt.text or not all(option in prompt.text for option in question.options):
            yield "lacks", f"{at}: the prompt lacks the question's text or an option; `render` has to show them"
        if len(prompt.choices) != len(question.options):
            yield "choices", f"{at}: the prompt has {len(prompt.choices)} choices, wanted one for each option"
        elif question.options and prompt.target != prompt.choices[question.options.index(question.answer)]:
            yield "target", f"{at}: Prompt.target is {prompt.target!r}; it has to be the choice of the right option"


@once("prompts")
def its_prompt_does_not_tell_the_answer(found: Benchmark) -> Iterator[tuple[str, str]]:
    for asked, answer_format in _examples_by_format(found):
        texts = {found.render(replace(asked, answer=option), answer_format).text for option in asked.options}
        if len(texts) > 1:
            yield "tells", f"example {asked.id}, answer format {answer_format}: the prompt's text depends on the answer"


def every_metric_is_about_some_example(found: Benchmark) -> Iterator[str]:
    for name, metric in found.metrics.items():
        if not any(metric.covers(question) for question in found.examples):
            yield f"the metric {name!r} covers none of the examples; write one that it is about"


def a_perfect_model_scores_the_best(found: Benchmark) -> Iterator[str]:
    for answer_format in ANSWER_FORMATS:
        for name, rows in _oracle(found, answer_format).items():
            if not name.startswith(PUBLISHED):
                yield from _not_at(rows, found, "best", f"answer format {answer_format}, parser {name!r}")


def a_perfect_model_scores_the_best_by_published_parsers(found: Benchmark) -> Iterator[str]:
    """Complains if such a model does not get the best score with parsers of published code.

    Each of these parsers is tried in the answer format in which it scores better.
    """
    by_format = [_oracle(found, answer_format) for answer_format in ANSWER_FORMATS]
    for name in (name for name in found.parsers if name.startswith(PUBLISHED)):
        scores = [found.primary_metric.value(found.primary_metric.covered(read[name])) for read in by_format]
        best = by_format[scores.index(max(scores) if found.higher_is_better else min(scores))]
        yield from _not_at(best[name], found, "best", f"parser {name!r}")


def a_silent_model_scores_the_worst(found: Benchmark) -> Iterator[str]:
    for name, rows in _parsed(found, [""] * len(found.examples)).items():
        yield from _not_at(rows, found, "worst", f"parser {name!r}")


def a_perfect_likelihood_scores_the_best(found: Benchmark) -> Iterator[str]:
    chosen = [question for question in found.examples if question.options]
    predictions = [
        Prediction(
            PredictionKey(question.id, "image", "likelihood", 0),
            option_logprobs=tuple(0.0 if option == question.answer else -9.0 for option in question.options),
        )
        for question in chosen
    ]
    read = parse_replies(chosen, predictions, found, reading="likelihood")["likelihood"]
    yield from _not_at(read, found, "best", "log-likelihoods")


def its_own_tables_are_made_with_and_without_predictions(found: Benchmark) -> Iterator[str]:
    said = [found.render(question, "text").target for question in found.examples]
    for predictions in (_replies(found.examples, said), []):
        for table in score_phase(found.examples, predictions, found).tables:
            if any(len(row) != len(table.columns) for row in table.rows):
                yield f"the table {table.title!r} has a row with another number of cells than there are columns"
            if not table_text(table).startswith(table.title):
                yield f"the table {table.title!r} does not begin with its title"


def _examples_by_format(found: Benchmark) -> Iterator[tuple[Question, AnswerFormat]]:
    return ((question, answer_format) for answer_format in ANSWER_FORMATS for question in found.examples)


def _replies(examples: Sequence[Question], texts: Sequence[str]) -> list[Prediction]:
    return [
        Prediction(PredictionKey(question.id, "image", "generation", 0), text=text)
        for question, text in zip(examples, texts, strict=True)
    ]


def _parsed(found: Benchmark, said: Sequence[str]) -> Mapping[str, Sequence[ParsedReply]]:
    return parse_replies(found.examples, _replies(found.examples, said), found, reading="generation")


def _oracle(found: Benchmark, answer_format: AnswerFormat) -> Mapping[str, Sequence[ParsedReply]]:
    return _parsed(found, [found.render(question, answer_format).target for question in found.examples])


def _not_at(rows: Sequence[ParsedReply], found: Benchmark, end: Literal["best", "worst"], where: str) -> Iterator[str]:
    for name, metric in found.metrics.items():
        silent = metric.worst if metric.silent is None else metric.silent
        wanted, chosen = metric.best if end == "best" else silent, metric.covered(rows)
        if chosen and not isclose(metric.value(chosen), wanted, rel_tol=_TOLERANCE, abs_tol=_TOLERANCE):
            yield (
                f"{where}: the metric {name!r} is {metric.value(chosen):.6g}, wanted {wanted:.6g}. Mend the parser or "
                "the metric, or say its range: Metric(..., worst=, best=, silent=)"
            )


BENCHMARKS = Contract(
    opened_benchmark,
    (
        it_says_what_it_is_and_under_which_terms,
        one_of_its_sources_is_there,
        its_examples_are_whole,
        its_examples_show_every_facet,
        its_prompt_shows_question_and_options,
        its_prompt_does_not_tell_the_answer,
        every_metric_is_about_some_example,
        a_perfect_model_scores_the_best,
        a_perfect_model_scores_the_best_by_published_parsers,
        a_silent_model_scores_the_worst,
        a_perfect_likelihood_scores_the_best,
        its_own_tables_are_made_with_and_without_predictions,
    ),
)


@dataclass(frozen=True, slots=True)
class Example:
    """A source that is checked, with its example in `root`, what it reads there, and an empty folder for more."""

    name: str
    source: Source
    root: Path
    table: SourceTable
    prepared: Prepared
    scratch: Path


@contextmanager
def opened_source(name: str, *, write_example: Callable[[Path], None] | None = None) -> Iterator[Example]:
    """Gives a source with an example in temporary folders, by default its own one, or a simulation's settings."""
    with tempfile.TemporaryDirectory() as place:
        folder, source = Path(place), find_source(name)
        write, root = write_example or source.write_example, folder / "raw"
        if write is not None:
            write(root)
        elif source.write_settings is not None:
            root.mkdir()
            source.write_settings(root, LIMIT)
        else:
            raise ValueError("Source.write_example is missing; write a function that makes a tiny folder to be read")
        for each in ("read", "more/read", "more/questions"):
            (folder / each).mkdir(parents=True)
        table = read_source(source, root, SEED, folder / "read")
        for reject in table.rejects:
            raise ValueError(f"a row of its example is rejected: {reject}; mend `read` or `write_example`")
        yield Example(name, source, root, table, _prepared(name, root, folder / "prepared"), folder / "more")


def _prepared(name: str, root: Path, out: Path) -> Prepared:
    return prepare(find_source(name), benchmark="contract", root=root, out=out, seed=SEED, limit=LIMIT)


def it_says_where_it_comes_from(example: Example) -> Iterator[str]:
    source = example.source
    for field in ("title", "licence", "patient_unit"):
        if not getattr(source, field):
            yield f"Source.{field} is empty; fill it in"
    if not re.match(r"https?://", source.url):
        yield f"Source.url is {source.url!r}; give an address that begins with https://"
    if source.provenance not in get_args(Provenance):
        yield f"Source.provenance is {source.provenance!r}; it must be one of {', '.join(get_args(Provenance))}"
    if not catalog.find(catalog.SOURCES, example.name).first_line():
        yield "the module has no docstring; open it with a sentence that says what the source reads"


@once("media")
def its_ids_are_unique_and_its_media_listed(example: Example) -> Iterator[tuple[str, str]]:
    questions = example.table.questions
    if not questions:
        yield "none", "reading the example gives no question; `write_example` has to write what `read` takes"
    if len({question.id for question in questions}) != len(questions):
        yield "ids", "two questions have the same id; ids have to be unique in the table"
    for media_id in sorted({question.media_id for question in questions} - set(example.table.media)):
        yield "media", f"a question is about the media {media_id!r}, which SourceTable.media does not hold"


@once("questions")
def its_answers_are_among_the_options_and_its_tasks_are_named(example: Example) -> Iterator[tuple[str, str]]:
    for question in example.table.questions:
        if not question.facets.get("task"):
            yield "task", f"question {question.id}: the facet 'task' is missing; scores are broken down by it"
        if (kind := question.answer_kind) not in (kinds := get_args(AnswerKind)):
            yield "kind", f"question {question.id}: the answer kind is {kind!r}; wanted one of {', '.join(kinds)}"
        if question.answer_kind in ("choice", "yes_no"):
            if question.answer not in question.options:
                yield "answer", f"question {question.id}: the answer {question.answer!r} is not among its options"
            if len(set(question.options)) != len(question.options) or len(question.options) < 2:
                yield "options", f"question {question.id}: give at least two options that all differ"


def reading_twice_gives_one_table(example: Example) -> Iterator[str]:
    if example.source.read(example.root, SEED, example.scratch / "read").questions != example.table.questions:
        yield "`read` gives other questions when it is called again; sort the files, and draw with the seed alone"


def reading_the_questions_alone_gives_all_of_them(example: Example) -> Iterator[str]:
    if example.source.read_questions is None:
        return
    alone = example.source.read_questions(example.root, SEED, example.scratch / "questions").questions
    if [(q.id, q.text, q.answer) for q in alone] != [(q.id, q.text, q.answer) for q in example.table.questions]:
        yield "`read_questions` gives other questions than `read`; it may differ only where media files are missing"


def a_lost_media_file_is_refused_in_words(example: Example) -> Iterator[str]:
    paths = [ref.path for items in example.table.media.values() for ref in items]
    lost = next((path.relative_to(example.root) for path in paths if path.is_relative_to(example.root)), None)
    if lost is None:
        return
    without = example.scratch / "without"
    shutil.copytree(example.root, without / "raw")
    shutil.rmtree(without / "raw" / lost) if (without / "raw" / lost).is_dir() else (without / "raw" / lost).unlink()
    try:
        example.source.read(without / "raw", SEED, without)
    except (ValueError, OSError):
        return
    except Exception as error:  # A source of somebody's own may raise anything.
        yield (
            f"without {lost} `read` ends with {type(error).__name__}: {error}; put a `Reject` of "
            "medtune.data.raw.source into the table"
        )


def its_splits_share_no_patient_and_no_image(example: Example) -> Iterator[str]:
    """Complains about a patient or a media file that occurs in two splits, unless the source keeps the release's leaks.

    Such a source's example has to show them, so that the manifest counts them.
    """
    groups = {split: example.prepared.groups(split) for split in SPLITS}
    if example.source.keeps_leaks:
        if not example.prepared.manifest.split_leaks:
            yield "the source keeps leaks, and the splits of its example share nothing; write an example that does"
        return
    for what in ("patient", "media file"):
        seen: set[str] = set()
        for split in SPLITS:
            here = {
                name
                for group in groups[split]
                for name in ([group.patient_id] if what == "patient" else [ref.path.name for ref in group.media])
            }
            if here & seen:
                yield f"a {what} lies in two splits; check the patient ids that `read` gives"
            seen |= here


@once("files")
def preparing_twice_gives_the_same_bytes(example: Example) -> Iterator[tuple[str, str]]:
    again = _files(_prepared(example.name, example.root, example.scratch / "prepared").root)
    first = _files(example.prepared.root)
    for name in sorted(first.keys() | again.keys()):
        if first.get(name) != again.get(name):
            yield "differs", f"the prepared file {name} differs when it is made again; draw with the seed alone"


@once("names")
def no_patient_id_and_no_file_name_gets_through(example: Example) -> Iterator[tuple[str, str]]:
    prepared = example.prepared
    secrets = {question.patient_id for question in example.table.questions}
    paths = [ref.path for items in example.table.media.values() for ref in items]
    secrets |= {path.name for path in paths} | {path.stem for path in paths}
    asked = [question for split in SPLITS for question in prepared.questions(split)]
    words = {text for question in asked for text in (question.id, question.media_id, question.patient_id)}
    words |= {value for question in asked for value in question.facets.values()}
    words |= set(_strings(json.loads((prepared.root / "manifest.json").read_text("utf-8"))))
    words |= {path.stem for path in prepared.root.rglob("*")}
    for secret in sorted(secrets & words):
        said = "a patient's id or the name of a raw file, is in the prepared folder; leave it out of facets"
        yield "facets", f"{secret!r}, {said}"
    long = [secret for secret in secrets if len(secret) >= _LONG]
    for name, content in _files(prepared.root).items():
        if any(holds_name(name.encode() + b"\n" + content, secret) for secret in long):
            yield "files", f"{name!r}, a prepared file, holds a patient's id or the name of a raw file"


def holds_name(content: bytes, name: str) -> bool:
    """Returns whether a name stands by itself in a file: "17.png" does not in "8a17.png", which may be a digest."""
    alone = rb"(?<![0-9A-Za-z])" + re.escape(name.encode()) + rb"(?![0-9A-Za-z])"
    # Bytes are found far faster than a pattern that begins with a look behind.
    return name.encode() in content and re.search(alone, content) is not None


def _files(root: Path) -> dict[str, bytes]:
    return {str(path.relative_to(root)): path.read_bytes() for path in sorted(root.rglob("*")) if path.is_file()}


def _strings(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for part in value.values() if isinstance(value, dict) else value:
            yield from _strings(part)


SOURCES = Contract(
    opened_source,
    (
        it_says_where_it_comes_from,
        its_ids_are_unique_and_its_media_listed,
        its_answers_are_among_the_options_and_its_tasks_are_named,
        reading_twice_gives_one_table,
        reading_the_questions_alone_gives_all_of_them,
        a_lost_media_file_is_refused_in_words,
        its_splits_share_no_patient_and_no_image,
        preparing_twice_gives_the_same_bytes,
        no_patient_id_and_no_file_name_gets_through,
    ),
)
