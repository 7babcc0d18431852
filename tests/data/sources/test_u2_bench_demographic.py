"""The column "demographic" of U2-Bench becomes the facets that CTLesionVQA has."""

from __future__ import annotations

import base64
import io
from pathlib import Path

import PIL.Image
import pytest

from medtune.data.source import source
from medtune.data.sources.u2_bench.demographic import facets


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


@pytest.mark.parametrize("column", ["demographic", "Demographics"])
def test_they_break_down_the_scores_and_stay_out_of_the_question(tmp_path: Path, column: str) -> None:
    image = io.BytesIO()
    PIL.Image.new("L", (8, 8), 9).save(image, "PNG")
    file = tmp_path / "raw" / "disease_diagnosis" / "23.tsv"
    file.parent.mkdir(parents=True)
    row = [base64.b64encode(image.getvalue()).decode(), "benign", "{'age': 52, 'sex': 'female'}"]
    file.write_text(f"img_data\tclass_label\t{column}\n" + "\t".join(row) + "\n", "utf-8")
    (tmp_path / "scratch").mkdir()
    (question,) = source("u2_bench").read(tmp_path / "raw", 0, tmp_path / "scratch").questions
    assert (question.facets["sex"], question.facets["age"]) == ("F", "50-59")
    assert "52" not in question.text
