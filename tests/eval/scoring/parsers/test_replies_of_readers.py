"""Holds the reading of choices, of yes and no, of measures and of labels against replies that a careful human has read.

The lists stand in the folder `replies` and in tests/cases/replies: one reply a line, with its question and reading.
"""

import json
import time
from pathlib import Path
from typing import Any

import pytest

from medtune.benchmarks.vqa.label_replies import read_set
from medtune.data.types import AnswerKind, Question
from medtune.eval.scoring.label_sets import LABELS
from medtune.eval.scoring.parsers.choice_parsers import parse_choice
from medtune.eval.scoring.parsers.closed_parser import parse_closed
from medtune.eval.scoring.parsers.measures import read_measure
from tests.golden.files import COLLECTED
from tests.soak import in_suites

REPLIES = Path(__file__).with_name("replies")
MOST_UNREAD = 0.1
LONG, MOST_TIMES = 20_000, 8
"""The characters of a long reply, and how many times as long as in short replies these may take.

They take about as long; where the time grows with the square of the length, hundreds of times.
"""
DEBATED = ("0.60",)
"""A blind list wants 60 where a percentage is asked; the prompt names the unit, and shares below one percent exist."""


def asked(text: str, options: tuple[str, ...]) -> Question:
    kind: AnswerKind = "yes_no" if options == ("Yes", "No") else "choice"
    return Question("q", "m", text, options, options[0], kind, "p")


def listed(path: Path) -> list[dict[str, Any]]:
    return [row for row in map(json.loads, path.read_text("utf-8").splitlines()) if row["reply"] not in DEBATED]


def said(row: dict[str, Any], choice: Any) -> object:
    """Returns what is read of the reply of a row; `choice` reads those with options."""
    if "labels" in row:
        return read_set(row["reply"], _of_labels(tuple(row["labels"])))
    if "unit" in row:
        return read_measure(row["reply"], row["unit"], asked=row.get("question", ""))
    return choice(row["reply"], asked(row.get("question", "Which?"), tuple(row["options"])))


def _of_labels(labels: tuple[str, ...]) -> Question:
    return Question("q", "m", "Which?", (), labels[0], "set", "p", printed={LABELS: "\n".join(labels)})


@pytest.mark.parametrize(
    ("name", "choice"),
    [
        *(("usual", parse_closed), ("kinds_of_the_blind", parse_closed)),
        *(("rules_of_choices", parse_choice), ("rules_of_numbers", None), ("rules_of_labels", None)),
    ],
)
def test_replies_are_read_as_a_careful_human_reads_them(name: str, choice: Any) -> None:
    read = [(row, said(row, choice)) for row in listed(REPLIES / f"{name}.jsonl")]
    assert len(read) > 25
    assert [each for each in read if each[1] != _exactly(each[0]["reading"])] == []


def _exactly(reading: object) -> object:
    return pytest.approx(reading, rel=1e-12) if isinstance(reading, float | int) else reading


@pytest.mark.parametrize(
    ("path", "choice", "at_least"),
    [
        *((COLLECTED / "replies" / f"{name}.jsonl", parse_closed, 25) for name in ("choice", "hard_choice", "yes_no")),
        *((COLLECTED / "replies" / f"{name}.jsonl", parse_choice, 25) for name in ("choice", "hard_choice")),
        *((REPLIES / f"{name}.jsonl", parse_choice, 60) for name in ("odd", "further_odd", "doubtful")),
        *((REPLIES / f"unseen_{number}.jsonl", None, 61) for number in (1, 2, 3, 4)),
        *((REPLIES / f"blind_{number}.jsonl", parse_closed, 91) for number in (1, 2, 3, 4, 5)),
    ],
    ids=lambda each: each.stem if isinstance(each, Path) else getattr(each, "__name__", None),
)
def test_few_replies_stay_unread_and_none_is_wrong_or_invented(path: Path, choice: Any, at_least: int) -> None:
    read = []
    for row in listed(path):
        of_yes_and_no = row.get("options") == ["Yes", "No"]
        read.append((row, said(row, choice or (parse_closed if of_yes_and_no else parse_choice))))
    assert [each for each in read if each[1] not in (None, each[0]["reading"])] == []
    unread = [found is None for row, found in read if row["reading"] is not None]
    assert len(unread) >= at_least
    assert sum(unread) <= MOST_UNREAD * len(unread)


JOINTS = (" ", "\n", "")


@pytest.fixture(scope="module")
def in_short_replies_s() -> float:
    """The CPU seconds that as many characters as a long reply has take in short replies."""
    characters = 0
    for number in range(2):  # The first time compiles the patterns.
        characters, began_s = 0, time.process_time()
        for row in listed(REPLIES / "odd.jsonl"):
            characters += len(text := f"{row['reply']} {number}")
            parse_choice(text, asked("Which?", tuple(row["options"])))
    return (time.process_time() - began_s) * LONG / characters


@pytest.mark.parametrize("first", in_suites(range(len(JOINTS)), plain=(0,)))
def test_a_long_reply_that_repeats_itself_takes_no_longer_than_short_ones(
    first: int, in_short_replies_s: float
) -> None:
    """Each reply with one joint; those of another first joint are the rest of the pairs."""
    for number, row in enumerate(listed(REPLIES / "odd.jsonl")[::16], first):
        joint = JOINTS[number % len(JOINTS)]
        text = (row["reply"] + joint) * (LONG // len(row["reply"] + joint) + 1)
        began_s = time.process_time()
        parse_choice(text[:LONG], asked("Which?", tuple(row["options"])))
        assert time.process_time() - began_s < MOST_TIMES * in_short_replies_s, row


@pytest.mark.parametrize("reply", ["**Answer: 9.5 mm**", "| a ", "Sí", "wait ", "no cyst or ", "1, 2, ", "A: 0.1 "])
def test_a_long_reply_to_any_question_takes_no_longer_than_short_ones(reply: str, in_short_replies_s: float) -> None:
    text = (reply * LONG)[:LONG]
    began_s = time.process_time()
    parse_closed(text, asked("Is there a cyst?", ("Yes", "No")))
    read_measure(text, "mm", asked="How long?")
    read_set(text, _of_labels(("cyst", "mass")))
    assert time.process_time() - began_s < MOST_TIMES * in_short_replies_s
