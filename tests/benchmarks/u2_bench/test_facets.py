"""Tests the facets that U2-Bench's rows state: sex, age, box size and phantom, named as in other benchmarks."""

import base64
import io
from collections.abc import Mapping
from pathlib import Path

import PIL.Image
import pytest

from medtune.benchmarks import find_benchmark, find_source
from medtune.benchmarks.u2_bench.sources.u2_bench.parse_cells import facets


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
