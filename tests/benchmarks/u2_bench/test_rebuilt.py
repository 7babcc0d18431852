"""Tests the facets that U2-Bench's rows state: sex, age, box size and phantom, named as in other benchmarks."""

import base64
import io
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

import PIL.Image
import pytest

from medtune.benchmarks import find_benchmark, find_source
from medtune.benchmarks.u2_bench.sources import u2_bench_rebuilt
from medtune.benchmarks.u2_bench.sources.u2_bench.parse_cells import facets
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


@pytest.mark.parametrize(
    ("cell", "found"),
    [
        ('{"sex": "F", "age": 61}', {"sex": "F", "age": "60-69"}),
        ("{'gender': 'Male', 'age': '47 years'}", {"sex": "M", "age": "40-49"}),
        ('{"PatientSex": "f", "PatientAge": "008Y"}', {"sex": "F", "age": "0-9"}),
        ('[{"age (years)": 33.5}, {"age": 80}]', {"age": "30-39"}),
        ('{"Age": "18 months", "Gender": "unknown"}', {"age": "0-9"}),
        ('{"gestational_age": 22, "fetal_sex": "M", "ethnicity": "x"}', {}),
        ('{"age": 450, "sex": null}', {}),
        ('{"age": true}', {}),
        ("", {}),
        ("nan", {}),
        ("female", {}),
    ],
)
def test_sex_and_age_are_read_from_either_kind_of_dict(cell: str, found: dict[str, str]) -> None:
    assert facets(cell) == found


def _facets(root: Path, table: str, columns: str, *cells: str) -> Mapping[str, str]:
    image = io.BytesIO()
    PIL.Image.new("L", (8, 8), 9).save(image, "PNG")
    file = root / "raw" / table
    file.parent.mkdir(parents=True)
    row = [base64.b64encode(image.getvalue()).decode(), *cells]
    file.write_text(f"img_data\t{columns}\n" + "\t".join(row) + "\n", "utf-8")
    (root / "scratch").mkdir()
    (question,) = find_source("u2_bench").read(root / "raw", 0, root / "scratch").questions
    return question.facets


@pytest.mark.parametrize(
    ("box", "size"),
    [
        ("{'nodule': [0.5, 0.5, 0.2, 0.2]}", "small"),
        ('[{"nodule": [0.5, 0.5, 0.3, 0.3]}]', "medium"),
        ('{"nodule": [0.5, 0.5, 0.5, 0.3]}', "large"),
        ('{"nodule": [0.5, 0.5]}', None),
        ('{"nodule": [0.5, 0.5, 0, "wide"]}', None),
        ("", None),
    ],
)
def test_a_box_has_its_size(tmp_path: Path, box: str, size: str | None) -> None:
    assert _facets(tmp_path, "lesion_localisation/04.tsv", "gt_bbox", box).get("box_size") == size


def test_a_keypoint_is_no_box(tmp_path: Path) -> None:
    found = _facets(tmp_path, "keypoint_detection/48.tsv", "keypoints", '{"mv": [0.5, 0.5, 0.2, 0.2]}')
    assert "box_size" not in found


@pytest.mark.parametrize(
    ("table", "columns", "cell", "phantom"),
    [
        ("caption_generation/10.tsv", "caption", "a plane", "yes"),
        ("disease_diagnosis/23.tsv", "class_label", "benign", "no"),
        # Simulated images are of no phantom and of no patient.
        ("organ_detection/67.tsv", "gt_bbox", '{"liver": [0.5, 0.5, 0.2, 0.2]}', None),
    ],
)
def test_the_set_of_a_phantom_is_known(
    tmp_path: Path, table: str, columns: str, cell: str, phantom: str | None
) -> None:
    assert _facets(tmp_path, table, columns, cell).get("phantom") == phantom


@pytest.mark.parametrize("column", ["demographic", "Demographics"])
def test_they_break_down_the_scores(tmp_path: Path, column: str) -> None:
    cell = "{'age': 52, 'sex': 'female'}"
    found = _facets(tmp_path, "disease_diagnosis/23.tsv", f"class_label\t{column}", "benign", cell)
    assert (found["sex"], found["age"]) == ("F", "50-59")
    assert {"sex", "age", "box_size", "phantom"} <= set(find_benchmark("u2_bench").facets)
