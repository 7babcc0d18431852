"""Compares both parsers of letters with what the official extractor reads, on recorded and on the authors' replies."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from medtune.benchmarks import published
from medtune.benchmarks.rexsonovqa import parse_official, parse_robust
from medtune.benchmarks.rexsonovqa.letter_parsers import LETTERS, official_letter
from medtune.benchmarks.rexsonovqa.scored_items import is_kept
from medtune.data.raw.lettered_options import split_options
from medtune.data.types import Question
from tests.eval.golden import recorded, rows
from tests.eval.scoring.parsers.generated_replies import replies

OPTIONS = ("the liver", "the left kidney", "the spleen", "a gallstone")
# Two of the folders lie in ../shared/real; the other two are in the authors' repository, and are read where they exist.
MODELS = {
    "gemini_scores": "Gemini 3 Pro",
    "seed_scores": "Seed 2.0 Pro",
    "qwen_scores": "Qwen3.5-397B",
    "llava_scores": "LLaVA-Video-72B",
}
# Golden replies of which the official extractor reads a letter that they do not mean, and what robust reads of them.
OFFICIAL_ERRORS = {
    "Answer: **C**": "C", "Answer - B": "B", "Cannot be determined": None, "Because the wall is bright, D": "D",
    "Definitely not A": None, "All of them": None, "Blood flow is seen, so C": "C", "Answer: E": None,
    "Answer: Apex": None, "Answer: A or B": None, "Choice: B": "B", "Answer: not A": None, "Both A and C": None,
    "A and C": None, "<think>Answer: A</think> Answer: D": "D", "Answer：C": "C", "Correct: A.": "A", "AB": None,
    "Answer: AB": None, "Beta": None,
}  # fmt: skip


def asked(options: tuple[str, ...] = OPTIONS) -> Question:
    return Question("q", "m", "What is it?", options, options[0], "choice", "p", facets={"format": "mcq"})


def letter_of(option: str | None, options: tuple[str, ...] = OPTIONS) -> str | None:
    return None if option is None else LETTERS[options.index(option)]


def record() -> dict[str, Any]:
    found: dict[str, Any] = json.loads((Path(__file__).parent / "recorded_letters.json").read_text("utf-8"))
    return found


def test_official_reads_the_stripped_reply_as_the_official_pipeline_does() -> None:
    for reply, letter in {" C": "C", "\nB": "B", "\t d": "D", " (B)": None}.items():
        assert letter_of(parse_official(reply, asked())) == letter


def test_official_equals_the_recorded_letters_of_every_reply() -> None:
    letters = record()["letters"]
    of_stripped = {**letters, **record()["letters_of_stripped_where_they_differ"]}
    assert len(letters) > 2000
    assert {reply: official_letter(reply) for reply in letters} == letters
    assert {reply: letter_of(parse_official(reply, asked())) or "" for reply in letters} == of_stripped


def test_robust_reads_what_official_reads_of_golden_letters_except_its_known_errors() -> None:
    golden = recorded("rexsonovqa_letters.json")
    texts = {row["id"]: row["reply"] for row in rows(golden["rows"])}
    for row in rows(golden["expected"]["letters"]):
        reply = texts[row["id"]]
        read, official = letter_of(parse_robust(reply, asked())), official_letter(reply.strip())
        assert read == OFFICIAL_ERRORS[reply] if reply in OFFICIAL_ERRORS else read == official or not official, reply


@pytest.mark.slow
def test_robust_equals_official_wherever_official_is_right_about_a_generated_reply() -> None:
    counts = {"both": 0, "robust alone": 0}
    for said in replies(0, 60_000, OPTIONS):
        meant = None if said.meant is None else OPTIONS[said.meant]
        robust, official = (parse(said.text, asked()) for parse in (parse_robust, parse_official))
        assert robust == meant, said
        counts["both"] += meant is not None and official == meant
        counts["robust alone"] += robust == meant != official
    assert min(counts.values()) > 10_000


@pytest.fixture(params=MODELS)
def score_rows(request: pytest.FixtureRequest, shared_real: Path) -> tuple[str, list[Mapping[str, Any]]]:
    folder = shared_real / "rexsonovqa" / request.param / "mcq"
    if not folder.is_dir():
        pytest.skip(f"{folder} is not there; the authors' repository has the scores of {MODELS[request.param]}")
    files = sorted(folder.glob("score_pred_*.json"))
    assert len(files) == 47
    found = [row for file in files for row in json.loads(file.read_text("utf-8"))]
    return request.param, [row for row in found if is_kept(row)]


def test_the_default_gives_the_published_figures_on_the_official_score_files(
    score_rows: tuple[str, list[Mapping[str, Any]]],
) -> None:
    name, found = score_rows
    right: dict[str, int] = {"robust": 0, "official": 0}
    for row in found:
        told = split_options(row["question"].removeprefix("[MCQ]").strip())
        assert told is not None
        question = asked(told.options)
        truth = question.options[LETTERS.index(row["answer"].strip()[0])]
        reply = row["inference_metadata"]["raw_response"] or ""
        robust, official = parse_robust(reply, question), parse_official(reply, question)
        right["robust"] += robust == truth
        right["official"] += official == truth
        # One reply of Gemini states two answers and is wrong by both parsers' reading.
        assert robust == official or (robust is None and official != truth), reply
    wanted, _, n = published("rexsonovqa")["mcq"][MODELS[name]][-1]
    assert len(found) == n
    assert right == {"robust": wanted, "official": wanted}
