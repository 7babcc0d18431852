"""The test that swaps whole patients, against every arrangement tried by hand and against scipy."""

import itertools
from collections.abc import Callable, Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from medtune.data.types import Question
from medtune.eval.metric import Metric, ParsedReply, mean_of_rows, recomputed, sums_of_rows
from medtune.eval.metrics.macro_f1 import metric as macro_f1
from medtune.eval.statistics import patient_swaps
from medtune.eval.statistics.column_sums import Recomputed, Statistic, mean_of
from medtune.eval.statistics.patient_swaps import mcnemar_exact, patient_p
from tests.eval.statistics.other_definitions import paired_permutation

Rows = list[ParsedReply]


def replies(number: int, *, patients: int, seed: int, right: float) -> Rows:
    """Returns replies to questions with three options; the patients have different numbers of questions."""
    rng = np.random.default_rng(seed)
    of = np.concatenate([np.arange(patients), rng.integers(0, patients, number - patients) ** 2 % patients])
    truth = np.random.default_rng(7).choice(["a", "b", "c"], number, p=[0.6, 0.3, 0.1])
    said = np.where(rng.random(number) < right, truth, rng.choice(["a", "b", "c"], number))
    return [
        ParsedReply(
            Question(f"q{i}", "m", "?", ("a", "b", "c"), str(truth[i]), "choice", f"p{of[i]}"), None, str(said[i])
        )
        for i in range(number)
    ]


def by_hand(metric: Metric, before: Rows, after: Rows) -> float:
    """Returns the share of all arrangements whose difference is at least as large, computed from the rows anew."""
    patients = sorted({row.question.patient_id for row in before})
    found = []
    for swaps in itertools.product((False, True), repeat=len(patients)):
        is_swapped = dict(zip(patients, swaps, strict=True))
        pairs = [
            (two, one) if is_swapped[one.question.patient_id] else (one, two)
            for one, two in zip(before, after, strict=True)
        ]
        first, second = zip(*pairs, strict=True)
        found.append(abs(metric.value(second) - metric.value(first)))
    return float(np.mean(np.array(found) >= found[0] - 1e-9))


def p_of(metric: Metric, before: Rows, after: Rows, *, seed: int = 0) -> float:
    return patient_p(metric.on([*before, *after]), [row.question.patient_id for row in before], seed=seed)


ACCURACY = mean_of_rows(lambda row: float(row.correct))
SQUARES = sums_of_rows(
    lambda row: (float("abc".index(row.parsed or "a") - "abc".index(row.question.answer)) ** 2, 1.0),
    lambda sums: np.sqrt(sums[..., 0] / sums[..., 1]),
)


@pytest.mark.parametrize(
    "metric",
    [
        Metric(ACCURACY),
        macro_f1(),
        Metric(SQUARES, worst=float("inf"), best=0.0),
        Metric(recomputed(lambda rows: float(np.median([row.correct for row in rows])))),
    ],
    ids=["accuracy", "macro F1", "root mean square", "median"],
)
@pytest.mark.parametrize("seed", range(3))
def test_it_tests_the_metric_itself_with_all_arrangements(metric: Metric, seed: int) -> None:
    before = replies(40, patients=7, seed=1, right=0.2)
    answers = replies(40, patients=7, seed=10 + seed, right=0.6)
    after = [ParsedReply(one.question, None, two.parsed) for one, two in zip(before, answers, strict=True)]
    assert p_of(metric, before, after) == pytest.approx(by_hand(metric, before, after), abs=1e-12)


def test_macro_f1_is_not_tested_by_right_and_wrong_answers() -> None:
    """Everything is answered with the frequent class after training: accuracy rises and macro F1 falls."""
    before = replies(60, patients=8, seed=3, right=0.4)
    after = [ParsedReply(row.question, None, "a") for row in before]
    assert macro_f1().value(after) < macro_f1().value(before)
    assert p_of(macro_f1(), before, after) == pytest.approx(by_hand(macro_f1(), before, after))
    assert p_of(macro_f1(), before, after) != pytest.approx(p_of(Metric(ACCURACY), before, after), abs=0.01)


