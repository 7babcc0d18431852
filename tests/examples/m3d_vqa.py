"""Writes a small synthetic M3D-VQA release for tests: tables with the documented columns, and arrays of noise."""

import csv
import itertools
import json
from pathlib import Path

import numpy as np

from medtune.data.media.volumes.formats.scaled_array import MEANING_FILE

COLUMNS = (
    "Image Path", "Text", "Question Type", "Question", "Choice A", "Choice B", "Choice C", "Choice D", "Answer",
    "Answer Choice",
)  # fmt: skip
_QUESTIONS = (
    ("1", "Which plane is shown?", ("Axial", "Sagittal", "Coronal", "Oblique"), "A"),
    ("2", "Is contrast agent seen?", ("Yes", "No", "NA", "NA"), "B"),
    ("3", "Which organ is enlarged?", ("Spleen", "Liver", "Kidney", "None"), "B"),
    ("4", "What is seen in the liver?", ("A cyst", "A haematoma", "A metastasis"), "C"),
    ("5", "Where is the lesion?", ("Left lobe", "Right lobe", "Caudate lobe", "Hilum"), "D"),
)
_SPLITS = {"train": 6, "val": 3, "test": 3}


def write(root: Path) -> None:
    """Writes three tables, twelve cases of one or two volumes, and volumes.json."""
    (root / "M3D-VQA").mkdir(parents=True)
    (root / MEANING_FILE).write_text(
        json.dumps({"hu_window": [-160, 240], "spacing_mm": [5.0, 0.8, 0.8]}) + "\n", "utf-8"
    )
    rng, cases = np.random.default_rng(0), itertools.count(1)
    for split, count in _SPLITS.items():
        with (root / "M3D-VQA" / f"M3D_VQA_{split}.csv").open("w", encoding="utf-8", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(COLUMNS)
            for case in itertools.islice(cases, count):
                for number in range(1 + case % 2):
                    path = f"M3D_Cap_npy/ct_case/{case:06}/Series_of_case_{case:06}_{number}.npy"
                    _write_array(root / path, rng)
                    for type_, question, choices, letter in _QUESTIONS:
                        padded = [*choices, *["NA"] * (4 - len(choices))]
                        answer = padded["ABCD".index(letter)]
                        writer.writerow([path, "A report.", type_, question, *padded, answer, letter])


def _write_array(path: Path, rng: np.random.Generator) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    values = rng.random((1, 4, 12, 10), dtype=np.float32)
    values -= values.min()
    np.save(path, values / values.max())
