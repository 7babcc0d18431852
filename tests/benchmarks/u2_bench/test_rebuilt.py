from collections import Counter

import pytest

from medtune.benchmarks.u2_bench.sources import u2_bench_rebuilt
from medtune.benchmarks.u2_bench.tasks_and_sets import OPTIONS_SEEN, TASKS
from medtune.data.raw.source import SourceTable
from medtune.data.types import SPLITS
from tests.examples import OF_SETS


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> SourceTable:
    root = tmp_path_factory.mktemp("u2")
    for name in u2_bench_rebuilt.SETS:
        (root / "raw" / name).mkdir(parents=True)
        OF_SETS[name](root / "raw" / name)
    (root / "scratch").mkdir()
    return u2_bench_rebuilt.source().read(root / "raw", 0, root / "scratch")


def test_every_scenario_is_one_of_the_benchmarks(table: SourceTable) -> None:
    found = {(q.facets["task"], q.facets["dataset"]) for q in table.questions}
    assert all(dataset in TASKS[task] for task, dataset in found)
    assert {q.facets["scenario"] for q in table.questions} == {f"{task} {dataset}" for task, dataset in found}
    assert found == {
        ("VRA", "03"), ("VRA", "10"), ("VRA", "50"), ("VRA", "53"), ("DD", "23"), ("LL", "23"), ("OD", "31"),
        ("OD", "50"), ("OD", "52"), ("OD", "53"), ("CVE", "31"), ("CVE", "50"), ("CG", "10"),
    }  # fmt: skip


@pytest.mark.parametrize(
    ("task", "dataset"), [("VRA", "03"), ("VRA", "10"), ("VRA", "50"), ("VRA", "53"), ("DD", "23")]
)
def test_options_are_those_that_the_official_extractor_knows(table: SourceTable, task: str, dataset: str) -> None:
    known = {option.strip() for option in OPTIONS_SEEN[dataset]}
    for question in table.questions:
        if (question.facets["task"], question.facets["dataset"]) == (task, dataset):
            assert set(question.options) <= known


def test_values_have_unit_and_pixel_size(table: SourceTable) -> None:
    heads = [q for q in table.questions if q.facets["task"] == "CVE" and q.facets["dataset"] == "31"]
    assert {(q.unit, q.facets["pixel_size_mm"], q.answer_kind) for q in heads} == {("mm", "0.5", "number")}
    assert all("One pixel is 0.5 mm wide." in q.text for q in heads)
    sweeps = [q for q in table.questions if q.facets["task"] == "CVE" and q.facets["dataset"] == "50"]
    assert len(sweeps) == 10
    assert not any("pixel" in q.text for q in sweeps)


def test_what_is_not_there_is_not_visible(table: SourceTable) -> None:
    places = Counter(
        (q.facets["dataset"], q.answer == "not visible") for q in table.questions if q.facets["task"] in ("OD", "LL")
    )
    assert places["23", True] == 8
    assert places["52", True] == 6
    assert places["31", True] == 0


def test_small_sets_are_test_and_own_splits_are_kept(table: SourceTable) -> None:
    splits = {
        dataset: {q.split for q in table.questions if q.facets["dataset"] == dataset} for dataset in ("03", "23", "31")
    }
    assert splits == {"03": set(SPLITS), "23": {"test"}, "31": {"test"}}
    assert "busi (BUSI, breast ultrasound images): 24 images, all in test: fewer than 500" in table.notes


def test_licence_and_doubt_are_said(table: SourceTable) -> None:
    assert "NC" in u2_bench_rebuilt.source().licence
    assert table.notes[0] == "U2-Bench took its test cases from these sets and does not say which"


def test_phantom_and_size_of_the_box_break_down_the_scores(table: SourceTable) -> None:
    phantom = {(q.facets["dataset"], q.facets["phantom"]) for q in table.questions}
    assert {dataset for dataset, said in phantom if said == "yes"} == {"10"}
    places = [q for q in table.questions if q.facets["task"] in ("OD", "LL")]
    assert all(("box_size" in q.facets) == (q.answer != "not visible") for q in places)
    assert not any("box_size" in q.facets for q in table.questions if q.facets["task"] == "VRA")