@given(st.lists(st.tuples(st.integers(0, 1), st.integers(0, 1)), min_size=2, max_size=12))
@settings(deadline=None)
def test_with_one_question_per_patient_it_is_the_sign_flip_test_and_mcnemars(pairs: list[tuple[int, int]]) -> None:
    before, after = ([float(each) for each in phase] for phase in zip(*pairs, strict=True))
    found = patient_p(mean_of([*before, *after]), [str(number) for number in range(len(pairs))])
    assert found == pytest.approx(paired_permutation(after, before).p_absolute)
    assert found == pytest.approx(mcnemar_exact(pairs.count((1, 0)), pairs.count((0, 1))))


@pytest.mark.parametrize("patients", range(1, 9))
def test_the_smallest_p_value_is_two_to_the_power_of_one_minus_the_patients(patients: int) -> None:
    codes = [str(number) for number in range(patients) for _ in range(3)]
    after = np.random.default_rng(0).uniform(0.5, 1.0, len(codes)).tolist()
    assert patient_p(mean_of([0.0] * len(codes) + after), codes) == 2.0 ** (1 - patients)


def test_no_change_has_p_one_and_a_patient_without_change_does_not_count() -> None:
    names = ["a", "b", "c", "d"]
    assert patient_p(mean_of([1, 0, 1, 0, 1, 0, 1, 0]), names) == 1
    assert patient_p(mean_of([0, 0, 0, 1, 1, 1, 1, 1]), names) == 0.25


def many(seed: int) -> tuple[list[float], list[str]]:
    rng = np.random.default_rng(seed)
    names = [str(number) for number in rng.integers(0, 16, 320)]
    return [*(rng.random(320) < 0.4).astype(float), *(rng.random(320) < 0.48).astype(float)], names


def test_drawn_arrangements_come_near_all_of_them_and_repeat_with_the_seed(monkeypatch: pytest.MonkeyPatch) -> None:
    values, names = many(0)
    exact = patient_p(mean_of(values), names)
    assert exact * 2**15 == pytest.approx(round(exact * 2**15))
    monkeypatch.setattr(patient_swaps, "MAX_ARRANGEMENTS", 10_000)
    drawn = patient_p(mean_of(values), names, seed=1)
    assert drawn == pytest.approx(exact, abs=4 * (exact / 10_000) ** 0.5)
    assert drawn == patient_p(mean_of(values), names, seed=1)
    assert drawn * 10_001 == pytest.approx(round(drawn * 10_001)), "the observed arrangement is counted too"


@pytest.mark.parametrize("make", [mean_of, lambda values: recomputed_mean(values)], ids=["sums", "rows"])
def test_a_large_change_of_many_patients_has_the_smallest_drawn_p_value(
    make: Callable[[Sequence[float]], Statistic],
) -> None:
    names = [str(number) for number in range(60)]
    draws = 2**16 if make is mean_of else 1_000
    assert draws <= patient_swaps.MAX_ARRANGEMENTS
    assert patient_p(make([0.0] * 60 + [1.0] * 60), names) == 1 / (draws + 1)


def recomputed_mean(values: Sequence[float]) -> Statistic:
    return Recomputed(lambda rows: float(np.mean(np.asarray(values)[rows])), len(values))


def test_a_difference_without_value_has_p_one_and_such_an_arrangement_counts_as_large() -> None:
    rows = replies(20, patients=5, seed=0, right=0.5)
    undefined = Metric(recomputed(lambda rows: float("nan")))
    assert p_of(undefined, rows, rows) == 1
    # The share of right ones among the answers "a": no value for a phase without an answer "a".
    asked = [Question(f"q{i}", "m", "?", ("a", "b"), "a", "choice", f"p{i}") for i in range(4)]
    before = [ParsedReply(question, None, said) for question, said in zip(asked, "abbb", strict=True)]
    after = [ParsedReply(question, None, said) for question, said in zip(asked, "babb", strict=True)]

    def share(rows: Sequence[ParsedReply]) -> float:
        said = [row for row in rows if row.parsed == "a"]
        return sum(float(row.question.id[1:]) for row in said) / len(said) if said else float("nan")

    assert p_of(Metric(recomputed(share)), before, after) == 1


def test_rows_that_do_not_pair_and_no_rows_are_refused() -> None:
    with pytest.raises(ValueError, match="two rows for each of 3 questions"):
        patient_p(mean_of([1.0, 0.0, 1.0, 1.0]), ["a", "b", "c"])
    with pytest.raises(ValueError, match="at least one question"):
        patient_p(mean_of([1.0]), [])
