"""Compares our twins of version 2's parsers and scores with its own code's readings of thousands of replies."""

import json
import math
import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from medtune.benchmarks import find_benchmark
from medtune.benchmarks.ctlesionvqa import benchmark
from medtune.benchmarks.ctlesionvqa.reply_parsers import (
    LETTERS,
    normalised,
    official_letter,
    official_number,
    official_yes_no,
    plain,
    robust_yes_no,
    vsi_number,
)
from medtune.benchmarks.ctlesionvqa.scoring import row_score
from medtune.benchmarks.ctlesionvqa.v2_scoring import (
    ReplyAndTruth,
    V2Row,
    aggregate_free_text,
    aggregate_letters,
    score_binary,
    score_categorical,
    score_letters,
    score_numeric,
)
from medtune.data.types import AnswerKind, Question
from medtune.eval.metric import ParsedReply
from medtune.eval.scoring.parsers.choice_statements import without_thinking
from medtune.eval.scoring.parsers.measures import read_measure
from tests.benchmarks.ctlesionvqa import generated_replies
from tests.soak import sample_and_all

ANYTHING = st.one_of(
    st.text(),
    st.binary().map(lambda raw: raw.decode("utf-8", "replace")),
    st.text(alphabet="0123456789.,-+eE/ <think>answer:minusyno"),
)
EXAMPLES = benchmark().examples
Parser = Callable[[str, Question], str | None]


@pytest.mark.parametrize("parser", benchmark().parsers.values(), ids=benchmark().parsers)
@given(reply=ANYTHING, question=st.sampled_from(EXAMPLES))
def test_any_reply_is_read_without_crashing(parser: Parser, reply: str, question: Question) -> None:
    said = parser(reply, question)
    if question.options:
        assert said in (None, *question.options)
    if said is not None and question.answer_kind == "number":
        assert math.isfinite(float(said))
        assert parser(said, question) == said


@given(ANYTHING)
def test_robust_readings_are_their_own_canonical_form(reply: str) -> None:
    robust = benchmark().parsers["robust"]
    for question in EXAMPLES:
        said = robust(reply, question)
        assert said is None or robust(said, question) == said
    word = robust_yes_no(reply)
    assert word is None or robust_yes_no(word) == official_yes_no(word) == word


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_every_parser_reads_a_plain_number_back(value: float) -> None:
    assert float(plain(value)) == value
    assert official_number(plain(value)) == vsi_number(plain(value)) == read_measure(plain(value)) == value


def test_canonical_letters_and_words_stay() -> None:
    assert [official_letter(letter) for letter in LETTERS] == [*LETTERS]
    assert [official_yes_no(word) for word in ("yes", "no")] == ["yes", "no"]
    assert normalised(normalised("Head of Pancreas.")) == "head of pancreas"


def test_robust_numbers_avoid_the_official_traps() -> None:
    read = {
        "The volume is 1,123.3 cc": 1123.3, "minus 35": -35.0, "−9": -9.0, "1e3": 1000.0, ".5": 0.5,
        "L1 vertebra, 14 mm": 14.0, "<think>99</think> 14": 14.0, "I see 4. Answer: 42.": 42.0, "three": 3.0,
        "12 cm, that is 12 cm": 12.0, "+8": 8.0, "none": 0.0,
    }  # fmt: skip
    for reply, value in read.items():
        assert read_measure(reply) == value, reply
    for reply in ("10-12", "between 4 and 6", "12/5", "2 of 3.1", "", "n/a", "9" * 400, "NaN", "16 to 17"):
        assert read_measure(reply) is None, reply
    assert read_measure("I see 2 lesions of 3.1 cm", "cm") == 3.1


def test_robust_yes_no_avoids_the_official_traps() -> None:
    for reply in ("Normal liver", "Nodule present", "notably enlarged", "maybe yes, maybe no", "neither yes nor no"):
        assert official_yes_no(reply)
        assert robust_yes_no(reply) is None, reply
    assert robust_yes_no("**Yes**, there is no doubt") == "yes"
    assert robust_yes_no("No lesion is seen") == "no"
    assert robust_yes_no("<think>yes</think>no") == "no"


def test_robust_choice_reads_past_the_word_answer() -> None:
    question = next(each for each in EXAMPLES if len(each.options) == 4)
    parsers = benchmark().parsers
    assert parsers["official"]("Answer: C", question) == question.options[0]
    assert parsers["robust"]("Answer: C", question) == question.options[2]
    assert parsers["robust"]("Based on the scan", question) is None
    assert parsers["vsi"]("C. because", question) == question.options[2]


