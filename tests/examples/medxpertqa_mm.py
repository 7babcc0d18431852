"""Writes a small release in MedXpertQA's layout on the hub, with invented questions and drawn images, for tests."""

import json
from pathlib import Path

import numpy as np
import PIL.Image

QUESTIONS = 12
_OPTIONS = ("a cyst", "a stone", "a clip", "a vessel", "a suture")
_SYSTEMS = ("Skeletal", "Digestive", "Muscular")


def write_example(folder: Path) -> None:
    """Writes twelve questions about one to three images each, half of them of each type."""
    (folder / "images").mkdir(parents=True, exist_ok=True)
    (folder / "MM").mkdir(exist_ok=True)
    draw = np.random.default_rng(0)
    rows = []
    for number in range(QUESTIONS):
        names = [f"MM-{number}-{letter}.jpeg" for letter in "abc"[: 1 + number % 3]]
        for name in names:
            pixels_HWC = draw.integers(0, 256, (32, 40, 3), dtype=np.uint8)
            PIL.Image.fromarray(pixels_HWC).save(folder / "images" / name)
        options = {letter: _OPTIONS[(number + place) % 5] for place, letter in enumerate("ABCDE")}
        listed = " ".join(f"({letter}) {text}" for letter, text in options.items())
        row = {
            "id": f"MM-{number}",
            "question": f"What does the mark in case {number} point to?\nAnswer Choices: {listed}",
            "options": options,
            "label": "ABCDE"[number % 5],
            "images": names,
            "medical_task": ("Diagnosis", "Treatment", "Basic Science")[number % 3],
            "body_system": _SYSTEMS[number // 4],
            "question_type": ("Reasoning", "Understanding")[number % 2],
        }
        rows.append(json.dumps(row))
    (folder / "MM" / "test.jsonl").write_text("\n".join(rows) + "\n", "utf-8")
