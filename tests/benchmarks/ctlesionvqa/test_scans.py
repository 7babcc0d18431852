"""Tests that tables of scans fill the facets of patients that the table of questions leaves empty."""

import csv
import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import PIL.Image
import pytest

from medtune.benchmarks import find_benchmark, find_source
from medtune.data.media.volumes.formats.nifti import write_nifti
from medtune.data.prepared.read import open_prepared
from medtune.eval.asking.official_prompts import OUR_WORDING, ShownAs
from medtune.eval.asking.plan import plan_visits
from medtune.eval.asking.prepared_prompts import with_prepared_prompts
from medtune.trainer.commands.cli import main
from tests.benchmarks.ctlesionvqa.test_official_prompts import PHRASE, ROW, TEMPLATES
from tests.eval.asking.prompts_files import prompts_file

ASKED = {
    "image_id": "BDMAP_00000001", "question": "Is a PDAC present?", "answer": "Yes", "organ": "pancreas",
    "question_type": "Recognition", "question_subtype": "PDAC existence", "split": "test",
}  # fmt: skip
SCAN = {"BDMAP ID": "BDMAP_00000001", "sex": "M", "age": "47.0", "scanner": "Philips", "contrast": "Arterial"}
FOUND = {"sex": "M", "age": "40-49", "scanner": "Philips", "phase": "arterial"}


def _facets(root: Path, table: str, scan: Mapping[str, str], **asked: str) -> Mapping[str, str]:
    for file in (root / "BDMAP_00000001" / "ct.nii.gz", root / table):
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch()
    (root / "test_qa.json").write_text(json.dumps({"questions": [ASKED | asked]}))
    with (root / table).open("w", newline="", encoding="utf-8") as opened:
        csv.writer(opened).writerows([scan.keys(), scan.values()])
    (question,) = find_source("ctlesionvqa").read(root, 0, root).questions
    return {name: question.facets[name] for name in FOUND if name in question.facets}


@pytest.mark.parametrize("table", ["metadata/reports_and_metadata.csv", "AbdomenAtlas3.0MiniWithMeta.csv"])
def test_scanner_and_phase_of_version_2_stand_in_the_table_of_scans(tmp_path: Path, table: str) -> None:
    assert _facets(tmp_path, table, SCAN) == FOUND


def test_the_column_of_the_phase_has_two_names(tmp_path: Path) -> None:
    assert _facets(tmp_path, "AbdomenAtlas_metadata.csv", {"BDMAP ID": SCAN["BDMAP ID"], "CT Phase": "Plain"}) == {
        "phase": "plain"
    }


def test_the_questions_own_cells_come_first(tmp_path: Path) -> None:
    assert _facets(tmp_path, "metadata/a.csv", SCAN, sex="F", contrast="Venous") == FOUND | {
        "sex": "F",
        "phase": "venous",
    }


def test_another_scans_line_says_nothing(tmp_path: Path) -> None:
    assert _facets(tmp_path, "metadata/a.csv", SCAN | {"BDMAP ID": "BDMAP_00000002"}) == {}


SCANS = ("BDMAP_00000001", "BDMAP_00000002", "BDMAP_00000003", "BDMAP_00000004")


@pytest.fixture
def release(tmp_path: Path) -> Path:
    """Writes a release with a scan, a clip, a slice, and a row of which there is nothing."""
    root = tmp_path / "raw"
    volume, clip, picture, _ = SCANS
    for place in ("images_2d/whole", "videos/whole", f"ct/{volume}"):
        (root / "benchmark" / place).mkdir(parents=True)
    rows = [ROW | PHRASE | {"image_id": scan, "qid": scan} for scan in SCANS]
    (root / "benchmark" / "test_qa.json").write_text(json.dumps({"version": "2.0", "questions": rows}), "utf-8")
    hu_IJK = np.zeros((8, 8, 4), dtype=np.int16)
    write_nifti(root / "benchmark" / "ct" / volume / "ct.nii.gz", hu_IJK, np.diag([0.8, 0.8, 2.5, 1.0]))
    for number, scan in enumerate((volume, clip, picture)):
        grey = PIL.Image.fromarray(np.random.default_rng(number).integers(0, 255, (64, 64), dtype=np.uint8))
        grey.save(root / "benchmark" / "images_2d" / "whole" / f"{scan}.png")
    for scan in (volume, clip):
        (root / "benchmark" / "videos" / "whole" / f"{scan}.mp4").touch()
    return root


def test_a_scan_stands_before_its_clip_and_a_clip_before_its_slice(release: Path, tmp_path: Path) -> None:
    table = find_source("ctlesionvqa").read(release, 0, tmp_path)
    volume, clip, picture, nothing = SCANS
    assert {name: (ref.kind, ref.path.name) for name, (ref,) in table.media.items()} == {
        volume: ("volume", "ct.nii.gz"),
        clip: ("video", f"{clip}.mp4"),
        picture: ("image", f"{picture}.png"),
    }
    assert [question.printed.get("input_mode") for question in table.questions] == [None, "2d_video", "2d_image"]
    assert [missing.file for missing in table.missing] == [f"{nothing}/ct.nii.gz"]
    assert len(table.rejects) == 1
    assert "scans whose CT is not in the folder: 1 shown as the released clip, 1 as the released slice" in table.notes


def test_released_slices_are_asked_about_in_the_kits_words_for_them(release: Path, tmp_path: Path) -> None:
    kit = prompts_file(tmp_path / "prompts.yaml", TEMPLATES)
    for file in (*release.rglob("*.mp4"), *release.rglob("ct.nii.gz")):
        file.unlink()
    out = tmp_path / "prepared"
    arguments = ["prepare", "ctlesionvqa", "--from", str(release), "--out", str(out), "--prompts", str(kit)]
    assert main([*arguments, "--max-rejected", "1"]) == 0
    prepared = open_prepared(out)
    (out / "prompts.json").rename(tmp_path / "prompts.json")
    ours = replace(prepared, manifest=replace(prepared.manifest, prompts=OUR_WORDING))
    with pytest.raises(ValueError, match="it holds no official prompts for agents"):
        with_prepared_prompts(find_benchmark("ctlesionvqa"), ours, shown=ShownAs(agent=True))
    (tmp_path / "prompts.json").rename(out / "prompts.json")
    words = with_prepared_prompts(find_benchmark("ctlesionvqa"), prepared)
    plan = plan_visits(prepared.groups("test"), words, answer_format="letter", conditions=["image"])
    asked = [request for visits in plan for visit in visits for request in visit.requests]
    assert len(asked) == 3
    assert {request.prompt.user for request in asked} == {"One slice.\nOf a F; of 61.0.\nWhich kind?\nA phrase."}
