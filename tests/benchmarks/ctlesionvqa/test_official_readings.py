"""Compares our twins of version 2's parsers and scores with its own code's readings of thousands of replies."""

import json
import math
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from medtune.benchmarks import find_benchmark
from medtune.benchmarks.ctlesionvqa.reply_parsers import normalised, official_letter, official_number, official_yes_no
from medtune.benchmarks.ctlesionvqa.scoring import row_score
from medtune.benchmarks.ctlesionvqa.v2_scoring import (
    Pair,
    V2Row,
    aggregate_free_text,
    aggregate_letters,
    score_binary,
    score_categorical,
    score_letters,
    score_numeric,
)
from medtune.data.types import AnswerKind, Question
from medtune.eval.parsed_reply import ParsedReply
from medtune.eval.scoring.parsers.answer_marks import without_thinking
from tests.benchmarks.ctlesionvqa import generated_replies
from tests.eval.samples import sample_and_all

RECORD = json.loads(Path(__file__).with_name("official_readings.json").read_text("utf-8"))
ROWS: list[tuple[str, str, str, Any]] = [tuple(row) for row in RECORD["rows"]]
SCORES = {"letter": score_letters, "yes_no": score_binary, "number": score_numeric, "phrase": score_categorical}
KINDS: dict[str, AnswerKind] = {"letter": "choice", "yes_no": "yes_no", "number": "number", "phrase": "text"}
OPTIONS = {"letter": ("liver", "spleen", "colon", "gallbladder"), "yes_no": ("Yes", "No")}


def asked(kind: str, truth: str) -> Question:
    options = OPTIONS.get(kind, ())
    answer = options["ABCD".index(truth)] if kind == "letter" else truth
    return Question("q", "m", "Asked?", options, answer, KINDS[kind], "p", facets={"task": "t", "subtype": "s"})


def pairs(places: Sequence[int]) -> list[Pair]:
    return [Pair(ROWS[place][2], ROWS[place][1]) for place in places]


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
        SCORES[kind]([Pair(reply, question.answer if kind != "letter" else "A")])


@pytest.mark.parametrize("number", sample_and_all(400, 4_000))
def test_no_reply_raises_in_the_official_parser(number: int) -> None:
    """The official code raises on no text; neither may its twin, whatever words stand in the sentences."""
    any_reply = given(st.sampled_from(sorted(KINDS)), st.integers(0, 10**9), st.text(max_size=30))
    settings(max_examples=number, deadline=None)(any_reply(one_reply))()
