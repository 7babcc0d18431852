"""Compares both parsers of letters with what the official extractor reads, on recorded and on the authors' replies."""

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from medtune.benchmarks import published
from medtune.benchmarks.rexsonovqa import benchmark, parse_official, parse_robust, render
from medtune.benchmarks.rexsonovqa.official_letter import LETTERS, official_letter
from medtune.benchmarks.rexsonovqa.rubric import (
    is_kept,
    official_verdict,
    robust_verdict,
    rubric,
    scored_items,
    verdict,
)
from medtune.data.raw.lettered_options import split_options
from medtune.data.types import Question
from medtune.eval.judge.verdicts import JUDGE_MARK, marked_verdicts
from medtune.eval.metric import ParsedReply
from tests.benchmarks.rexsonovqa.score_files import official_score_of_stored
from tests.eval.answers import generated
from tests.eval.golden import recorded, rows
from tests.eval.scoring.parsers.generated_replies import replies

EXAMPLES = benchmark().examples
MCQ, FREE = EXAMPLES[0], EXAMPLES[2]
PARSERS = [parse_robust, parse_official]
ANYTHING = st.one_of(st.text(), st.binary().map(lambda raw: raw.decode("utf-8", "replace")))
JSON = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.sampled_from(["none", "1", "both_fail"])),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.sampled_from(["score", "error_type", "x"]), inner)
    ),
    max_leaves=6,
)
JUDGE_REPLIES = st.one_of(ANYTHING, JSON.map(json.dumps), JSON.map(lambda value: f"```json\n{json.dumps(value)}\n```"))


def answered(question: Question, text: str) -> ParsedReply:
    prediction = generated(question, text)
    return ParsedReply(question, prediction, parse_robust(text, question))


def test_our_wording_says_role_question_options_and_format() -> None:
    role = "You are a sonographer who explains videos of ultrasound examinations."
    assert render(FREE, "text").text.split("\n") == [role, FREE.text, "Answer in one to three sentences."]
    lettered = [f"{letter}. {option}" for letter, option in zip(LETTERS, MCQ.options, strict=True)]
    assert render(MCQ, "text").text.split("\n") == [role, MCQ.text, *lettered, "Answer with its letter."]


@pytest.mark.parametrize("parser", PARSERS)
@given(reply=ANYTHING)
def test_any_reply_is_read_without_crashing(parser: object, reply: str) -> None:
    assert callable(parser)
    assert parser(reply, MCQ) in (None, *MCQ.options)
    assert parser(reply, FREE) is None or reply.split() == FREE.answer.split() or reply.startswith(JUDGE_MARK)


@given(reply=JUDGE_REPLIES)
def test_any_judge_reply_is_read_without_crashing(reply: str) -> None:
    official_verdict(reply)
    found = robust_verdict(reply)
    assert found is None or found.score in (0, 1, 2)
    for parser in PARSERS:
        read = parser(JUDGE_MARK + reply, FREE)
        assert read is None or 0 <= rubric().value([ParsedReply(FREE, None, read)]) <= 2
        assert read is None or parser(read, FREE) == read


@given(letter=st.sampled_from(LETTERS))
def test_letters_are_their_own_canonical_form(letter: str) -> None:
    assert official_letter(letter) == letter
    assert official_score_of_stored(letter, letter) == 1
    assert parse_robust(letter, MCQ) == parse_official(letter, MCQ) == MCQ.options[LETTERS.index(letter)]


def test_robust_letters_avoid_the_official_traps() -> None:
    traps = {"Answer - B": "B", "Answer: (B)": "B", "**C**": "C", "(B)": "B", " c": "C", "**Answer:** C": "C"}
    for reply, letter in traps.items():
        assert parse_robust(reply, MCQ) == MCQ.options[LETTERS.index(letter)], reply
    for reply in ("Cannot be determined", "Because of the wall", "Definitely not", "Blood flow is seen"):
        assert official_letter(reply)
        assert parse_robust(reply, MCQ) is None, reply
    assert parse_robust("<think>Answer: A</think> Answer: D", MCQ) == MCQ.options[3]


def test_robust_judge_does_not_take_a_failure_for_a_wrong_answer() -> None:
    assert official_verdict("not json").score == 0
    assert robust_verdict("not json") is None
    found = robust_verdict('```\n{"score": 2}\n```')
    assert found is not None
    assert (found.score, found.error_type) == (2, "none")
    partial = robust_verdict('[{"score": "1", "error_type": "none"}]')
    assert partial is not None
    assert (partial.score, partial.error_type) == (1, "unknown")


def test_verdicts_take_the_place_of_replies() -> None:
    said = generated(FREE, "It turns.")
    other = generated(MCQ, "A")
    parsed = marked_verdicts([said, other], {said.key: '{"score": 1, "error_type": "wrong_conclusion"}'})
    assert parsed[1] is other
    assert parse_robust(parsed[0].text or "", FREE) == verdict(1, "wrong_conclusion")
    items = scored_items([ParsedReply(FREE, parsed[0], verdict(1, "wrong_conclusion"))])
    assert (items[0].score, items[0].error_type, items[0].is_mcq) == (1, "wrong_conclusion", False)


def test_a_model_that_plays_the_judge_gets_nothing() -> None:
    assert parse_robust('{"score": 2, "error_type": "none"}', FREE) is None
    assert parse_official('{"score": 2, "error_type": "none"}', FREE) is None


def test_oracle_and_silence_in_points() -> None:
    assert rubric().value([answered(FREE, FREE.answer)]) == 2
    assert rubric().value([answered(FREE, "")]) == 0
    with pytest.raises(ValueError, match="at least one"):
        rubric().value([])


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


@pytest.mark.parametrize(("reply", "meant"), OFFICIAL_ERRORS.items())
def test_robust_reads_what_a_reply_means_where_official_errs(reply: str, meant: str | None) -> None:
    assert official_letter(reply.strip()) not in ("", meant)
    assert letter_of(parse_robust(reply, asked())) == meant


def letters_said(reply: str) -> set[str]:
    """Returns the letters that stand alone in a reply, behind its thoughts, and are neither denied nor asked."""
    said = re.sub(r"(?s)<think>.*?</think>", "", reply)
    return {letter.upper() for letter in re.findall(r"(?i)(?<!not )(?<![a-z])[a-d](?![a-z?])", said)}


def test_robust_reads_what_official_reads_of_golden_letters_where_it_is_said() -> None:
    """A letter that official reads is right where it is the only one that the reply says, and else no other is read."""
    golden = recorded("rexsonovqa_letters.json")
    texts = {row["id"]: row["reply"] for row in rows(golden["rows"])}
    for row in rows(golden["expected"]["letters"]):
        reply = texts[row["id"]]
        read, said, official = (
            letter_of(parse_robust(reply, asked())),
            letters_said(reply),
            official_letter(reply.strip()),
        )
        if official:
            assert read == official if said == {official} else read is None or read in said, reply


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