def test_phrases_are_equal_after_normalisation_alone() -> None:
    question = replace(EXAMPLES[-1], answer="Head of pancreas")
    for name in ("robust", "official"):
        parser = benchmark().parsers[name]
        assert parser("<think>tail</think> head of pancreas.", question) == "Head of pancreas"
        assert parser("pancreas", question) == "pancreas"
        assert parser("", question) is None


RECORD = json.loads(Path(__file__).with_name("official_readings.json").read_text("utf-8"))
ROWS: list[tuple[str, str, str, Any]] = [tuple(row) for row in RECORD["rows"]]
SCORES = {"letter": score_letters, "yes_no": score_binary, "number": score_numeric, "phrase": score_categorical}
KINDS: dict[str, AnswerKind] = {"letter": "choice", "yes_no": "yes_no", "number": "number", "phrase": "text"}
OPTIONS = {"letter": ("liver", "spleen", "colon", "gallbladder"), "yes_no": ("Yes", "No")}


def asked(kind: str, truth: str) -> Question:
    options = OPTIONS.get(kind, ())
    answer = options["ABCD".index(truth)] if kind == "letter" else truth
    return Question("q", "m", "Asked?", options, answer, KINDS[kind], "p", facets={"task": "t", "subtype": "s"})


def pairs(places: Sequence[int]) -> list[ReplyAndTruth]:
    return [ReplyAndTruth(ROWS[place][2], ROWS[place][1]) for place in places]


def test_the_record_is_of_these_replies() -> None:
    assert [row[:3] for row in ROWS] == generated_replies.rows(RECORD["seed"])


@pytest.mark.parametrize("kind", KINDS)
def test_every_recorded_reply_is_read_as_the_official_code_reads_it(kind: str) -> None:
    official, wrong = find_benchmark("ctlesionvqa").parsers["official"], []
    for _, truth, reply, expected in (row for row in ROWS if row[0] == kind):
        question, found = asked(kind, truth), without_thinking(reply)
        parsed = official(reply, question)
        read: object = parsed
        match kind:
            case "letter":
                read = official_letter(reply)
                fits = parsed == dict(zip("ABCD", question.options, strict=True)).get(expected)
            case "yes_no":
                read = official_yes_no(found)
                fits = (parsed or "").lower() == expected
            case "number":
                number = official_number(found)
                read = None if number is None else str(number) if math.isinf(number) else number
                is_number = expected is not None and not isinstance(expected, str)
                fits = parsed is None if not is_number else parsed is not None and float(parsed) == expected
            case _:
                read = [normalised(found), normalised(found) == normalised(truth)]
                fits = row_score(ParsedReply(question, None, parsed)) == expected[1]
        if read != expected or not fits:
            wrong.append((reply, truth, read, parsed, expected))
    assert not wrong, wrong[:5]


def test_every_recorded_set_has_the_official_score() -> None:
    for kind, places, expected in RECORD["sets"]:
        assert SCORES[kind](pairs(places)).details == expected, (kind, places)


def test_every_recorded_benchmark_has_the_official_aggregate() -> None:
    for form, places, expected in RECORD["aggregates"]:
        rows = [V2Row(name, above, pairs([place])[0]) for place, name, above in places]
        found = aggregate_letters(rows) if form == "mc" else aggregate_free_text(rows)
        assert found == expected, places


def one_reply(kind: str, seed: int, word: str) -> None:
    rng = random.Random(seed)
    around = rng.choice(generated_replies.AROUND).format(word)
    for reply in (word, around, generated_replies.reply(rng, kind) + word):
        question = asked(kind, generated_replies.truth(rng, kind))
        parsed = find_benchmark("ctlesionvqa").parsers["official"](reply, question)
        assert parsed is None or parsed.strip()
        assert not question.options or parsed is None or parsed in question.options
        SCORES[kind]([ReplyAndTruth(reply, question.answer if kind != "letter" else "A")])


@pytest.mark.parametrize("number", sample_and_all(400, 4_000))
def test_no_reply_raises_in_the_official_parser(number: int) -> None:
    """The official code raises on no text; neither may its twin, whatever words stand in the sentences."""
    any_reply = given(st.sampled_from(sorted(KINDS)), st.integers(0, 10**9), st.text(max_size=30))
    settings(max_examples=number, deadline=None)(any_reply(one_reply))()
