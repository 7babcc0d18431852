"""Tests `medtune.score` and `medtune.compare`: lists, dicts, questions, and every mistake with its message."""

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import medtune
from medtune.data.types import Question
from medtune.trainer.commands.cli import main
from tests.eval.answers import generated

TRUTHS = ["yes", "no", "yes", "the left lobe", "no"]
ANSWERS = ["Yes.", "yes", "yes", "the left lobe", "No"]
PATIENTS = ["a", "a", "b", "b", "c"]


def test_lists_and_dicts_give_the_same(capsys: pytest.CaptureFixture[str]) -> None:
    listed = medtune.score(TRUTHS, ANSWERS, patients=PATIENTS)
    ids = [f"q{number}" for number in range(5)]
    named = medtune.score(
        dict(zip(ids, TRUTHS, strict=True)),
        dict(reversed(list(zip(ids, ANSWERS, strict=True)))),
        patients=dict(zip(ids, PATIENTS, strict=True)),
    )
    assert (listed.score, listed.closed, listed.open) == (named.score, named.closed, named.open)
    assert listed.closed is not None
    assert listed.open is not None
    assert (listed.closed.n, listed.open.n) == (4, 1)
    assert listed.score.ci95 is not None
    assert "each question counts as a patient" not in str(listed)
    assert "each question counts as a patient" in str(medtune.score(TRUTHS, ANSWERS))
    arrays = medtune.score(np.array(TRUTHS), np.array(ANSWERS), patients=np.array(PATIENTS))
    assert arrays.score == listed.score


def test_a_series_is_paired_by_position_and_a_data_frame_is_refused() -> None:
    pandas = pytest.importorskip("pandas")
    table = pandas.DataFrame({"truth": TRUTHS, "said": ANSWERS, "PID": PATIENTS}, index=[7, 3, 9, 1, 4])
    found = medtune.score(table["truth"], table["said"].sort_index(key=lambda index: index * 0), patients=table["PID"])
    assert found.score == medtune.score(TRUTHS, ANSWERS, patients=PATIENTS).score
    advice = r"got a DataFrame, of which a column is wanted: .*frame\[NAME\]"
    for wrong in (table, table[["truth"]]):
        with pytest.raises(TypeError, match=f"truths: {advice}"):
            medtune.score(wrong, ANSWERS)
        with pytest.raises(TypeError, match=f"answers: {advice}"):
            medtune.score(TRUTHS, wrong)
        with pytest.raises(TypeError, match=f"patients: {advice}"):
            medtune.score(TRUTHS, ANSWERS, patients=wrong)
        with pytest.raises(TypeError, match=f"options: {advice}"):
            medtune.score(TRUTHS, ANSWERS, options=wrong)


