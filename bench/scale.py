"""Measures how CPU time and memory grow with the number of questions: preparing, scoring, comparing, the report.

Each part runs in a process of its own, at a tenth of the questions and at all of them. The subject is the number of
questions, by default 200,000. The release is made up, and its scans are tiny, so that the figures are those of the
questions; both phases of the run that is compared and reported are written from made-up replies. Opening maps the
tables into memory, which is compared with reading every row and computing the hash again.

At 2,000,000 questions (`python -m bench scale 2000000`, two hours, 2026-12-01, an AMD EPYC, beside other work)
preparing took 911 CPU s and 1.3 GB, scoring both phases 1,178 and 6.0, comparing 567 and 5.4, the report 151 and 3.2,
with exponents of growth from 200,000 of 0.97 to 1.02.
"""

import contextlib
import io
import json
import math
import multiprocessing
import os
import tempfile
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import NamedTuple

import yaml

from bench.measuring.measured import Limit, Measured, TwoWays, peak_memory_gb, timed
from bench.measuring.subjects import Released, released
from medtune.benchmarks import find_source
from medtune.data.prepared.manifest import MEDIA
from medtune.data.prepared.read import Prepared, open_prepared
from medtune.data.prepared.tables import data_hash, map_table, read_media
from medtune.data.prepared.write import prepare
from medtune.data.types import SPLITS, Question
from medtune.eval.comparing.gain import gain_between
from medtune.eval.data_label import DataLabel
from medtune.eval.predictions.files import read_predictions
from medtune.eval.results.build import RunFacts, results_file, scores_file
from medtune.eval.results.schema import ProtocolFacts, UsedProtocol
from medtune.eval.results.typed_json import write_document
from medtune.eval.scoring.baselines import TrainSplit
from medtune.eval.scoring.parse_replies import parse_all, write_parsed
from medtune.eval.scoring.score import PhaseScores, score_phase
from medtune.trainer.commands.cli import main
from medtune.version import __version__

QUESTIONS = 200_000
TENTH = 10
FEWEST_SCANS = 12
OPENING_TARGET = 10.0
MODEL = "nano_pocket_ct"
GROWTH = 1.15
"""The largest exponent of the growth of CPU time and memory: it takes sorting, and the noise of a shared machine."""
CPU_MS = {"prepare": 1.0, "score": 2.0, "compare": 1.0, "report": 1.0}
"""The most CPU time that each part may take for a question, in milliseconds; both phases are scored."""
GB_PER_MILLION = 8.0
_PER_SCAN, _PER_ROW, _TRAIN_SHARE, _FEWEST_TRAIN = 43, 2, 10, 3


class Opened(NamedTuple):
    """The seconds of opening a prepared folder and of reading all of it, and whether both found the same."""

    quick_s: float
    plain_s: float
    is_same: bool


class Spent(NamedTuple):
    """The CPU seconds that a part took, and the largest memory of its process in GB."""

    cpu_s: float
    peak_gb: float


def bench(subject: str | None) -> Measured:
    """Returns the figures at `subject` questions, by default 200,000, and the growth from a tenth of them."""
    return measured(released(None), int(subject or QUESTIONS))


