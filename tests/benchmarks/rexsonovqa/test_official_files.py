"""Compares the authors' score files, which are not part of the project, with the numbers in their paper."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from medtune.benchmarks import published
from medtune.benchmarks.facets import DURATION_BINS
from medtune.benchmarks.rexsonovqa.letter_parsers import official_letter
from medtune.benchmarks.rexsonovqa.official_report import report
from medtune.benchmarks.rexsonovqa.scored_items import (
    TYPES,
    ScoredItem,
    constant_letter,
    is_kept,
    recode_zero_with_single_error,
    tally_by_duration,
    tally_by_type,
)
from medtune.benchmarks.rexsonovqa.tables import FreeOutcome, cross_free
from tests.benchmarks.rexsonovqa.score_files import read_scored

MODELS = {"gemini_scores": "Gemini 3 Pro", "seed_scores": "Seed 2.0 Pro"}
RECODED = {"gemini_scores"}


def score_rows(folder: Path) -> list[dict[str, Any]]:
    files = sorted(folder.glob("*/score_pred_*.json"))
    assert len(files) == 2 * 47
    return [row for file in files for row in json.loads(file.read_text("utf-8"))]


@pytest.fixture(params=MODELS)
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def outcomes(items: list[ScoredItem]) -> list[int]:
    each = [FreeOutcome(item.score, item.error_type) for item in items if not item.is_mcq]
    return [*cross_free(each, each).cells[-1]]


def test_score_files_give_the_published_totals(shared_real: Path, name: str) -> None:
    items = read_scored(score_rows(shared_real / "rexsonovqa" / name))
    numbers, found = published("rexsonovqa"), report(items)
    right, wrong, n = numbers["mcq"][MODELS[name]][-1]
    assert (found.mcq.total, found.mcq.n - found.mcq.total, found.mcq.n) == (right, wrong, n)
    read = recode_zero_with_single_error(items) if name in RECODED else items
    assert outcomes(read) == numbers["free"][MODELS[name]][-1]
    assert (outcomes(items) == outcomes(read)) == (name not in RECODED)


def printed_of_gemini(items: list[ScoredItem]) -> Mapping[str, float]:
    mcq, free = [item for item in items if item.is_mcq], [item for item in items if not item.is_mcq]
    found, free = report(mcq), recode_zero_with_single_error(free)
    types, durations = tally_by_type(free), tally_by_duration(free)
    return {
        "mcq_video_overall": round(100 * found.mcq.mean, 1),
        "mcq_video_type1": round(100 * found.mcq_by_type[TYPES[0]].mean, 1),
        "mcq_video_type2": round(100 * found.mcq_by_type[TYPES[1]].mean, 1),
        "mcq_video_0_5s": round(100 * found.mcq_by_duration[DURATION_BINS[0]].mean, 1),
        "mcq_video_gt20s": round(100 * found.mcq_by_duration[DURATION_BINS[-1]].mean, 1),
        "fr_video_overall": round(report(free).free.mean, 2),
        "fr_video_type2": round(types[TYPES[1]].mean, 2),
        "fr_video_type3": round(types[TYPES[2]].mean, 2),
        "fr_video_0_5s": round(durations[DURATION_BINS[0]].mean, 2),
        "fr_video_gt20s": round(durations[DURATION_BINS[-1]].mean, 2),
    }


def test_score_files_give_every_gemini_number_of_the_text(shared_real: Path) -> None:
    found = printed_of_gemini(read_scored(score_rows(shared_real / "rexsonovqa" / "gemini_scores")))
    text = published("rexsonovqa")["text"]
    assert found == {key: text[key] for key in found}
    assert found.keys() == {key for key in text if "_video_" in key}


def test_stored_letters_are_those_of_the_official_extractor(shared_real: Path, name: str) -> None:
    rows = [row for row in score_rows(shared_real / "rexsonovqa" / name) if row["question"].startswith("[MCQ]")]
    raw = [(row["inference_metadata"]["raw_response"], row["model_prediction"]) for row in rows]
    assert all(official_letter(reply) == letter for reply, letter in raw if reply)


def test_always_a_beats_the_blind_run(shared_real: Path) -> None:
    rows = score_rows(shared_real / "rexsonovqa" / "gemini_scores")
    keys = [row["answer"] for row in rows if row["question"].startswith("[MCQ]") and is_kept(row)]
    assert constant_letter(keys)["A"] == (110, 249)
    assert 100 * constant_letter(keys)["A"].mean > published("rexsonovqa")["text"]["mcq_blind_overall"]
