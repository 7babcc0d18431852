"""What every file in eval/benchmarks has to keep."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

import pytest

from medtune.data import catalog
from medtune.data.types import Prediction, PredictionKey, Question
from medtune.eval.benchmark import PACKAGE, Benchmark, benchmark
from medtune.eval.judging import judge

ANSWER_FORMATS: tuple[Literal["text", "letter"], ...] = ("text", "letter")


@pytest.fixture(params=catalog.names(PACKAGE))
def found(request: pytest.FixtureRequest) -> Benchmark:
    return benchmark(request.param)


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


@pytest.mark.parametrize("answer_format", ANSWER_FORMATS)
def test_perfect_oracle_scores_1_with_every_parser(found: Benchmark, answer_format: Literal["text", "letter"]) -> None:
    said = [found.render(question, answer_format).target for question in found.examples]
    judged = judge(found.examples, replies(found.examples, said), found, reading="generation")
    for rows in judged.values():
        assert all(metric(rows) == 1 for metric in found.metrics.values())


def test_silent_model_scores_0_with_every_parser(found: Benchmark) -> None:
    judged = judge(found.examples, replies(found.examples, [""] * len(found.examples)), found, reading="generation")
    for rows in judged.values():
        assert all(metric(rows) == 0 for metric in found.metrics.values())


def test_likelihood_oracle_scores_1(found: Benchmark) -> None:
    chosen = [question for question in found.examples if question.options]
    predictions = [
        Prediction(
            PredictionKey(question.id, "image", "likelihood", 0),
            option_logprobs=tuple(0.0 if option == question.answer else -9.0 for option in question.options),
        )
        for question in chosen
    ]
    rows = judge(chosen, predictions, found, reading="likelihood")["likelihood"]
    assert all(metric(rows) == 1 for metric in found.metrics.values())


def test_unknown_benchmark_offers_the_nearest() -> None:
    with pytest.raises(ValueError, match="Did you mean 'busi'"):
        benchmark("bussi")
