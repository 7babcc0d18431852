"""The cells of a study: value, difference, interval and test, against hand-made numbers and their own consistency."""

from collections.abc import Mapping, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from medtune.data.types import Interval, Prediction, PredictionKey, Question
from medtune.eval.evidence import Evidence
from medtune.eval.metric import ParsedReply
from medtune.eval.metrics.accuracy import metric as accuracy
from medtune.eval.scoring.reply_rules import ReplyRule
from medtune.eval.statistics.intervals import difference_of_two, mean_interval, wilson
from medtune.eval.statistics.patient_swaps import holm
from medtune.eval.studies.cells import (
    NO_RESULT,
    NO_UNCERTAINTY,
    NOT_PRINTED,
    StudyAnswers,
    StudyCell,
    over_passes,
    study_cells,
)
from medtune.eval.studies.measures import gain_of, of_metric, of_rule, share
from medtune.eval.studies.published import Answers, CellValue, PublishedColumn, PublishedTable


def evidence(right: Sequence[bool]) -> Evidence:
    rows = []
    for number, is_right in enumerate(right):
        question = Question(str(number), "m", "?", ("a", "b"), "a", "choice", f"p{number}")
        key = PredictionKey(question.id, "image", "generation", 0)
        said = "a" if is_right else "b"
        rows.append(ParsedReply(question, Prediction(key, text=said), said))
    return Evidence([row.question for row in rows], (), {"image": {"robust": rows}}, "robust")


def table(printed: float, *, n: int | None = 100, is_tested: bool = True) -> PublishedTable:
    column = PublishedColumn(
        "accuracy", of_metric(accuracy(), "final"), ("final",), printed_interval=share if is_tested else None, n=n
    )
    return PublishedTable("one", "One", "nowhere", (column,), {"theirs": {"accuracy": printed}})


def cell(printed: float, right: Sequence[bool], *, apart: str = "", is_tested: bool = True, n: int = 100) -> StudyCell:
    row = StudyAnswers("ours", "theirs", [{"final": evidence(right)}], apart=apart)
    (found,) = study_cells([table(printed, n=n, is_tested=is_tested)], [row])
    return found


def test_a_cell_by_hand() -> None:
    right = [True] * 8 + [False] * 2
    found = cell(0.5, right)
    ours = mean_interval([float(each) for each in right], [str(number) for number in range(10)])
    assert (found.ours, found.ci95, found.n, found.printed) == (0.8, ours, 10, 0.5)
    assert found.difference == pytest.approx(0.3)
    assert found.difference_ci95 == difference_of_two((0.5, wilson(50, 100)), (0.8, ours), correlation=0.0)
    assert found.p is not None
    assert found.p_holm == found.p


@given(
    st.floats(0.05, 0.95).map(lambda value: round(value, 3)),
    st.lists(st.booleans(), min_size=8, max_size=40),
    st.integers(20, 5000),
)
def test_p_agrees_with_the_interval(printed: float, right: list[bool], n: int) -> None:
    found = cell(printed, right, n=n)
    assert found.p is not None
    assert found.difference_ci95 is not None
    assert found.ours is not None
    low, high = found.difference_ci95
    assert 0 <= found.p <= 1
    if found.ours != printed and not (abs(low) < 1e-9 or abs(high) < 1e-9):
        assert (found.p < 0.05) == (not low < 0 < high)


def test_the_less_is_known_of_the_printed_value_the_larger_is_p() -> None:
    right = [True] * 16 + [False] * 4
    few, many = (cell(0.5, right, n=n) for n in (10, 10_000))
    assert few.p is not None
    assert many.p is not None
    assert few.p > many.p


