"""CTLesionVQA at its full size with made-up content, for measurements of speed: 395,612 rows about 9,262 tiny scans.

The rows are random, so that texts and answers repeat less than in the release. Columns, spellings and the split are
those of version 1.

Source: the counts of arXiv 2505.18915, section 3.1.
"""

import csv
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from medtune.benchmarks.ctlesionvqa.subtypes import V1, answer_type
from medtune.data.media.volumes.formats.nifti import write_nifti

HEADER = (
    "question_id",
    "image_id",
    "spacing",
    "shape",
    "sex",
    "age",
    "scanner",
    "contrast",
    "question",
    "answer",
    "multiple_choice_question",
    "correct_option",
    "organ",
    "lesion",
    "question_type",
    "question_subtype",
    "split",
)
"""The columns of version 1."""
ROWS, SCANS, TEST_SCANS = 395_612, 9_262, 928
_ORGANS = ("liver", "pancreas", "kidney", "colon", "spleen")
_WORDS = ("lesion", "segment", "volume", "largest", "organ", "attenuation", "mean", "scan", "region", "shown")
_WORDS_PER_TEXT, _LONGEST_TEXT = 16, 110
"""The number of words in a question's text, and the length in characters to which the text is cut.

With the number of its row, a text has 80 to 120 characters.
"""


def write_raw(root: Path, *, rows: int, items: int, test_items: int) -> None:
    """Writes a table with the columns of version 1, and scans of 4 x 4 x 4 voxels."""
    rng = np.random.default_rng(0)
    subtypes = [(kind, name) for kind, names in V1.items() for name in names]
    with (root / "DeepTumorVQA_1.0.csv").open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(HEADER)
        words = rng.integers(0, len(_WORDS), (rows, _WORDS_PER_TEXT)).tolist()
        numbers = rng.integers(1, 1000, (rows, 4)).tolist()
        for row in range(rows):
            scan = row * items // rows
            split = "validation" if scan < test_items else "train"
            text = f"{' '.join(_WORDS[word] for word in words[row])[:_LONGEST_TEXT]} {row}?"
            kind, name = subtypes[row % len(subtypes)]
            question_and_answer = _question_and_answer(text, name, numbers[row])
            labels = (_ORGANS[row % len(_ORGANS)], "lesion", kind, name.replace(" ", "_"), split)
            about_scan = (f"BDMAP_{scan:08d}", "[1. 1. 1.]", "(4, 4, 4)", *_patient(scan))
            writer.writerow((row, *about_scan, *question_and_answer, *labels))
    for scan in range(items):
        folder = root / f"BDMAP_{scan:08d}"
        folder.mkdir()
        write_nifti(folder / "ct.nii.gz", rng.integers(-1000, 1000, (4, 4, 4)).astype(np.int16), np.eye(4))


def _patient(scan: int) -> tuple[object, ...]:
    """Returns the cells for sex, age, scanner and contrast phase."""
    scanner, phase = ("SIEMENS", "GE", "Philips")[scan % 3], ("Venous", "Plain")[scan % 2]
    return "MF"[scan % 2], 20 + scan % 70, scanner, phase


def _question_and_answer(text: str, subtype: str, numbers: Sequence[int]) -> tuple[str, str, str, str]:
    """Returns a row's cells for both formats: question, answer, question with options, letter of the true option."""
    kind = answer_type(subtype)
    # Adding a multiple of 1000, larger than any of the numbers, makes all options different.
    options = [f"{(number + 1000 * place) / 10} cm³" for place, number in enumerate(numbers)]
    if kind != "numeric":
        options = ["Yes", "No"] if kind == "binary" else [f"Segment {segment}" for segment in range(1, 5)]
    right = numbers[0] % len(options)
    shown = " ".join(f"{letter}: {option}" for letter, option in zip("ABCD", options, strict=False))
    return text, options[right], f"{text} {shown}", "ABCD"[right]
