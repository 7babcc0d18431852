"""Writes small releases in PMC-VQA's layouts, with invented questions and drawn figures, for tests."""

import csv
from pathlib import Path

import numpy as np
import PIL.Image

from medtune.benchmarks.pmc_vqa import CHOICES, LETTERS, V2, Version

ARTICLES, FIGURES = 6, 4
"""The number of articles of each file, and of figures of each article; the files share one article."""
_WORDS = ("a cyst", "an infarct", "a nodule", "a normal gland")
_CAPTION = "Invented caption that names {answer}."


def write(version: Version, folder: Path) -> None:
    images = folder / ("images_2" if version is V2 else "images")
    images.mkdir(parents=True, exist_ok=True)
    draw = np.random.default_rng(0)
    for part, name in enumerate((version.train, version.test)):
        with (folder / name).open("w", encoding="utf-8", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(_header(version))
            for number in range(ARTICLES * FIGURES):
                article = number // FIGURES + part * (ARTICLES - 1)
                figure = f"PMC1000{article:02}_F{1 + number % FIGURES + part * FIGURES}.jpg"
                pixels_HWC = draw.integers(0, 256, (32, 40, 3), dtype=np.uint8)
                PIL.Image.fromarray(pixels_HWC).save(images / figure)
                writer.writerow(_row(version, number, figure))


def _header(version: Version) -> tuple[str, ...]:
    if version is V2:
        return ("index", "Figure_path", "Caption", "Question", *CHOICES, "Answer", "split")
    return ("Figure_path", "Question", "Answer", *CHOICES, "Answer_label")


def _row(version: Version, number: int, figure: str) -> tuple[object, ...]:
    place = number % len(LETTERS)
    options = [_WORDS[(place + shift) % len(_WORDS)] for shift in range(len(_WORDS))]
    printed = [f" {letter}:{option} " for letter, option in zip(LETTERS, options, strict=True)]
    question, answer = "What does the arrow in this figure point to?", options[place]
    if version is V2:
        caption = _CAPTION.format(answer=answer)
        return (number, figure, caption, question, *printed, LETTERS[place], "test")
    return (figure, question, answer, *printed, LETTERS[place])
