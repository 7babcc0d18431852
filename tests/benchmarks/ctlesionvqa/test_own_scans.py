"""A user's own scans: masks of TotalSegmentator, persons described by DICOM, a preparation that was killed."""

import json
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from medtune.benchmarks import find_source
from medtune.benchmarks.ctlesionvqa.construction.cases import read_facts
from medtune.benchmarks.ctlesionvqa.construction.facts import Facts
from medtune.benchmarks.ctlesionvqa.construction.mask_names import masks_of_case
from medtune.benchmarks.ctlesionvqa.sources.ct_phantom import write_patient
from medtune.data.media.volumes.formats.nifti import nifti_affine, read_nifti_labels
from medtune.data.prepared.work.work_folder import work_path
from medtune.data.prepared.write import prepare
from medtune.data.types import SPLITS
from medtune.trainer.commands.cli import main
from tests.benchmarks.ctlesionvqa.test_construction import cohort


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Ten simulated scans on disk, in AbdomenAtlas's layout."""
    root = tmp_path_factory.mktemp("cohort")
    for subject in cohort(10, seed=5):
        write_patient(root / f"scan_{subject.number}", subject)
    return root


TOTAL = {
    "gall_bladder": "gallbladder", "postcava": "inferior_vena_cava", "portal_vein": "portal_vein_and_splenic_vein",
}  # fmt: skip
"""The names of TotalSegmentator's task total that differ from AbdomenAtlas's."""


def test_the_folder_and_the_label_map_of_totalsegmentator_are_read(folder: Path, tmp_path: Path) -> None:
    import nibabel

    ours, theirs = folder / "scan_1" / "segmentations", tmp_path / "raw" / "s0001"
    shutil.copytree(folder / "scan_1", theirs)
    for name, other in TOTAL.items():
        if (file := theirs / "segmentations" / f"{name}.nii.gz").is_file():
            file.rename(file.with_name(f"{other}.nii.gz"))
    for name in ("rib_left_1", "vertebrae_L1", "autochthon_left"):
        shutil.copy(theirs / "segmentations" / "spleen.nii.gz", theirs / "segmentations" / f"{name}.nii.gz")
    known, found = masks_of_case(folder, "scan_1"), masks_of_case(tmp_path / "raw", "s0001")
    assert found.keys() == known.keys()
    for name, files in known.items():
        assert [each.path.read_bytes() for each in found[name]] == [each.path.read_bytes() for each in files]

    names = ("spleen", "kidney_right", "kidney_left", "gallbladder", "liver", "pancreas", "inferior_vena_cava")
    (tmp_path / "labels").mkdir()
    drawn_IJK = np.zeros(read_nifti_labels(ours / "liver.nii.gz").shape, np.uint8)
    for label, name in enumerate(names, start=1):
        if (file := theirs / "segmentations" / f"{name}.nii.gz").is_file():
            drawn_IJK[read_nifti_labels(file) != 0] = label
    image = nibabel.Nifti1Image(drawn_IJK, nifti_affine(ours / "liver.nii.gz"))
    labels = "".join(
        f'<Label Key="{label}" Red="1.0" Alpha="1"><![CDATA[{name}]]></Label>\n' for label, name in enumerate(names, 1)
    )
    text = f'<?xml version="1.0"?> <CaretExtension><LabelTable>{labels}</LabelTable></CaretExtension>'
    image.header.extensions.append(nibabel.nifti1.Nifti1Extension(0, text.encode()))
    nibabel.save(image, tmp_path / "labels" / "s0001.nii.gz")
    of_map = read_facts("x", theirs / "ct.nii.gz", masks_of_case(tmp_path / "labels", "s0001"))
    whole = read_facts("x", theirs / "ct.nii.gz", found)
    for organ in ("liver", "spleen", "left kidney", "right kidney"):
        assert of_map.organs[organ].volume_cm3 == pytest.approx(whole.organs[organ].volume_cm3, rel=0.02)


