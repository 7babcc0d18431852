"""Tests that medtune's own benchmarks keep the contract of benchmarks, and that the contract finds faults."""

import re
from dataclasses import replace
from typing import Any

import pytest

from medtune.benchmarks import find_benchmark, names
from medtune.data.types import AnswerFormat, Prompt, Question
from medtune.eval.benchmark import Benchmark
from medtune.trainer.contracts import benchmarks
from medtune.trainer.contracts.benchmarks import CONTRACT
from medtune.trainer.contracts.contract import Check

BUSI = find_benchmark("busi")


@pytest.mark.parametrize("check", CONTRACT.checks, ids=lambda check: check.__name__)
@pytest.mark.parametrize("name", names())
def test_benchmark_keeps_its_contract(name: str, check: Check[Benchmark]) -> None:
    with CONTRACT.opened(name) as found:
        assert list(check(found)) == []


def telling(question: Question, answer_format: AnswerFormat) -> Prompt:
    prompt = BUSI.render(question, answer_format)
    return replace(prompt, text=f"{prompt.text} It is {question.answer}.")


@pytest.mark.parametrize(
    ("check", "changed", "complaint"),
    [
        (benchmarks.it_says_what_it_is_and_under_which_terms, {"licence": ""}, r"Benchmark.licence is empty"),
        (benchmarks.it_says_what_it_is_and_under_which_terms, {"url": "doi:1"}, r"address that begins with https"),
        (benchmarks.one_of_its_sources_is_there, {"sources": ("bussi",)}, r"Did you mean 'busi'\?"),
        (benchmarks.its_examples_are_whole, {"examples": BUSI.examples[:1]}, r"holds 1; write two"),
        (benchmarks.its_examples_show_every_facet, {"facets": ("task",)}, r"make them the same"),
        (benchmarks.its_examples_show_every_facet, {"class_facet": "organ"}, r"class_facet is 'organ'; wanted one of"),
        (benchmarks.its_prompt_does_not_tell_the_answer, {"render": telling}, r"depends on the answer"),
        (
            benchmarks.a_perfect_model_scores_the_best,
            {"parsers": {"deaf": lambda text, question: None}},
            r"'deaf': the metric 'accuracy' is 0, wanted 1\. Mend the parser",
        ),
        (
            benchmarks.a_silent_model_scores_the_worst,
            {"parsers": {"kind": lambda text, question: question.answer}},
            r"'kind': the metric 'accuracy' is 1, wanted 0",
        ),
    ],
)
def test_what_is_wrong_is_found(check: Check[Benchmark], changed: dict[str, Any], complaint: str) -> None:
    complaints = list(check(replace(BUSI, **changed)))
    assert re.search(complaint, complaints[0])


def test_unknown_benchmark_offers_the_nearest() -> None:
    with pytest.raises(ValueError, match="Did you mean 'busi'"):
        find_benchmark("bussi")
