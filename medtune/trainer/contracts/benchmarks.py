"""The contract of a benchmark: a perfect model scores the best, a silent one the worst, and prompts hide the answer."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from math import isclose
from typing import Literal

from medtune.benchmarks import find_benchmark
from medtune.data import catalog
from medtune.data.types import AnswerFormat, Prediction, PredictionKey, Question
from medtune.eval.benchmark import Benchmark
from medtune.eval.parsed_reply import ParsedReply
from medtune.eval.scoring.parse_replies import parse_replies
from medtune.eval.scoring.score import score_phase
from medtune.eval.scoring.tables import table_text
from medtune.trainer.contracts.contract import Contract

PUBLISHED = ("official", "vsi")
"""The prefixes of the names of parsers that read replies as published code does, each in one answer format."""
ANSWER_FORMATS: tuple[AnswerFormat, ...] = ("text", "letter")
_TOLERANCE = 1e-6


@contextmanager
def opened(name: str) -> Iterator[Benchmark]:
    """Gives the benchmark of a name."""
    yield find_benchmark(name)


def it_says_what_it_is_and_under_which_terms(found: Benchmark) -> Iterator[str]:
    """Complains about an empty field that describes the benchmark, and about an invalid address."""
    for field in ("title", "version", "licence", "citation", "sources", "metrics", "parsers"):
        if not getattr(found, field):
            yield f"Benchmark.{field} is empty; fill it in"
    if not found.url.startswith("https://"):
        yield f"Benchmark.url is {found.url!r}; give an address that begins with https://"


def one_of_its_sources_is_there(found: Benchmark) -> Iterator[str]:
    """Complains if none of the benchmark's sources exists."""
    known = catalog.names(catalog.SOURCES)
    if not set(found.sources) & set(known):
        hint = catalog.nearest(found.sources[0], known) if found.sources else ""
        yield (
            f"Benchmark.sources is {found.sources}, and there is no such source.{hint} Write `def source()` in the "
            "benchmark's file, or a module in its folder `sources`; the module's name is the source's name"
        )


def its_examples_are_whole(found: Benchmark) -> Iterator[str]:
    """Complains about too few examples, examples with the same id, and an answer that is not among the options."""
    if len(found.examples) < 2:
        yield f"Benchmark.examples holds {len(found.examples)}; write two or three synthetic questions"
    if len({question.id for question in found.examples}) != len(found.examples):
        yield "two examples have the same id; give each its own"
    for question in found.examples:
        if question.options and question.answer not in question.options:
            yield f"example {question.id}: the answer {question.answer!r} is not among its options"


def its_examples_show_every_facet(found: Benchmark) -> Iterator[str]:
    """Complains if `class_facet` is no facet, or the examples have other facets than scores are broken down by."""
    if found.class_facet not in found.facets:
        yield f"Benchmark.class_facet is {found.class_facet!r}; wanted one of Benchmark.facets, {sorted(found.facets)}"
    shown: set[str] = set().union(*(question.facets for question in found.examples))
    if shown != set(found.facets):
        yield (
            f"the examples have the facets {sorted(shown)}, Benchmark.facets is {sorted(found.facets)}; "
            "make them the same"
        )


def its_prompt_shows_question_and_options(found: Benchmark) -> Iterator[str]:
    """Complains about a prompt that lacks a part of the question, or that differs between two calls."""
    for question, answer_format in _asked(found):
        prompt, at = found.render(question, answer_format), f"example {question.id}, answer format {answer_format}"
        if prompt != found.render(question, answer_format):
            yield f"{at}: `render` gives another prompt when it is called again; take out what is random"
        if question.text not in prompt.text or not all(option in prompt.text for option in question.options):
            yield f"{at}: the prompt lacks the question's text or an option; `render` has to show them"
        if len(prompt.choices) != len(question.options):
            yield f"{at}: the prompt has {len(prompt.choices)} choices, wanted one for each option"
        elif question.options and prompt.target != prompt.choices[question.options.index(question.answer)]:
            yield f"{at}: Prompt.target is {prompt.target!r}; it has to be the choice of the right option"


def its_prompt_does_not_tell_the_answer(found: Benchmark) -> Iterator[str]:
    """Complains about a prompt whose text depends on the right answer."""
    for question, answer_format in _asked(found):
        texts = {found.render(replace(question, answer=option), answer_format).text for option in question.options}
        if len(texts) > 1:
            yield f"example {question.id}, answer format {answer_format}: the prompt's text depends on the answer"


def every_metric_is_about_some_example(found: Benchmark) -> Iterator[str]:
    """Complains about a metric that covers none of the examples."""
    for name, metric in found.metrics.items():
        if not any(metric.covers(question) for question in found.examples):
            yield f"the metric {name!r} covers none of the examples; write one that it is about"


def a_perfect_model_scores_the_best(found: Benchmark) -> Iterator[str]:
    """Complains if a model that gives every right answer does not get the best score with medtune's own parsers."""
    for answer_format in ANSWER_FORMATS:
        for name, rows in _oracle(found, answer_format).items():
            if not name.startswith(PUBLISHED):
                yield from _not_at(rows, found, "best", f"answer format {answer_format}, parser {name!r}")


def a_perfect_model_scores_the_best_by_published_parsers(found: Benchmark) -> Iterator[str]:
    """Complains if such a model does not get the best score with parsers of published code.

    Each of these parsers is tried in the answer format in which it scores better.
    """
    by_format = [_oracle(found, answer_format) for answer_format in ANSWER_FORMATS]
    primary = found.primary_metric
    for name in (name for name in found.parsers if name.startswith(PUBLISHED)):
        scores = [primary.value(primary.covered(read[name])) for read in by_format]
        best = by_format[scores.index(max(scores) if found.higher_is_better else min(scores))]
        yield from _not_at(best[name], found, "best", f"parser {name!r}")


def a_silent_model_scores_the_worst(found: Benchmark) -> Iterator[str]:
    """Complains if a model that says nothing does not get the worst score."""
    for name, rows in _parsed(found, [""] * len(found.examples)).items():
        yield from _not_at(rows, found, "worst", f"parser {name!r}")


def a_perfect_likelihood_scores_the_best(found: Benchmark) -> Iterator[str]:
    """Complains if a model that gives every right option the highest likelihood does not get the best score."""
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
    """Complains about a table with a row of the wrong length, or whose text does not begin with its title."""
    said = [found.render(question, "text").target for question in found.examples]
    for predictions in (_replies(found.examples, said), []):
        for table in score_phase(found.examples, predictions, found).tables:
            if any(len(row) != len(table.columns) for row in table.rows):
                yield f"the table {table.title!r} has a row with another number of cells than there are columns"
            if not table_text(table).startswith(table.title):
                yield f"the table {table.title!r} does not begin with its title"


def _asked(found: Benchmark) -> Iterator[tuple[Question, AnswerFormat]]:
    for answer_format in ANSWER_FORMATS:
        for question in found.examples:
            yield question, answer_format


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


CONTRACT = Contract(
    opened,
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
