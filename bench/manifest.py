"""Times preparing, opening and scoring a benchmark's release at its full size, with made-up content.

The default is the first benchmark whose release can be made up. Opening maps the tables into memory; it is compared
with reading every row and computing the hash again.
"""

import json
import multiprocessing
import os
import tempfile
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import NamedTuple

from bench.measuring.measured import Limit, Measured, TwoWays, peak_memory_gb, timed
from bench.measuring.subjects import Released, released
from medtune.benchmarks import find_source
from medtune.data.prepared.manifest import MEDIA
from medtune.data.prepared.read import Prepared, open_prepared
from medtune.data.prepared.tables import data_hash, map_table, read_media
from medtune.data.prepared.write import prepare
from medtune.data.types import SPLITS, Question
from medtune.eval.predictions.files import read_predictions
from medtune.eval.scoring.score import score_phase

PREPARE_S, PREPARE_GB, OPEN_S, SCORE_S = 300.0, 2.0, 1.0, 60.0
TARGET = 10.0


class _Prepared(NamedTuple):
    seconds: float
    peak_gb: float


def bench(subject: str | None) -> Measured:
    """Returns the figures of the benchmark named `subject` at its full size; only the test split is scored."""
    asked = released(subject)
    return measured(asked, rows=asked.release.rows, items=asked.release.items, test_items=asked.release.test_items)


def measured(asked: Released, *, rows: int, items: int, test_items: int) -> Measured:
    """Returns the figures of a made-up release; the time to make it is not counted."""
    with tempfile.TemporaryDirectory() as folder:
        raw, out = Path(folder) / "raw", Path(folder) / "prepared"
        raw.mkdir()
        asked.release.write(raw, rows=rows, items=items, test_items=test_items)
        # Preparing runs in a process of its own, so that the peak memory is that of `medtune prepare` alone.
        with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
            told = (asked.name, asked.release.source, raw, out, Path(folder) / "config")
            made = pool.submit(prepare_alone, *told).result()
        opened, quick_s = timed(lambda: open_prepared(out))
        read, plain_s = timed(lambda: _hashed_anew(opened))
        questions = opened.questions("test")
        replies = Path(folder) / "predictions.jsonl"
        write_replies(questions, replies)
        _, score_s = timed(lambda: score_phase(questions, read_predictions(replies), asked.benchmark))
    num_questions = sum(map(opened.num_questions, SPLITS))
    is_same = read == opened.data_hash and num_questions == asked.release.questions_per_row * rows
    ways = TwoWays(
        title=f"opening {num_questions} questions about {opened.manifest.num_media} {asked.release.item_word}",
        quick="tables mapped into memory",
        plain="every row read and hashed",
        quick_s=quick_s,
        plain_s=plain_s,
        apart=0.0 if is_same else float("inf"),
        tolerance=0.0,
        target=TARGET,
    )
    limits = (
        Limit("prepared", made.seconds, PREPARE_S, "s"),
        Limit("peak memory of that", made.peak_gb, PREPARE_GB, "GB"),
        Limit("opened", quick_s, OPEN_S, "s"),
        Limit(f"{len(questions)} predictions read and scored", score_s, SCORE_S, "s"),
    )
    rows_text = f"{rows} rows of {asked.release.questions_per_row} questions"
    return Measured(f"{rows_text} about {items} {asked.release.item_word}", (ways,), limits)


def prepare_alone(benchmark: str, source: str, raw: Path, out: Path, config: Path) -> _Prepared:
    """Returns the seconds that preparing took and the peak memory of this process in GB."""
    os.environ["XDG_CONFIG_HOME"] = str(config)
    _, seconds = timed(lambda: prepare(find_source(source), benchmark=benchmark, root=raw, out=out))
    return _Prepared(seconds, peak_memory_gb())


def write_replies(asked: Sequence[Question], path: Path) -> None:
    """Writes a made-up reply to each question to the file: of three replies, two are right and one is other words."""
    with path.open("w", encoding="utf-8") as file:
        for number, question in enumerate(asked):
            options = question.options
            right = "ABCD"[options.index(question.answer)] if question.answer_kind == "choice" else question.answer
            text = right if number % 3 else f"The answer is {options[0] if options else 12.5}."
            file.write(json.dumps({"question_id": question.id, "text": text}) + "\n")


def _hashed_anew(opened: Prepared) -> str:
    questions = [question for split in SPLITS for question in opened.questions(split)]
    media = list(read_media(map_table(opened.root / MEDIA)))
    return data_hash(questions, media)
