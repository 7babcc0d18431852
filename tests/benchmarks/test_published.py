"""Tests that our numbers stand among published ones only for the whole released benchmark, asked as published."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from medtune.benchmarks import find_benchmark, names
from medtune.benchmarks.u2_bench.tasks_and_sets import CLASSIFICATION, DETECTION
from medtune.data.types import Question
from medtune.eval.benchmark import Benchmark
from medtune.eval.data_label import DataLabel
from medtune.eval.metric import ParsedReply
from medtune.eval.scoring.score import PhaseScores, score_phase
from medtune.eval.scoring.standing import why_unlike_published
from tests.eval.answers import generated

RELEASED = DataLabel(provenance="released", prompts="not recorded")
UNLIKE = "the data are synthetic, not the released ones"


def _scored(benchmark: Benchmark, questions: Sequence[Question], *, unlike_published: str) -> PhaseScores:
    """Returns the scores of a model that answers every question rightly."""
    said = [generated(question, question.answer) for question in questions]
    return score_phase(questions, said, benchmark.for_part(questions), unlike_published=unlike_published)


def _whole_u2() -> list[Question]:
    cases = {"DD": 1411, "VRA": 1588, "LL": 503, "OD": 1918, "KD": 500, "CVE": 521, "RG": 600, "CG": 200}
    examples = {question.facets["task"]: question for question in find_benchmark("u2_bench").examples}
    return [replace(examples[task], id=f"{task}{number}") for task, n in cases.items() for number in range(n)]


@pytest.mark.parametrize(
    ("label", "why"),
    [
        (DataLabel(provenance="synthetic", prompts="not recorded"), "the data are synthetic"),
        (DataLabel(provenance="reconstruction", prompts="not recorded"), "the data are reconstruction"),
        (DataLabel(provenance="unknown", prompts="not recorded"), "the data are unknown"),
        (replace(RELEASED, unofficial_split="patient"), "divided by patient"),
        (replace(RELEASED, unofficial_training="u2_bench by image"), "trained on u2_bench"),
        (DataLabel(provenance="released", prompts="ours"), "in our words"),
    ],
)
def test_what_departs_from_the_publication_is_named(label: DataLabel, why: str) -> None:
    u2 = find_benchmark("u2_bench")
    assert why in why_unlike_published(label, u2, _whole_u2())
    assert why_unlike_published(RELEASED, u2, _whole_u2()) == ""


@pytest.mark.parametrize("name", ["u2_bench", "fetal_gauge", "ctlesionvqa"])
def test_examples_alone_are_no_whole_benchmark(name: str) -> None:
    benchmark = find_benchmark(name)
    assert why_unlike_published(RELEASED, benchmark, benchmark.examples).startswith("the questions are ")


def test_one_published_format_may_be_asked_alone_but_not_a_part_of_it() -> None:
    rex = find_benchmark("rexsonovqa")
    choice = next(question for question in rex.examples if question.options)
    mcq = [replace(choice, id=str(number)) for number in range(249)]
    assert why_unlike_published(RELEASED, rex, mcq) == ""
    assert "248 of its 249 multiple-choice questions" in why_unlike_published(RELEASED, rex, mcq[:-1])


def test_six_answers_of_one_set_have_no_u2_score_and_no_rank() -> None:
    u2 = find_benchmark("u2_bench")
    diagnosis = next(question for question in u2.examples if question.facets["task"] == "DD")
    questions = [replace(diagnosis, id=str(number), patient_id=str(number)) for number in range(6)]
    why = why_unlike_published(RELEASED, u2, questions)
    assert why == "the questions are 6 of its 7,241 questions"
    found = _scored(u2, questions, unlike_published=why)
    assert u2.for_part(questions).primary == "mean_accuracy"
    assert not any("u2" in name for parsers in found.metrics["image"].values() for name in parsers)
    published, alone = found.tables[:2]
    assert not any(str(row[0]).startswith("ours") for row in published.rows)
    assert "rank" not in alone.columns
    assert why in alone.notes[0]
    score = alone.columns.index("U2_Score")
    assert {row[score] for row in alone.rows} == {None}
    parsers = next(table for table in found.tables if "each parser" in table.title)
    assert {row[parsers.columns.index("U2")] for row in parsers.rows} == {None}


def test_a_partial_benchmark_has_no_published_numbers_of_another_metric() -> None:
    u2 = find_benchmark("u2_bench")
    assert u2.for_part(_whole_u2()).references()
    assert not u2.for_part(u2.examples[:1]).references()


def test_four_subtypes_have_no_total_average() -> None:
    ct = find_benchmark("ctlesionvqa")
    recognition = next(question for question in ct.examples if question.facets["subtype"] == "liver lesion existence")
    found = _scored(ct, [recognition], unlike_published="")
    table = next(table for table in found.tables if table.title.startswith("Table 3"))
    ours = {row[0]: row[-2:] for row in table.rows}
    assert ours["liver lesion existence"] == (1.0, 1)
    assert {cells for name, cells in ours.items() if "average" in str(name)} == {(None, None)}


def test_apart_from_the_published_columns_ours_has_a_table_of_its_own() -> None:
    ct = find_benchmark("ctlesionvqa")
    found = _scored(ct, ct.examples, unlike_published=UNLIKE)
    titles = [table.title for table in found.tables if table.title.startswith("Table 3")]
    assert any(title.endswith("as published") for title in titles)
    for table in found.tables:
        if table.title.endswith("this model alone"):
            assert "rank" not in table.columns
            assert any(UNLIKE in note for note in table.notes)
        if table.title.endswith("as published"):
            assert "ours" not in table.columns
            assert "rank" not in table.columns or all(not str(row[0]).startswith("ours") for row in table.rows)


@pytest.mark.slow
def test_the_whole_benchmark_is_ranked() -> None:
    u2 = find_benchmark("u2_bench")
    found = _scored(u2, _whole_u2(), unlike_published="")
    table = found.tables[0]
    ours = next(row for row in table.rows if row[0] == "ours, robust")
    assert ours[-1] == 1
    assert table.columns[-1] == "rank"


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
