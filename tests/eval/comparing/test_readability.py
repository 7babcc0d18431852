"""Tests that a gain says how much of it goes with replies that became readable."""

import json
from pathlib import Path

import pytest

from medtune.benchmarks import find_benchmark, paper_of
from medtune.data.types import Prediction, PredictionKey, Question
from medtune.eval.comparing.gain import Gain, gain_between
from medtune.eval.comparing.verdict import Readability, readability_text
from medtune.eval.data_label import DataLabel
from medtune.eval.report.report import run_report
from medtune.eval.report.run_data import read_run
from medtune.eval.results.build import gain_table, results_file
from medtune.eval.results.typed_json import json_bytes
from medtune.eval.scoring.score import PhaseScores, score_phase
from tests.eval.answerers import groups, questions
from tests.eval.report.folders import change_json, write_run
from tests.eval.run_facts import run_facts

BUSI = find_benchmark("busi")
ASKED = questions(groups(8))
LABEL = DataLabel("released", "ours")
UNREADABLE = "The echoes are of mixed brightness."


def phase(replies: list[str]) -> PhaseScores:
    said = [
        Prediction(PredictionKey(question.id, "image", "generation", 0), text=reply)
        for question, reply in zip(ASKED, replies, strict=True)
    ]
    return score_phase(ASKED, said, BUSI, train=ASKED)


def wrong(question: Question) -> str:
    return next(option for option in question.options if option != question.answer)


def gain(before: list[str], after: list[str]) -> Gain:
    found = gain_between(phase(before), phase(after), BUSI)
    assert found is not None
    return found


def test_tuning_that_only_shortens_replies_has_no_gain_on_what_was_readable() -> None:
    shortened = [question.answer if place % 4 else wrong(question) for place, question in enumerate(ASKED)]
    rambling = [UNREADABLE if place % 3 == 0 else f"It is {reply}." for place, reply in enumerate(shortened)]
    found = gain(rambling, shortened)
    num_unread = rambling.count(UNREADABLE)
    assert found.overall.value > 0.2
    assert found.readability is not None
    assert (found.readability.only_after, found.readability.only_before, found.readability.neither) == (
        num_unread,
        0,
        0,
    )
    assert found.readability.both == len(ASKED) - num_unread
    assert found.readability.value == 0
    assert found.readability.ci95 is not None
    assert found.readability.ci95.low <= 0 <= found.readability.ci95.high


def test_the_reverse_and_what_is_never_read_are_counted() -> None:
    right = [question.answer for question in ASKED]
    found = gain([UNREADABLE, *right[1:]], [UNREADABLE, UNREADABLE, *right[2:]])
    assert found.readability is not None
    assert (found.readability.only_before, found.readability.only_after, found.readability.neither) == (1, 0, 1)


def test_nothing_is_said_where_every_reply_could_be_read() -> None:
    right = [question.answer for question in ASKED]
    assert gain([wrong(question) for question in ASKED], right).readability is None


def test_without_a_reply_that_is_readable_both_times_there_is_no_value() -> None:
    found = gain([UNREADABLE] * len(ASKED), [question.answer for question in ASKED])
    assert found.readability == Readability(only_before=0, only_after=len(ASKED), neither=0, both=0)


def test_results_file_and_table_say_it() -> None:
    right = [question.answer for question in ASKED]
    phases = {"zero_shot": phase([UNREADABLE, *right[1:]]), "final": phase(right)}
    found = gain_between(phases["zero_shot"], phases["final"], BUSI)
    assert found is not None
    assert found.readability is not None
    file = results_file(phases, found, BUSI, benchmark_name="busi", model="nano", facts=run_facts(LABEL))
    written = json.loads(json_bytes(file))["gain"]["readability"]
    assert (written["only_after"], written["both"], written["value"]) == (1, len(ASKED) - 1, 0)
    table = gain_table(phases, found, BUSI, label=LABEL)
    assert readability_text(found.readability) in table


def test_report_says_it_in_its_first_lines(prepared_tiny: Path, tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", prepared_tiny)
    change_json(
        run / "results.json",
        "gain",
        "readability",
        value={"only_before": 1, "only_after": 32, "neither": 0, "both": 210, "value": 0.01, "ci95": [-0.02, 0.04]},
    )
    sentences = run_report(read_run(run), paper_of).headline.sentences
    wanted = "32 replies became readable and 1 unreadable; on the 210 questions whose replies could be read both times "
    assert any(each.startswith(wanted + "the gain is +0.010 (95 % interval -0.020 to +0.040)") for each in sentences)


@pytest.mark.parametrize("number", [1, 2])
def test_one_reply_is_a_reply(number: int) -> None:
    text = readability_text(Readability(only_before=0, only_after=number, neither=3, both=0))
    assert text.startswith("1 reply" if number == 1 else "2 replies")
    assert "3 could be read neither time" in text
