"""Writes a small synthetic CTLesionVQA release for tests: a table of version 1, and ten scans of noise."""

import csv
from pathlib import Path

import numpy as np

from bench.measuring.ctlesionvqa_release import HEADER
from medtune.data.media.volumes.formats.nifti import write_nifti

_NUM_SCANS = 10


def write(root: Path) -> None:
    """Writes the table, the scans in image_only, and masks of the liver in mask_only."""
    rng = np.random.default_rng(0)
    root.mkdir(parents=True, exist_ok=True)
    rows = []
    for number in range(_NUM_SCANS):
        scan = f"BDMAP_{number:08d}"
        hu_IJK = rng.integers(-100, 200, (6, 5, 4)).astype(np.int16)
        for folder, name, values in (
            (root / "image_only" / scan, "ct.nii.gz", hu_IJK),
            (root / "mask_only" / scan / "segmentations", "liver.nii.gz", (hu_IJK > 100).astype(np.uint8)),
            (root / "mask_only" / scan / "segmentations", "liver_lesion.nii.gz", (hu_IJK > 190).astype(np.uint8)),
        ):
            folder.mkdir(parents=True, exist_ok=True)
            write_nifti(folder / name, values, np.diag([2.0, 2.0, 5.0, 1.0]))
        rows += _rows(scan, number)
    with (root / "DeepTumorVQA_1.0.csv").open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([HEADER, *([index, *row] for index, row in enumerate(rows))])


def write_own(root: Path) -> None:
    """Writes ten scans with masks, as a user's own, of which every second one has a lesion in the liver."""
    rng = np.random.default_rng(0)
    affine = np.diag([-4.0, -4.0, 5.0, 1.0])
    for number in range(_NUM_SCANS):
        hu_IJK = rng.normal(60, 10, (20, 18, 12)).astype(np.int16)
        liver, spleen, lesion = (np.zeros(hu_IJK.shape, np.uint8) for _ in range(3))
        liver[2 : 9 + number % 3, 3:14, 2:10], spleen[14:18, 9 : 13 + number % 4, 3:8] = 1, 1
        masks = {"liver": liver, "spleen": spleen}
        if number % 2:
            lesion[4:7, 6 : 8 + number % 3, 4:6] = 1
            hu_IJK[lesion > 0] -= 40
            masks["liver_lesions"] = lesion
        folder = root / f"scan_{number}"
        (folder / "segmentations").mkdir(parents=True, exist_ok=True)
        write_nifti(folder / "ct.nii.gz", hu_IJK, affine)
        for name, mask in masks.items():
            write_nifti(folder / "segmentations" / f"{name}.nii.gz", mask, affine)


def _rows(scan: str, number: int) -> list[tuple[object, ...]]:
    has = number % 2
    scanner, contrast = ("SIEMENS", "GE MEDICAL SYSTEMS")[has], ("Venous", "Plain")[has]
    about = (scan, "[2. 2. 5.]", "(6, 5, 4)", "MF"[has], 35.0 + 5 * number, scanner, contrast)
    split = "validation" if number % 4 == 3 else "train"
    size, volume = 1.5 + number, 100.5 + number
    asked: list[tuple[object, ...]] = [
        ("Is there any lesion in the liver?", "Yes" if has else "No", "A: Yes B: No", "A" if has else "B",
         "liver", "lesion", "Recognition", "liver_lesion_existence"),
        ("What is the volume of the liver?", f"{volume} cm³", f"A: {volume} cm³ B: 1 cm³ C: 2 cm³ D: 3 cm³", "A",
         "liver", "", "Measurement", "organ volume measurement"),
        ("Where is the largest lesion of the liver?", "Segment 2", "A: Segment 2 B: Segment 4 C: Segment 8", "A",
         "liver", "lesion", "Visual_Reasoning", "Largest_Lesion_Location"),
    ]  # fmt: skip
    if has:
        asked.append(
            ("How long is the largest lesion of the liver?", f"{size} cm", f"A: 9 cm B: {size} cm C: 7.7 cm D: 8.8 cm",
             "B", "liver", "lesion", "Visual Reasoning", "largest lesion diameter")
        )  # fmt: skip
    return [
        (*about, text, answer, f"{text} {options}", letter, organ, lesion, kind, name, split)
        for text, answer, options, letter, organ, lesion, kind, name in asked
    ]
