"""Writes a small release in OmniMedVQA's layout, with invented questions and drawn images, for tests."""

import json
from pathlib import Path

import numpy as np
import PIL.Image

_SETS = {
    "Invented X-ray": (
        "X-Ray",
        "Modality Recognition",
        "What kind of image is this?",
        ("X-ray", "CT", "MRI", "Drawing"),
    ),
    "Invented skin": ("Dermoscopy", "Disease Diagnosis", "Is the spot malignant?", ("No", "Yes")),
    "Invented cells": ("Microscopy Images", "Lesion Grading", "Which grade is shown?", ("one", "two", "three")),
}
IMAGES = 6
"""The number of images of each set."""


def write_example(folder: Path) -> None:
    """Writes three source sets with four, two and three options; one row has `modality` for `modality_type`."""
    tables = folder / "QA_information" / "Open-access"
    tables.mkdir(parents=True, exist_ok=True)
    draw = np.random.default_rng(0)
    for name, (modality, kind, question, options) in _SETS.items():
        rows = []
        (folder / "Images" / name).mkdir(parents=True, exist_ok=True)
        for number in range(IMAGES):
            image = f"Images/{name}/picture_{number:03}.png"
            PIL.Image.fromarray(draw.integers(0, 256, (32, 40, 3), dtype=np.uint8)).save(folder / image)
            row = {"dataset": name, "question_id": f"{name}_{number:04}", "question_type": kind, "question": question}
            row |= {"gt_answer": options[number % len(options)], "image_path": image}
            row |= {f"option_{letter}": option for letter, option in zip("ABCD", options, strict=False)}
            row["modality" if (name, number) == ("Invented X-ray", 0) else "modality_type"] = modality
            rows.append(row)
        (tables / f"{name}.json").write_text(json.dumps(rows, indent=1), "utf-8")