def test_patients_widen_the_interval() -> None:
    truths, answers = ["yes"] * 40, ["yes"] * 20 + ["no"] * 20
    alone = medtune.score(truths, answers).score.ci95
    of_four = medtune.score(truths, answers, patients=[str(number // 10) for number in range(40)]).score.ci95
    assert alone is not None
    assert of_four is not None
    assert of_four.low < alone.low < alone.high < of_four.high


def test_options_make_choices() -> None:
    options = [["benign", "malignant"], ["benign", "malignant"], [], []]
    truths, answers = ["benign", "B", "a cyst", "12.5"], ["It is benign.", "benign", "A cyst.", "about 12.5 mm"]
    found = medtune.score(truths, answers, options=options)
    assert [question.answer_kind for question in found.questions] == ["choice", "choice", "text", "number"]
    assert found.questions[1].answer == "malignant"
    assert (found.score.metric, found.score.value) == ("closed_accuracy", 0.5)
    assert found.metrics["exact_match"].value == 1.0
    assert found.closed is not None
    assert found.closed.n == 2


def test_the_questions_of_a_folder_are_scored_as_by_the_command(prepared_tiny: Path, tmp_path: Path) -> None:
    questions = medtune.load(prepared_tiny).test
    replies = {q.id: q.options[number % len(q.options)] for number, q in enumerate(questions) if number != 4}
    lines = [json.dumps({"question_id": id_, "text": text}) for id_, text in replies.items()]
    (tmp_path / "said.jsonl").write_text("\n".join(lines) + "\n", "utf-8")
    command = ["score", "busi", "--predictions", str(tmp_path / "said.jsonl"), "--questions", str(prepared_tiny)]
    assert main([*command, "--out", str(tmp_path / "there")]) == 0
    result = medtune.score(questions, replies)
    assert result.scores.overall.unanswered == 1
    result.save(tmp_path / "here")
    here, there = (json.loads((tmp_path / name / "scores.json").read_text("utf-8")) for name in ("here", "there"))
    assert there.pop("file_rows")["unanswered"] == 1
    here.pop("file_rows", None)
    assert here == there
    listed = medtune.score(questions, [replies.get(q.id, "") for q in questions])
    assert listed.score.value == result.score.value


NAN = math.nan


@pytest.mark.parametrize(
    ("truths", "answers", "more", "message"),
    [
        (TRUTHS, ANSWERS[:4], {}, "answers: 4 for 5 questions; wanted one for each"),
        (TRUTHS, ANSWERS, {"patients": ["a"]}, "patients: 1 for 5 questions"),
        ({"a": "yes"}, {"b": "yes"}, {}, "answers: no question has the id 'b'"),
        ({"scan_1": "yes", "b": "no"}, {"scan1": "yes"}, {}, r"the id 'scan1'. Did you mean 'scan_1'\?"),
        ({"a": "yes"}, {"a": "yes"}, {"patients": {"b": "p"}}, "patients: no question has the id 'b'"),
        (TRUTHS, [*ANSWERS[:4], NAN], {}, r"answers: NaN at 4; wanted a text. .*fillna"),
        (TRUTHS, [*ANSWERS[:4], None], {}, r"answers: None \(NoneType\) at 4"),
        (TRUTHS, [*ANSWERS[:4], 3], {}, r"answers: 3 \(int\) at 4; wanted a text. Turn numbers"),
        ([1, 0], ["yes", "no"], {}, r"truths: 1 \(int\) at 0"),
        (TRUTHS, ANSWERS, {"patients": ["a", "a", "b", "b", NAN]}, "patients: NaN at 4"),
        ("yes", ["yes"], {}, "truths: got one text, 'yes'"),
        ({"yes", "no"}, ["yes", "no"], {}, "truths: a set has no order"),
        (["yes", "no"], {"yes", "no"}, {}, "answers: a set has no order"),
        (["yes", "no"], ["yes", "no"], {"patients": {"a", "b"}}, "patients: a set has no order"),
        (["yes"], "yes", {}, "answers: got one text, 'yes'"),
        ([], [], {}, "truths: there are none"),
        ({1: "yes", "1": "no"}, ["yes", "no"], {}, "two ids are the same as texts"),
        ([Question("q", "m", "?", (), "a", "text", "p")], ["a"], {}, r"truths: got a list of questions"),
        (["  "], ["yes"], {}, "truths: at '0' the answer is empty"),
        (["a"], ["a"], {"options": ["ab"]}, "options: got 'ab' at 0; wanted a list"),
        (["a"], ["a"], {"options": [None]}, r"options: got None at 0; wanted a list of .*, \[\] for none"),
        (["benin"], ["a"], {"options": [["benign", "normal"]]}, "at '0' the answer is none of the 2 options"),
    ],
)
def test_wrong_lists_are_refused(truths: Any, answers: Any, more: Any, message: str) -> None:
    with pytest.raises((ValueError, TypeError), match=message):
        medtune.score(truths, answers, **more)


def test_answers_that_occur_twice_are_refused(prepared_tiny: Path) -> None:
    questions = medtune.load(prepared_tiny).test
    said = generated(questions[0], "benign")
    assert medtune.score(questions, [said]).scores.overall.unanswered == 8
    with pytest.raises(ValueError, match="is answered twice"):
        medtune.score(questions, [said, said])
    other = generated("nobody", "benign")
    with pytest.raises(ValueError, match="no question has the id 'nobody'"):
        medtune.score(questions, [other])
    with pytest.raises(ValueError, match="patients= and options= are for plain true answers"):
        medtune.score(questions, [said], patients=["a"])


def test_two_lists_are_compared_by_patient() -> None:
    truths = ["yes", "no"] * 20
    patients = [str(number // 4) for number in range(40)]
    found = medtune.compare(["yes"] * 40, truths, truths=truths, patients=patients, names=("before", "after"))
    one, other = (medtune.score(truths, said, patients=patients) for said in (["yes"] * 40, truths))
    assert found.gain == pytest.approx(other.score.value - one.score.value)
    assert found.ci95.low > 0
    assert found.p < 0.05
    assert found.n == 40
    assert "after is better than before by more than chance explains" in found.judgement
    assert "after against before" in str(found)
    drawn = medtune.compare(["yes"] * 40, iter(truths), truths=iter(truths), patients=map(str, patients))
    assert (drawn.gain, drawn.ci95, drawn.n) == (found.gain, found.ci95, found.n)
    again = medtune.compare(one, other)
    assert (again.gain, again.ci95, again.p) == (found.gain, found.ci95, found.p)


def test_what_cannot_be_compared_is_refused() -> None:
    one = medtune.score(TRUTHS, ANSWERS)
    with pytest.raises(ValueError, match="two lists of answers need truths="):
        medtune.compare(ANSWERS, ANSWERS)
    with pytest.raises(TypeError, match="one side is an evaluation and the other is not"):
        medtune.compare(one, ANSWERS)
    with pytest.raises(ValueError, match="are for replies; evaluations have their questions"):
        medtune.compare(one, one, truths=TRUTHS)
    with pytest.raises(ValueError, match="have different data"):
        medtune.compare(one, medtune.score(TRUTHS[:4], ANSWERS[:4]))
