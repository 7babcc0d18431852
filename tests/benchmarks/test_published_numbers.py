"""Tests that the papers' numbers in reports are as printed and comparable with the primary metric."""

from dataclasses import replace

import pytest

from medtune.benchmarks import find_benchmark, names
from medtune.benchmarks.u2_bench.tasks_and_sets import CLASSIFICATION, DETECTION
from medtune.eval.parsed_reply import ParsedReply


@pytest.mark.parametrize("name", names())
def test_references_are_of_known_facets_and_within_the_metric(name: str) -> None:
    found = find_benchmark(name)
    bounds = found.primary_metric.bounds
    references = found.references()
    for reference in references:
        assert bounds.low <= reference.value <= bounds.high
        assert reference.facet is None or reference.facet in found.facets
        assert (reference.facet is None) == (reference.level is None)
    assert len({(each.model, each.facet, each.level) for each in references}) == len(references)


@pytest.mark.parametrize(
    ("name", "model", "facet", "level", "value"),
    [
        ("fetal_gauge", "GPT-5", None, None, 0.55),
        ("fetal_gauge", "Lingshu-32B", "task", "clinical_diagnosis", 0.23),
        ("fetal_gauge", "Lingshu-7B", "box_size", "small", 0.34),
        ("u2_bench", "MedGemma-4B-it", None, None, 0.2668),
        ("u2_bench", "MedGemma-4B-it", "task", "OD", 0.0858),
        ("ctlesionvqa", "RadFM", "format", "free_text", 0.555),
        ("rexsonovqa", "Gemini 3 Pro", None, None, 165 / 249),
    ],
)
def test_references_are_what_was_printed(
    name: str, model: str, facet: str | None, level: str | None, value: float
) -> None:
    (found,) = [
        each
        for each in find_benchmark(name).references()
        if (each.model, each.facet, each.level) == (model, facet, level)
    ]
    assert found.value == pytest.approx(value)


def test_the_score_of_these_tasks_of_u2_bench_is_their_accuracy() -> None:
    u2 = find_benchmark("u2_bench")
    for example in u2.examples:
        if example.facets["task"] in (*CLASSIFICATION, *DETECTION):
            asked = [replace(example, id=str(number)) for number in range(4)]
            rows = [ParsedReply(one, None, example.answer if number else None) for number, one in enumerate(asked)]
            assert u2.metrics["u2_score"].value(rows) == pytest.approx(0.75)