def test_why_there_is_no_difference_is_said() -> None:
    assert cell(0.5, [True, False], apart="the data are synthetic").why == "the data are synthetic"
    assert cell(0.5, [True, False], apart="the data are synthetic").difference is None
    untested = cell(0.5, [True, False], is_tested=False)
    assert (untested.why, untested.difference, untested.p) == (NO_UNCERTAINTY, 0.0, None)
    unknown = study_cells([table(0.5)], [StudyAnswers("ours", None, [{"final": evidence([True])}])])
    assert unknown[0].why == NOT_PRINTED
    empty = study_cells([table(0.5)], [StudyAnswers("ours", "theirs", [])])
    assert (empty[0].why, empty[0].ours) == (NO_RESULT, None)


def test_ours_is_rounded_as_the_paper_prints() -> None:
    column = PublishedColumn("accuracy", of_metric(accuracy(), "final"), ("final",), printed_digits=1)
    made = PublishedTable("one", "One", "nowhere", (column,), {"theirs": {"accuracy": 0.3}})
    row = StudyAnswers("ours", "theirs", [{"final": evidence([True, False, False])}])
    assert study_cells([made], [row])[0].difference == 0.0


def test_tests_are_one_family() -> None:
    rows = [
        StudyAnswers(name, "theirs", [{"final": evidence([True] * many + [False] * (20 - many))}])
        for name, many in (("a", 10), ("b", 16), ("c", 20))
    ]
    found = study_cells([table(0.5)], rows)
    assert [each.p_holm for each in found] == list(holm([each.p or 0.0 for each in found]).p_values)


def answers(seeds: Sequence[Sequence[bool]]) -> list[Answers]:
    return [{"final": evidence(right)} for right in seeds]


def test_seeds_widen_the_interval() -> None:
    alike = [[True] * 10 + [False] * 10] * 3
    unlike = [[True] * number + [False] * (20 - number) for number in (4, 10, 16)]
    same, spread = (
        study_cells([table(0.5)], [StudyAnswers("ours", "theirs", answers(runs))])[0] for runs in (alike, unlike)
    )
    assert (same.ours, spread.ours, same.seeds) == (0.5, 0.5, 3)
    assert same.ci95 is not None
    assert spread.ci95 is not None
    assert same.ci95 == pytest.approx(mean_interval([1.0] * 10 + [0.0] * 10, [str(n) for n in range(20)]))
    assert spread.ci95.low < same.ci95.low
    assert spread.ci95.high > same.ci95.high


def test_passes_that_agree_have_no_width() -> None:
    assert over_passes([CellValue(0.574, 9)] * 5).ci95 == pytest.approx((0.574, 0.574))
    assert over_passes([CellValue(0.5, 9)]).ci95 is None


def test_a_gain_is_paired_by_question() -> None:
    column = PublishedColumn("gain", gain_of(accuracy()), ("zero_shot", "final"))
    made = PublishedTable("one", "One", "nowhere", (column,), {})
    both: Answers = {"zero_shot": evidence([True, False, False, False]), "final": evidence([True, True, True, False])}
    found = study_cells([made], [StudyAnswers("ours", None, [both])])[0]
    assert (found.ours, found.n) == (0.5, 4)
    assert isinstance(found.ci95, Interval)


def test_a_number_of_another_tools_rule_is_a_mean_with_an_interval_or_one_of_a_corpus_without() -> None:
    def right(replies: Sequence[tuple[Question, str]]) -> Mapping[str, float]:
        return {"right": sum(reply == question.answer for question, reply in replies) / len(replies)}

    rule = ReplyRule("theirs", "nowhere", "not at all.", right)
    answers: Answers = {"final": evidence([True, True, False, False])}
    found = of_rule(rule, "right", "final", scale=100.0)(answers)
    assert found is not None
    assert (found.value, found.n) == (50.0, 4)
    assert found.ci95 is not None
    assert found.ci95.low < 50 < found.ci95.high
    corpus = of_rule(rule, "right", None, is_mean=False)(answers)
    assert corpus is not None
    assert (corpus.value, corpus.ci95) == (0.5, None)
    assert of_rule(rule, "other", "final")(answers) is None
    assert of_rule(rule, "right", "zero_shot")(answers) is None
