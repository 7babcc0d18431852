"""The rule for a gain, and the words for what falls, on differences made by hand."""

import re
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from medtune.data.types import Interval
from medtune.eval.comparing.falls import Fall, fall_sentences, falls
from medtune.eval.comparing.verdict import VERDICTS, grounds, question_level, verdict
from medtune.eval.results.gain_schema import Changed, LevelGain

COUNTS = Changed(both_right=0, only_before=0, only_after=0, both_wrong=0)


def change(
    value: float,
    ci95: tuple[float, float] | None,
    p: float | None,
    *,
    holm: float | None = None,
    before: float | None = 0.5,
    patients: int | None = 40,
) -> LevelGain:
    after = None if before is None else before + value
    reach = Interval(*ci95) if ci95 else None
    return LevelGain(
        value=value, before=before, after=after, n=80, num_patients=patients, ci95=reach, permutation_p=p,
        permutation_p_holm=holm, mcnemar_p=1e-6, counts=COUNTS,
    )  # fmt: skip


UP, DOWN, OPEN = (0.02, 0.3), (-0.3, -0.02), (-0.1, 0.3)


@given(
    st.tuples(st.floats(-1, 1), st.floats(-1, 1)).map(sorted),
    st.one_of(st.none(), st.floats(0, 1)),
    st.one_of(st.none(), st.floats(0, 1)),
    st.booleans(),
)
def test_words_p_value_and_interval_never_contradict_each_other(
    ends: list[float], p: float | None, holm: float | None, better: bool
) -> None:
    one = change(0.1, (ends[0], ends[1]), p, holm=holm)
    deciding = p if holm is None else holm
    judged, said = verdict(one, higher_is_better=better), grounds(one)
    is_sure = deciding is not None and deciding <= 0.05 and not ends[0] <= 0 <= ends[1]
    assert (judged != "unclear") == is_sure
    if is_sure:
        assert (judged == "gain") == ((ends[0] > 0) == better)
        assert "excludes zero, and" in said
    else:
        assert re.search("not enough|includes zero|No test of whole patients", said)
        assert "excludes zero, and" not in said
    if deciding is not None:
        shown = re.search(r"p (<|=|>) ([0-9.]+)", said)
        assert shown
        assert (deciding <= 0.05) == (float(shown[2]) <= 0.05 and ">" not in shown[1])


def test_the_test_of_questions_decides_nothing() -> None:
    one = change(0.2, UP, 0.065)
    assert one.mcnemar_p < 0.05
    assert verdict(one, higher_is_better=True) == "unclear"
    assert grounds(one) == (
        "The evidence is not enough: the 95 % interval excludes zero, but the test that swaps whole patients gives "
        "p = 0.065"
    )
    assert "takes questions as independent" in question_level(one)


def test_each_way_not_to_be_enough_is_said() -> None:
    assert "p = 0.030, but the 95 % interval includes zero" in grounds(change(0.2, OPEN, 0.03))
    assert "more patients or a larger effect" in grounds(change(0.2, OPEN, 0.3))
    assert "(with 4 patients it cannot be below 0.12)" in grounds(change(0.2, UP, 0.125, patients=4))
    assert "cannot be below" not in grounds(change(0.2, UP, 0.125, patients=6))
    assert grounds(change(0.2, UP, None)).startswith("No test of whole patients is recorded")
    assert grounds(change(0.2, None, 0.01)).startswith("There is no 95 % interval")
    assert set(VERDICTS) == {"gain", "format", "loss", "unclear"}


TASKS = {"task": {"plane": change(0.3, UP, 0.001, holm=0.002), "head_size": change(-0.15, DOWN, 0.01, holm=0.02)}}


def test_a_task_that_falls_surely_is_named_first_and_one_that_may_be_chance_says_so() -> None:
    answers = {"diagnosis": {"malignant": change(-0.25, (-0.5, 0.1), 0.2, holm=0.4), "benign": change(0.4, UP, 0.01)}}
    found = falls("gain", TASKS, answers, higher_is_better=True)
    assert [(fall.certainty, fall.change.value) for fall in found] == [("sure", -0.15), ("unsure", -0.25)]
    first, second = fall_sentences(found)
    assert first == (
        "The task 'head size' fell from 0.50 to 0.35 (80 questions; p = 0.020 after Holm's correction; "
        "more than chance explains)."
    )
    assert second == (
        "The share of right ones where the answer is 'malignant' (diagnosis) fell from 0.50 to 0.25 "
        "(80 questions; p = 0.40 after Holm's correction; chance may explain it)."
    )


def test_parts_are_called_surely_worse_only_where_the_whole_changed_surely() -> None:
    (fall,) = falls("unclear", TASKS, {}, higher_is_better=True)
    assert fall.certainty == "open"
    assert "not called sure, because all questions together show no sure change" in fall.sentence


def test_small_falls_and_single_levels_are_not_named_and_lower_may_be_better() -> None:
    small = change(-0.04, OPEN, 0.5, holm=0.5)
    assert falls("gain", {"task": {"a": small, "b": change(0.1, UP, 0.01)}}, {}, higher_is_better=True) == ()
    assert falls("gain", {"task": {"a": TASKS["task"]["head_size"]}}, {}, higher_is_better=True) == ()
    error = {"task": {"a": change(2.0, (0.5, 3.0), 0.01, holm=0.02, before=10.0), "b": small}}
    (fall,) = falls("gain", error, {}, higher_is_better=False)
    assert fall.words == "the task 'a' rose from 10.00 to 12.00"
    slight = {"task": {"a": change(0.4, (-0.5, 3.0), 0.5, holm=0.5, before=10.0), "b": small}}
    assert falls("gain", slight, {}, higher_is_better=False) == (), "5 % of 10 is 0.5"


def test_few_falls_are_named_and_the_others_counted() -> None:
    many = {f"t{number}": change(-0.06 - number / 100, OPEN, 0.5, holm=1.0) for number in range(6)}
    said = fall_sentences(falls("gain", {"task": many}, {}, higher_is_better=True))
    assert [re.findall("'(t.)'", each) for each in said[:3]] == [["t5"], ["t4"], ["t3"]]
    assert said[3].startswith("3 more parts got worse")


def test_names_from_data_are_cut_and_stay_on_one_line() -> None:
    fall = Fall("x", replace(change(-0.2, DOWN, 0.01), before=None, after=None), "unsure", "fell")
    assert fall.words == "x fell by 0.20"
    answers = {"a_task": {"two\nlines " + "long " * 50: change(-0.2, OPEN, 0.4, holm=0.4)}}
    (named,) = falls("gain", {}, answers, higher_is_better=True)
    assert "\n" not in named.words
    assert len(named.words) < 180


@pytest.mark.parametrize(("p", "text"), [(1e-9, "p < 0.001"), (0.0502, "p > 0.050"), (0.2, "p = 0.20")])
def test_no_p_value_is_written_as_zero(p: float, text: str) -> None:
    assert text in grounds(change(0.2, OPEN, p))