def test_masks_without_a_scan_and_lesions_under_other_names_are_told(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    raw, out = tmp_path / "raw", tmp_path / "out"
    for number in (1, 2, 3, 4):
        shutil.copytree(folder / f"scan_{number}", raw / f"scan_{number}")
    (raw / "scan_3" / "ct.nii.gz").unlink()
    masks = raw / "scan_1" / "segmentations"
    for name in ("Leber_Laesion", "rectum", "hip_left"):
        shutil.copy(masks / "spleen.nii.gz", masks / f"{name}.nii.gz")
    (raw / "labels").mkdir()
    shutil.copy(raw / "scan_2" / "segmentations" / "liver.nii.gz", raw / "labels" / "scan_2.nii.gz")
    shutil.rmtree(raw / "scan_2" / "segmentations")
    labels = {"background": 0, "liver": 1, "Lebermetastase": 2, "Zyste": 3, "rectum": 4}
    (raw / "labels" / "dataset.json").write_text(json.dumps({"labels": labels}))
    command = ["prepare", "ctlesionvqa", "--source", "ct_masks", "--from", str(raw), "--out", str(out)]
    assert main(command) == 1
    said = capsys.readouterr().err
    assert f"its masks are here and its ct.nii.gz is not; add the scan {raw / 'scan_3'}" in said
    assert main([*command, "--max-rejected", "0.5"]) == 0
    assert "LESIONS MAY BE MISSING: 3 masks of 2 scans are called like lesions" in capsys.readouterr().out


def test_persons_are_described_by_dicom_and_before_it_by_a_table(folder: Path, tmp_path: Path) -> None:
    from pydicom import Dataset
    from pydicom.dataset import FileMetaDataset
    from pydicom.uid import CTImageStorage, ExplicitVRLittleEndian, generate_uid

    header = Dataset()
    header.file_meta = FileMetaDataset()
    header.file_meta.TransferSyntaxUID = ExplicitVRLittleEndian
    header.SOPClassUID, header.SOPInstanceUID = CTImageStorage, generate_uid()
    header.PatientName, header.PatientSex, header.PatientAge = "Secret^Patient", "F", "061Y"
    header.Manufacturer, header.SeriesDescription = "Philips", "ABD Arterial 2.0"
    for name in ("scan_0", "scan_1", "scan_2"):
        shutil.copytree(folder / name, tmp_path / "raw" / name)
        if name != "scan_2":
            (tmp_path / "raw" / name / "dicom").mkdir()
            header.save_as(tmp_path / "raw" / name / "dicom" / "1.dcm", enforce_file_format=True)
    (tmp_path / "raw" / "about.csv").write_text("image_id,sex,age\nscan_0,M,47\n")
    made = prepare(find_source("ct_masks"), benchmark="ctlesionvqa", root=tmp_path / "raw", out=tmp_path / "out")
    asked = [question for split in SPLITS for question in made.questions(split)]
    found = {tuple(question.facets.get(name) for name in ("sex", "age", "scanner", "phase")) for question in asked}
    seen = ("F", "60-69", "Philips", "arterial")
    assert found == {seen, ("M", "40-49", *seen[2:]), (None,) * 4}
    assert "Secret" not in str(asked)


@pytest.mark.slow
@pytest.mark.soak
def test_killed_between_two_scans_it_continues_with_the_next(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole, out = tmp_path / "whole", tmp_path / "out"
    prepare(find_source("ct_masks"), benchmark="ctlesionvqa", root=folder, out=whole)
    command = ["prepare", "ctlesionvqa", "--source", "ct_masks", "--from", str(folder), "--out", str(out), "-j", "1"]
    running = subprocess.Popen([sys.executable, "-m", "medtune", *command])
    findings, until = work_path(out) / "findings", time.monotonic() + 300
    while running.poll() is None and len(list(findings.glob("*.json"))) < 3:
        assert time.monotonic() < until
        time.sleep(0.01)
    running.kill()
    running.wait()
    kept = len(list(findings.glob("*.json")))
    assert 3 <= kept < 10
    measured_now = []

    def noted(*case: Any) -> Facts:
        measured_now.append(case)
        return read_facts(*case)

    monkeypatch.setattr("medtune.benchmarks.ctlesionvqa.sources.ct_masks.read_facts", noted)
    assert main(command) == 0
    assert len(measured_now) == 10 - kept
    tables = ("questions.arrow", "media.arrow", "manifest.json")
    assert [(out / name).read_bytes() for name in tables] == [(whole / name).read_bytes() for name in tables]
