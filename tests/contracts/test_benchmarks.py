"""What every benchmark has to keep."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

import pytest

from medtune.benchmarks import find_benchmark, names
from medtune.data.types import Prediction, PredictionKey, Question
from medtune.eval.benchmark import Benchmark
from medtune.eval.parsed_reply import ParsedReply
from medtune.eval.scoring.parse_replies import parse_replies
from medtune.eval.scoring.score import score_phase
from medtune.eval.scoring.tables import table_text

PUBLISHED = ("official", "vsi")
"""How the names of parsers begin that read as published code does, each in one answer format."""
ANSWER_FORMATS: tuple[Literal["text", "letter"], ...] = ("text", "letter")


@pytest.fixture(params=names())
def found(request: pytest.FixtureRequest) -> Benchmark:
    return find_benchmark(request.param)


def replies(examples: Sequence[Question], texts: Sequence[str]) -> list[Prediction]:
    return [
        Prediction(PredictionKey(question.id, "image", "generation", 0), text=text)
        for question, text in zip(examples, texts, strict=True)
    ]


def test_says_what_it_is_and_under_which_terms(found: Benchmark) -> None:
    assert all([found.title, found.version, found.licence, found.citation, found.sources])
    assert found.url.startswith("https://")


def test_examples_have_unique_ids_and_their_answers_among_the_options(found: Benchmark) -> None:
    assert len(found.examples) >= 2
    assert len({question.id for question in found.examples}) == len(found.examples)
    assert all(not question.options or question.answer in question.options for question in found.examples)


def test_examples_show_every_facet(found: Benchmark) -> None:
    assert set().union(*(question.facets for question in found.examples)) == set(found.facets)


@pytest.mark.parametrize("answer_format", ANSWER_FORMATS)
def test_prompt_shows_question_and_options_and_the_same_each_time(
    found: Benchmark, answer_format: Literal["text", "letter"]
) -> None:
    for question in found.examples:
        prompt = found.render(question, answer_format)
        assert prompt == found.render(question, answer_format)
        assert question.text in prompt.text
        assert all(option in prompt.text for option in question.options)
        assert len(prompt.choices) == len(question.options)
        assert not question.options or prompt.target == prompt.choices[question.options.index(question.answer)]


@pytest.mark.parametrize("answer_format", ANSWER_FORMATS)
def test_prompt_does_not_tell_the_answer(found: Benchmark, answer_format: Literal["text", "letter"]) -> None:
    for question in found.examples:
        texts = {found.render(replace(question, answer=option), answer_format).text for option in question.options}
        assert len(texts) <= 1


def assert_all_score(rows: Sequence[ParsedReply], found: Benchmark, end: Literal["best", "silent"]) -> None:
    for name, metric in found.metrics.items():
        chosen = metric.covered(rows)
        silent = metric.worst if metric.silent is None else metric.silent
        if chosen:
            assert metric.value(chosen) == pytest.approx({"best": metric.best, "silent": silent}[end], abs=1e-6), name


def test_every_metric_is_about_some_example(found: Benchmark) -> None:
    for name, metric in found.metrics.items():
        assert any(map(metric.covers, found.examples)), name


def oracle(found: Benchmark, answer_format: Literal["text", "letter"]) -> dict[str, list[ParsedReply]]:
    said = [found.render(question, answer_format).target for question in found.examples]
    return parse_replies(found.examples, replies(found.examples, said), found, reading="generation")


@pytest.mark.parametrize("answer_format", ANSWER_FORMATS)
def test_perfect_oracle_scores_the_best_with_every_parser_of_ours(
    found: Benchmark, answer_format: Literal["text", "letter"]
) -> None:
    for name, rows in oracle(found, answer_format).items():
        if not name.startswith(PUBLISHED):
            assert_all_score(rows, found, "best")


def test_perfect_oracle_scores_the_best_with_official_parsers_in_their_format(found: Benchmark) -> None:
    by_format = [oracle(found, answer_format) for answer_format in ANSWER_FORMATS]
    primary = found.primary_metric
    for name in (name for name in found.parsers if name.startswith(PUBLISHED)):
        scores = [primary.value(primary.covered(read[name])) for read in by_format]
        best = by_format[scores.index(max(scores) if primary.higher_is_better else min(scores))]
        assert_all_score(best[name], found, "best")


def test_silent_model_scores_what_the_metric_says_with_every_parser(found: Benchmark) -> None:
    parsed = parse_replies(
        found.examples, replies(found.examples, [""] * len(found.examples)), found, reading="generation"
    )
    for rows in parsed.values():
        assert_all_score(rows, found, "silent")


def test_likelihood_oracle_scores_the_best(found: Benchmark) -> None:
    chosen = [question for question in found.examples if question.options]
    predictions = [
        Prediction(
            PredictionKey(question.id, "image", "likelihood", 0),
            option_logprobs=tuple(0.0 if option == question.answer else -9.0 for option in question.options),
        )
        for question in chosen
    ]
    assert_all_score(parse_replies(chosen, predictions, found, reading="likelihood")["likelihood"], found, "best")


def test_own_tables_are_made_with_and_without_predictions(found: Benchmark) -> None:
    said = [found.render(question, "text").target for question in found.examples]
    for predictions in (replies(found.examples, said), []):
        for table in score_phase(found.examples, predictions, found).tables:
            assert all(len(row) == len(table.columns) for row in table.rows)
            assert table_text(table).startswith(table.title)


def test_unknown_benchmark_offers_the_nearest() -> None:
    with pytest.raises(ValueError, match="Did you mean 'busi'"):
        find_benchmark("bussi")
