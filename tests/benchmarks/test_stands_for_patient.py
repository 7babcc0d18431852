"""Every source says what its patient ids name, so that no output claims patients where there are images."""

import csv
from pathlib import Path

import pytest

from medtune.benchmarks import find_source
from medtune.data import catalog
from medtune.data.prepared.read import open_prepared
from medtune.eval.data_label import PATIENT, label_of
from tests.examples import write_example

NOT_PATIENTS = {
    "busi": "image", "ctlesionvqa": "scan", "image_folder": "image", "llama_factory": "image", "m3d_vqa": "case",
    "medxpertqa_mm": "question", "mmmu_med": "question", "mmmu_med_test": "question", "ms_swift": "image",
    "omnimedvqa": "image", "path_vqa": "image", "pmc_vqa": "article", "pmc_vqa_2": "article",
    "pmc_vqa_clean": "article", "rexsonovqa": "video", "slake": "image", "slake_en": "image", "slake_zh": "image",
    "vqa_rad": "image",
}  # fmt: skip


def unit_of(name: str, folder: Path, scratch: Path) -> str:
    scratch.mkdir(parents=True, exist_ok=True)
    return find_source(name).read(folder, 0, scratch).stands_for_patient


@pytest.mark.parametrize("name", sorted(NOT_PATIENTS))
def test_a_source_without_patients_names_what_stands_for_them(name: str, tmp_path: Path) -> None:
    write_example(name, tmp_path / "raw")
    assert unit_of(name, tmp_path / "raw", tmp_path / "scratch") == NOT_PATIENTS[name]


def test_where_no_patients_are_named_the_words_of_the_source_fit() -> None:
    """A source whose words say that something stands for a patient is in the list above, or knows it row by row.

    The sources of IU X-ray name every patient.
    """
    named = {"iu_xray", "iu_xray_medevalkit", "iu_xray_open_i"}
    by_row = {"table", "hf", "u2_bench", "u2_bench_rebuilt", "fetal_gauge_rebuilt"}
    simulated = {name for name in catalog.names(catalog.SOURCES) if find_source(name).provenance == "synthetic"}
    assert set(catalog.names(catalog.SOURCES)) == set(NOT_PATIENTS) | by_row | named | simulated


def test_u2_bench_says_it_by_row(tmp_path: Path) -> None:
    write_example("u2_bench", tmp_path / "u2_bench")
    assert unit_of("u2_bench", tmp_path / "u2_bench", tmp_path / "a") == PATIENT
    csv.field_size_limit(10_000_000)
    for table in (tmp_path / "u2_bench").rglob("*.tsv"):
        with table.open(newline="", encoding="utf-8") as file:
            cells = list(csv.reader(file, delimiter="\t"))
        if "img_data" not in cells[0]:
            continue
        place = next(number for number, column in enumerate(cells[0]) if "patient" in column.lower())
        with table.open("w", newline="", encoding="utf-8") as file:
            csv.writer(file, delimiter="\t").writerows([*row[:place], *row[place + 1 :]] for row in cells)
    assert unit_of("u2_bench", tmp_path / "u2_bench", tmp_path / "b") == "image"


def test_rebuilt_sets_join_what_stands_for_a_patient_in_each(tmp_path: Path) -> None:
    write_example("u2_bench_rebuilt", tmp_path / "raw")
    unit = unit_of("u2_bench_rebuilt", tmp_path / "raw", tmp_path / "scratch")
    assert "image" in unit.split(" or ")
    assert unit.split(" or ") == sorted(set(unit.split(" or ")))


def test_the_prepared_folder_and_every_label_carry_it(prepared_tiny: Path) -> None:
    manifest = open_prepared(prepared_tiny).manifest
    assert manifest.stands_for_patient == "image"
    label = label_of(manifest, prompts="ours")
    assert label.facts()["stands_for_patient"] == "image"
    assert any(note.startswith("Patients: one image stands for one patient") for note in label.notes())
