"""Tests that a gain says how much of it goes with replies that became readable."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from medtune.benchmarks import find_benchmark, paper_of
from medtune.eval.comparing.compare import About, Side, compare
from medtune.eval.comparing.compare_text import comparison_table, judgement
from medtune.eval.comparing.gain import Gains, gain_between
from medtune.eval.comparing.verdict import readability_text, verdict
from medtune.eval.data_label import DataLabel
from medtune.eval.report.report import run_report
from medtune.eval.report.run_data import read_run
from medtune.eval.results.build import gain_table, results_file
from medtune.eval.results.gain_schema import Readability
from medtune.eval.results.typed_json import json_bytes
from medtune.eval.scoring.score import PhaseScores, score_phase
from tests.eval.answerers import groups, questions
from tests.eval.answers import generated, wrong
from tests.eval.report.folders import change_json, write_run
from tests.eval.run_facts import run_facts

BUSI = find_benchmark("busi")
ASKED = questions(groups(8))
LABEL = DataLabel(provenance="released", prompts="ours")
UNREADABLE = "The echoes are of mixed brightness."


def phase(replies: list[str]) -> PhaseScores:
    said = [generated(question, reply) for question, reply in zip(ASKED, replies, strict=True)]
    return score_phase(ASKED, said, BUSI, train=ASKED)


def gain(before: list[str], after: list[str]) -> Gains:
    found = gain_between(phase(before), phase(after), BUSI)
    assert found is not None
    return found


def test_tuning_that_only_shortens_replies_has_no_gain_on_what_was_readable() -> None:
    shortened = [question.answer if place % 4 else wrong(question) for place, question in enumerate(ASKED)]
    rambling = [UNREADABLE if place % 3 == 0 else f"It is {reply}." for place, reply in enumerate(shortened)]
    found = gain(rambling, shortened)
    num_unread = rambling.count(UNREADABLE)
    assert found.value > 0.2
    assert found.readability is not None
    part = found.readability
    assert (part.only_after, part.only_before, part.neither) == (num_unread, 0, 0)
    assert part.both == len(ASKED) - num_unread
    assert part.value == 0
    assert part.ci95 is not None
    assert part.ci95.low <= 0 <= part.ci95.high


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
    assert found.readability == Readability(
        only_before=0, only_after=len(ASKED), neither=0, both=0, format_value=found.value
    )


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
        value={"only_before": 1, "only_after": 32, "neither": 0, "both": 210, "value": 0.01, "ci95": [-0.02, 0.04],
               "format_value": 0.2},
    )  # fmt: skip
    change_json(run / "results.json", "gain", "permutation_p", value=0.001)
    change_json(run / "results.json", "gain", "ci95", value=[0.1, 0.3])
    page = run_report(read_run(run), paper_of)
    wanted = (
        "32 replies became readable and 1 unreadable; the part of the gain on the 210 questions whose replies could "
    )
    wanted += (
        "be read both times is +0.010 (95 % interval -0.020 to +0.040), and +0.200 goes with what became readable."
    )
    assert wanted in page.headline.sentences
    assert page.headline.verdict == "format"
    assert page.headline.verdict_said.startswith("The model learnt the format of the answers")
    assert [row[1].text for row in page.gain.rows if row[0].text.startswith("of it")] == ["+0.010", "+0.200"]


@pytest.mark.parametrize(
    ("share_read", "share_right", "wanted"),
    [(0.4, 0.8, "format"), (0.0, 0.8, "format"), (0.9, 0.1, "unclear"), (1.0, 0.9, "unclear")],
)
def test_same_answers_in_another_format_are_never_called_a_gain(
    share_read: float, share_right: float, wanted: str
) -> None:
    """The replies after say what those before said, some of which could not be read."""
    share = np.random.default_rng(7).random((2, len(ASKED)))
    after = [
        question.answer if luck < share_right else wrong(question)
        for question, luck in zip(ASKED, share[0], strict=True)
    ]
    before = [reply if luck < share_read else UNREADABLE for reply, luck in zip(after, share[1], strict=True)]
    found = gain(before, after)
    assert verdict(found, higher_is_better=True) == wanted
    if found.readability:
        assert (found.readability.value or 0.0) + (found.readability.format_value or 0.0) == pytest.approx(found.value)
        assert found.readability.format_value == pytest.approx(found.value)


def test_what_is_answered_better_is_a_gain_beside_what_became_readable() -> None:
    after = [question.answer for question in ASKED]
    before = [UNREADABLE if place % 4 == 0 else wrong(question) for place, question in enumerate(ASKED)]
    found = gain(before, after)
    assert verdict(found, higher_is_better=True) == "gain"
    assert found.readability
    assert found.readability.value == pytest.approx(0.75)
    assert found.readability.format_value == pytest.approx(0.25)


def test_a_model_that_can_be_read_is_not_called_better_in_its_answers() -> None:
    right = [question.answer for question in ASKED]
    sides = [evaluation(replies) for replies in ([UNREADABLE if i % 2 else a for i, a in enumerate(right)], right)]
    for (first, second), judged in ((sides, "format"), (sides[::-1], "loss")):
        found = compare(first, second, BUSI)
        assert found.overall.verdict == judged
        assert "more of its replies can be read, not that more of its answers are right" in judgement(found)


def test_sides_that_think_otherwise_are_not_compared_without_a_word() -> None:
    right = [question.answer for question in ASKED]
    first, second = evaluation(right), evaluation([wrong(ASKED[0]), *right[1:]])
    for mode, said in (("on", True), ("off", False)):
        one, other = (
            replace(each, about=replace(each.about, thinking=own)) for each, own in ((first, "off"), (second, mode))
        )
        table = comparison_table(compare(one, other, BUSI))
        assert any("Not asked alike" in note and "model.thinking on" in note for note in table.notes) == said


def evaluation(replies: list[str]) -> Side:
    about = About(str(hash(tuple(replies))), "BUSI 1.0", "00", "test", "generation", LABEL)
    return Side(about, tuple(phase(replies).rows))


@pytest.mark.parametrize("number", [1, 2])
def test_one_reply_is_a_reply(number: int) -> None:
    text = readability_text(Readability(only_before=0, only_after=number, neither=3, both=0))
    assert text.startswith("1 reply" if number == 1 else "2 replies")
    assert "3 could be read neither time" in text
