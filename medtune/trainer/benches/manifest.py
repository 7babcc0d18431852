"""CTLesionVQA at its full size, 395,612 made-up rows in both formats about 9,262 tiny scans: prepared, opened, scored.

The rows are random, so that texts and answers repeat less than in the release; columns, spellings and split are v1's.
Opening maps the tables into memory; that is held against reading every row and hashing it anew.
"""

from __future__ import annotations

import csv
import json
import multiprocessing
import os
import tempfile
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import NamedTuple

import numpy as np

from medtune.benchmarks import find_benchmark, find_source
from medtune.benchmarks.ctlesionvqa.sources.ctlesionvqa.example import HEADER
from medtune.benchmarks.ctlesionvqa.terms import V1, answer_type
from medtune.data.media.volumes.formats.nifti import write_nifti
from medtune.data.prepared import file_format
from medtune.data.prepared.folder import Prepared, open_prepared, prepare
from medtune.data.types import SPLITS, Question
from medtune.eval.predictions.files import read_predictions
from medtune.eval.scoring.score import score_phase
from medtune.trainer.benches.figures.measured import Limit, Measured, TwoWays, peak_memory_gb, refuse_subject, timed

ROWS, SCANS, TEST_SCANS = 395_612, 9_262, 928
PREPARE_S, PREPARE_GB, OPEN_S, SCORE_S = 300.0, 2.0, 1.0, 60.0
TARGET = 10.0
_ORGANS = ("liver", "pancreas", "kidney", "colon", "spleen")
_WORDS = ("lesion", "segment", "volume", "largest", "organ", "attenuation", "mean", "scan", "region", "shown")
_WORDS_PER_TEXT, _CUT = 16, 110
"""With a row's number these make 80 to 120 characters."""


class _Prepared(NamedTuple):
    seconds: float
    peak_gb: float


def bench(subject: str | None) -> Measured:
    """Returns the figures of the whole size; scored is the test split, a tenth of it."""
    refuse_subject("manifest", subject)
    return measured(rows=ROWS, scans=SCANS, test_scans=TEST_SCANS)


def measured(*, rows: int, scans: int, test_scans: int) -> Measured:
    """Returns the figures of so many rows; the time to make them is not counted."""
    with tempfile.TemporaryDirectory() as folder:
        raw, out = Path(folder) / "raw", Path(folder) / "prepared"
        raw.mkdir()
        write_raw(raw, rows=rows, scans=scans, test_scans=test_scans)
        # A process of its own: its memory is that of the command.
        with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
            made = pool.submit(prepare_alone, raw, out, Path(folder) / "config").result()
        opened, quick_s = timed(lambda: open_prepared(out))
        read, plain_s = timed(lambda: _hashed_anew(opened))
        asked = opened.questions("test")
        replies = Path(folder) / "predictions.jsonl"
        write_replies(asked, replies)
        _, score_s = timed(lambda: score_phase(asked, read_predictions(replies), find_benchmark("ctlesionvqa")))
    num_questions = sum(map(opened.num_questions, SPLITS))
    ways = TwoWays(
        title=f"opening {num_questions} questions about {opened.manifest.num_media} scans",
        quick="tables mapped into memory",
        plain="every row read and hashed",
        quick_s=quick_s,
        plain_s=plain_s,
        apart=0.0 if read == opened.data_hash and num_questions == 2 * rows else float("inf"),
        tolerance=0.0,
        target=TARGET,
    )
    limits = (
        Limit("prepared", made.seconds, PREPARE_S, "s"),
        Limit("peak memory of that", made.peak_gb, PREPARE_GB, "GB"),
        Limit("opened", quick_s, OPEN_S, "s"),
        Limit(f"{len(asked)} predictions read and scored", score_s, SCORE_S, "s"),
    )
    return Measured(f"{rows} rows in both formats about {scans} scans", (ways,), limits)


def prepare_alone(raw: Path, out: Path, config: Path) -> _Prepared:
    """Returns the time of `prepare` and the most memory that this process ever held."""
    os.environ["XDG_CONFIG_HOME"] = str(config)
    _, seconds = timed(lambda: prepare(find_source("ctlesionvqa"), benchmark="ctlesionvqa", root=raw, out=out))
    return _Prepared(seconds, peak_memory_gb())


def write_raw(root: Path, *, rows: int, scans: int, test_scans: int) -> None:
    """Writes a table in v1's columns, and scans of 4 x 4 x 4 voxels."""
    rng = np.random.default_rng(0)
    subtypes = [(kind, name) for kind, names in V1.items() for name in names]
    with (root / "DeepTumorVQA_1.0.csv").open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(HEADER)
        words = rng.integers(0, len(_WORDS), (rows, _WORDS_PER_TEXT)).tolist()
        numbers = rng.integers(1, 1000, (rows, 4)).tolist()
        for row in range(rows):
            scan = row * scans // rows
            split = "validation" if scan < test_scans else "train"
            text = f"{' '.join(_WORDS[word] for word in words[row])[:_CUT]} {row}?"
            kind, name = subtypes[row % len(subtypes)]
            asked = _asked(text, name, numbers[row])
            named = (_ORGANS[row % len(_ORGANS)], "lesion", kind, name.replace(" ", "_"), split)
            writer.writerow((row, f"BDMAP_{scan:08d}", "[1. 1. 1.]", "(4, 4, 4)", *_patient(scan), *asked, *named))
    for scan in range(scans):
        folder = root / f"BDMAP_{scan:08d}"
        folder.mkdir()
        write_nifti(folder / "ct.nii.gz", rng.integers(-1000, 1000, (4, 4, 4)).astype(np.int16), np.eye(4))


def write_replies(asked: Sequence[Question], path: Path) -> None:
    """Writes a reply to each question: two of three right, the third in words."""
    with path.open("w", encoding="utf-8") as file:
        for number, question in enumerate(asked):
            options = question.options
            right = "ABCD"[options.index(question.answer)] if question.answer_kind == "choice" else question.answer
            text = right if number % 3 else f"The answer is {options[0] if options else 12.5}."
            file.write(json.dumps({"question_id": question.id, "text": text}) + "\n")


def _patient(scan: int) -> tuple[object, ...]:
    scanner, phase = ("SIEMENS", "GE", "Philips")[scan % 3], ("Venous", "Plain")[scan % 2]
    return "MF"[scan % 2], 20 + scan % 70, scanner, phase


def _asked(text: str, subtype: str, numbers: Sequence[int]) -> tuple[str, str, str, str]:
    """Returns the cells of both formats: question, answer, question with options, letter."""
    kind = answer_type(subtype)
    # A thousand apart, so that no two options are one.
    options = [f"{(number + 1000 * place) / 10} cm³" for place, number in enumerate(numbers)]
    if kind != "numeric":
        options = ["Yes", "No"] if kind == "binary" else [f"Segment {segment}" for segment in range(1, 5)]
    right = numbers[0] % len(options)
    shown = " ".join(f"{letter}: {option}" for letter, option in zip("ABCD", options, strict=False))
    return text, options[right], f"{text} {shown}", "ABCD"[right]


def _hashed_anew(opened: Prepared) -> str:
    questions = [question for split in SPLITS for question in opened.questions(split)]
    media = list(file_format.read_media(file_format.map_table(opened.root / file_format.MEDIA)))
    return file_format.data_hash(questions, media)
