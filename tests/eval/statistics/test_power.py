import numpy as np
import pytest

from medtune.eval.statistics.column_sums import mean_of
from medtune.eval.statistics.intervals import gain_interval
from medtune.eval.statistics.patient_swaps import patient_p
from medtune.eval.statistics.power import PowerPlan, estimated_icc, patients_needed, plan_from, power_of


def answers(rng: np.random.Generator, plan: PowerPlan, patients: int) -> tuple[list[float], list[float], list[str]]:
    """Returns two phases whose change has the plan's mean, variance and correlation within a patient.

    With probability sqrt(icc) a question takes the change of its patient, else a change of its own. Two questions about
    a patient therefore share their change with probability icc.
    """
    size = int(plan.questions_per_patient)
    up = (plan.changing + plan.gain) / 2
    down = plan.changing - up

    def change(shape: tuple[int, int]) -> np.ndarray:
        return rng.choice([1, -1, 0], p=[up, down, 1 - up - down], size=shape)

    own, shared = change((patients, size)), np.repeat(change((patients, 1)), size, axis=1)
    d = np.where(rng.random((patients, size)) < np.sqrt(plan.icc), shared, own).ravel()
    both = rng.random(d.size) < 0.5
    before = np.where(d == 0, both, d < 0).astype(float)
    return before.tolist(), (before + d).tolist(), [str(p) for p in np.repeat(np.arange(patients), size)]


@pytest.mark.parametrize(
    "plan",
    [
        PowerPlan(baseline=0.4, gain=0.1, questions_per_patient=8, icc=0.2),
        PowerPlan(baseline=0.5, gain=0.2, questions_per_patient=4, icc=0.0),
        PowerPlan(baseline=0.3, gain=0.15, questions_per_patient=10, icc=0.5, discordant=0.3),
    ],
)
def test_simulated_studies_of_the_size_see_the_gain_as_often_as_planned(plan: PowerPlan) -> None:
    needed = patients_needed(plan, power=0.8)
    rng = np.random.default_rng(0)
    repeats, seen = 400, 0
    for _ in range(repeats):
        before, after, patients = answers(rng, plan, needed.patients)
        low, _ = gain_interval(before, after, patients)
        seen += low > 0
    assert 0.72 <= seen / repeats <= 0.88


def test_a_study_by_permutation_sees_it_too() -> None:
    plan = PowerPlan(baseline=0.4, gain=0.2, questions_per_patient=5, icc=0.3)
    needed = patients_needed(plan, power=0.8)
    rng = np.random.default_rng(1)
    studies = [answers(rng, plan, needed.patients) for _ in range(60)]
    seen = [patient_p(mean_of([*before, *after]), patients) < 0.05 for before, after, patients in studies]
    assert 0.62 <= np.mean(seen) <= 0.95


def test_more_correlation_a_smaller_gain_and_more_power_need_more_patients() -> None:
    plan = PowerPlan(baseline=0.5, gain=0.1, questions_per_patient=10, icc=0.1)
    base = patients_needed(plan).patients
    assert patients_needed(PowerPlan(0.5, 0.1, 10, 0.3)).patients > base
    assert patients_needed(PowerPlan(0.5, 0.05, 10, 0.1)).patients > 3 * base
    assert patients_needed(plan, power=0.95).patients > base
    assert patients_needed(plan, alpha=0.01).patients > base
    assert patients_needed(PowerPlan(0.5, 0.1, 10, 0.1, size_variation=1.0)).patients > base
    assert patients_needed(PowerPlan(0.5, 0.1, 10, 0.1, discordant=0.2)).patients < base
    assert patients_needed(PowerPlan(0.6, -0.1, 10, 0.1)).patients == pytest.approx(base, abs=2)
    assert power_of(plan, base) >= 0.8 > power_of(plan, base - 1)


def test_a_run_suggests_its_own_plan() -> None:
    plan = PowerPlan(baseline=0.4, gain=0.2, questions_per_patient=6, icc=0.3, discordant=0.4)
    found = plan_from(*answers(np.random.default_rng(2), plan, 3000), gain=0.2)
    assert found.icc == pytest.approx(0.3, abs=0.03)
    assert found.changing == pytest.approx(0.4, abs=0.02)
    assert (found.questions_per_patient, found.size_variation) == (6, 0)
    smaller = plan_from(*answers(np.random.default_rng(2), plan, 3000), gain=0.1)
    assert smaller.changing == pytest.approx(0.3, abs=0.02)


def test_correlation_of_patients_who_agree_and_who_do_not() -> None:
    rng = np.random.default_rng(0)
    patients = [str(p) for p in np.repeat(np.arange(200), 5)]
    assert estimated_icc(rng.random(1000).tolist(), patients) < 0.05
    assert estimated_icc(np.repeat(rng.random(200), 5).tolist(), patients) == pytest.approx(1)
    assert estimated_icc([1.0, 0.0], ["a", "b"]) == 0


@pytest.mark.parametrize(
    ("plan", "wanted"),
    [
        (PowerPlan(0.9, 0.2, 5, 0.1), "baseline \\+ gain is 1.1"),
        (PowerPlan(0.5, 0.0, 5, 0.1), "gain is 0"),
        (PowerPlan(0.5, 0.1, 5, 1.5), "icc is 1.5"),
        (PowerPlan(0.5, 0.1, 0.5, 0.1), "questions_per_patient is 0.5"),
        (PowerPlan(0.5, 0.1, 5, 0.1, discordant=0.05), "discordant is 0.05"),
    ],
)
def test_impossible_plans_are_refused(plan: PowerPlan, wanted: str) -> None:
    with pytest.raises(ValueError, match=wanted):
        patients_needed(plan)