def measured(asked: Released, number: int) -> Measured:
    """Returns the figures at a number of questions."""
    (few, _), (many, opened) = (_all_parts(asked, each) for each in (number // TENTH, number))
    limits: list[Limit] = []
    for part, spent in many.items():
        title = f"{part} {number} questions"
        limits += (
            Limit(f"{title}, CPU", spent.cpu_s, CPU_MS[part] * number / 1000, "s"),
            Limit(f"{title}, peak memory", spent.peak_gb, 1 + GB_PER_MILLION * number / 1e6, "GB"),
            Limit(f"{title}, growth of CPU time from {number // TENTH}", _growth(few[part], spent), GROWTH, "exponent"),
        )
    ways = TwoWays(
        title=f"opening {number} questions",
        quick="tables mapped into memory",
        plain="every row read and hashed",
        quick_s=opened.quick_s,
        plain_s=opened.plain_s,
        apart=0.0 if opened.is_same else math.inf,
        tolerance=0.0,
        target=OPENING_TARGET,
    )
    return Measured(f"{number} questions of {asked.name}", (ways,), tuple(limits))


def _growth(few: Spent, many: Spent) -> float:
    return math.log(many.cpu_s / few.cpu_s, TENTH)


def _all_parts(asked: Released, number: int) -> tuple[dict[str, Spent], Opened]:
    items = max(number // _PER_SCAN, FEWEST_SCANS)
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        (root / "raw").mkdir()
        rows, test_items = number // _PER_ROW, items - max(items // _TRAIN_SHARE, _FEWEST_TRAIN)
        asked.release.write(root / "raw", rows=rows, items=items, test_items=test_items)
        parts: dict[str, Callable[[Released, Path], None]] = {
            "prepare": _prepare,
            "score": _score,
            "compare": _compare,
            "report": _report,
        }
        return {name: _alone(part, asked, root) for name, part in parts.items()}, _opened(root / "data", number)


def _alone(part: Callable[[Released, Path], None], asked: Released, root: Path) -> Spent:
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        return pool.submit(spent_on, part.__name__, asked.name, root).result()


def spent_on(part: str, benchmark: str, root: Path) -> Spent:
    """Returns what one part takes in this process, but for the imports."""
    os.environ["XDG_CONFIG_HOME"] = str(root / "config")
    began = time.process_time()
    with contextlib.redirect_stdout(io.StringIO()):
        globals()[part](released(benchmark), root)
    return Spent(time.process_time() - began, peak_memory_gb())


def _opened(folder: Path, number: int) -> Opened:
    opened, quick_s = timed(lambda: open_prepared(folder))
    read, plain_s = timed(lambda: _hashed_anew(opened))
    num_questions = sum(map(opened.num_questions, SPLITS))
    return Opened(quick_s, plain_s, read == opened.data_hash and num_questions == number // _PER_ROW * _PER_ROW)


def _prepare(asked: Released, root: Path) -> None:
    source = find_source(asked.release.source)
    prepare(source, benchmark=asked.name, root=root / "raw", out=root / "data")


def _score(asked: Released, root: Path) -> None:
    """Scores both phases of a run and writes its folder."""
    prepared = open_prepared(root / "data")
    run = root / "run"
    label = DataLabel(provenance="synthetic", prompts="ours", stands_for_patient="scan")
    scores = {name: _phase(asked, root, run / name) for name in ("zero_shot", "final")}
    gain = gain_between(scores["zero_shot"], scores["final"], asked.benchmark)
    used = UsedProtocol(temperature=0.0, repeats=1, condition_repeats={}, max_new_tokens=64)
    facts = RunFacts(recipe="scale", data_hash=prepared.data_hash, label=label, protocol=ProtocolFacts(used=used))
    found = results_file(scores, gain, asked.benchmark, benchmark_name=asked.name, model=MODEL, facts=facts)
    write_document(run / "results.json", found)
    for name, phase in scores.items():
        write_document(run / name / "scores.json", scores_file(phase, label))
    recipe = {
        "data": {"benchmark": asked.name, "root": str(root / "data")},
        "model": {"name": MODEL},
        "train": {"max_steps": 2},
        "eval": {"split": "test"},
    }
    (run / "recipe.yaml").write_text(yaml.safe_dump(recipe), "utf-8")
    told = {"command": ["medtune", "run"], "medtune": __version__, "devices": ["cpu"], "packages": {}}
    environment = {**told, "recipe": facts.recipe, "data_hash": facts.data_hash, **label.facts()}
    (run / "environment.json").write_text(json.dumps(environment), "utf-8")
    (run / "weights.json").write_text("{}", "utf-8")
    (run / "metrics.csv").write_text("step,phase,name,value\n1,train,loss,2\n2,train,loss,1\n", "utf-8")


def _compare(asked: Released, root: Path) -> None:
    _command("compare", root / "run", "--predictions", root / "run" / "zero_shot" / "predictions.jsonl")


def _report(asked: Released, root: Path) -> None:
    _command("report", root / "run")


def _command(*words: object) -> None:
    if status := main([str(word) for word in words]):
        raise RuntimeError(f"medtune {words[0]} ended with {status}")


def _phase(asked: Released, root: Path, folder: Path) -> PhaseScores:
    """Writes the answers of a phase, of which those after training are right more often, and returns their scores."""
    prepared = open_prepared(root / "data")
    questions = prepared.questions("test")
    folder.mkdir(parents=True)
    path = folder / "predictions.jsonl"
    write_replies(questions if folder.name == "zero_shot" else questions[1:], path)
    read = read_predictions(path)
    parsed = parse_all(questions, read, asked.benchmark)
    write_parsed(folder / "parsed.jsonl", read, parsed, asked.benchmark)
    train = TrainSplit(lambda: prepared.each_question("train"))
    return score_phase(questions, read, asked.benchmark, train=train, parsed=parsed)


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
