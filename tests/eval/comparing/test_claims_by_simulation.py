"""How often the headline and the tables by task claim a change where there is none, on simulated clustered answers.

Of 2,000 studies (`soak`) at most 6 in 100 may claim one: 0.05 and two standard errors. Fewer studies (`slow`) have the
limit that is as many of their own standard errors above 0.05.
"""

import math
from collections.abc import Callable, Mapping
from functools import partial
from typing import NamedTuple

import numpy as np
import pytest

from medtune.data.types import Interval
from medtune.eval.audit.row import accuracy_row, flagged_if_level
from medtune.eval.comparing.falls import falls
from medtune.eval.comparing.gain import PairedGain, adjusted_by_holm
from medtune.eval.comparing.verdict import verdict
from medtune.eval.results.gain_schema import Changed
from medtune.eval.statistics import Floats, Numbers, patient_swaps
from medtune.eval.statistics.column_sums import mean_of
from medtune.eval.statistics.intervals import gain_interval
from medtune.eval.statistics.patient_swaps import ALPHA, holm, mcnemar_exact, patient_p

TASKS = 5
STUDIES = 2000


def most_claims(studies: int) -> float:
    """Returns the largest allowed share: 0.06 of 2,000 studies, and as many standard errors above 0.05 of others."""
    return 0.05 + 0.01 * math.sqrt(STUDIES / studies)


class Study(NamedTuple):
    """Answers to questions: right before and after, the patient and the task of each."""

    before: Floats
    after: Floats
    patients: Numbers
    tasks: Numbers


class Setting(NamedTuple):
    """Number of patients, coefficient of variation of their numbers of questions, and intra-patient correlation."""

    patients: int
    size_cv: float
    icc: float


SETTINGS = [Setting(10, 0.5, 0.3), Setting(10, 1.5, 0.6), Setting(20, 1.0, 0.6), Setting(60, 2.0, 0.3)]


def study(rng: np.random.Generator, setting: Setting, shift: Mapping[int, float]) -> Study:
    """Returns answers with about 15 questions a patient; the chance to be right varies over patients, not over phases.

    Args:
        shift: Task -> what the phase adds to the chance to be right.
    """
    shape = 1 / setting.size_cv**2
    sizes = 1 + rng.poisson(rng.gamma(shape, 14 / shape, setting.patients))
    patients = np.repeat(np.arange(setting.patients), sizes)
    tasks = rng.integers(0, TASKS, patients.size)
    spread = 1 / setting.icc - 1
    # A patient has a chance of its own in each phase, and in each task half of that of the task.
    by_phase = rng.beta(0.5 * spread, 0.5 * spread, (2, setting.patients, 1))
    by_task = rng.beta(0.5 * spread, 0.5 * spread, (2, setting.patients, TASKS))
    chances = np.where(rng.random((2, setting.patients, TASKS)) < 0.5, by_phase, by_task)[:, patients, tasks]
    chances[1] = np.clip(chances[1] + np.array([shift.get(task, 0.0) for task in range(TASKS)])[tasks], 0, 1)
    before, after = (rng.random(chances.shape) < chances).astype(float)
    return Study(before, after, patients, tasks)


def level(part: Study, *, seed: int) -> PairedGain:
    """Returns what the verdict and the falls need; the interval only where the test leaves the question open."""
    names = [str(patient) for patient in part.patients]
    p = patient_p(mean_of([*part.before, *part.after]), names, seed=seed)
    before, after = part.before.tolist(), part.after.tolist()
    reach = gain_interval(before, after, names) if p <= ALPHA else Interval(-1, 1)
    fixed, broken = int(((1 - part.before) * part.after).sum()), int((part.before * (1 - part.after)).sum())
    return PairedGain(
        value=float(part.after.mean() - part.before.mean()), before=float(part.before.mean()),
        after=float(part.after.mean()), n=len(names), num_patients=len(set(names)), ci95=reach, permutation_p=p,
        mcnemar_p=mcnemar_exact(broken, fixed),
        counts=Changed(both_right=0, only_before=broken, only_after=fixed, both_wrong=0),
    )  # fmt: skip


def measured(found: Study, *, seed: int) -> tuple[PairedGain, dict[str, PairedGain]]:
    parts = {task: found.tasks == task for task in range(TASKS)}
    by_task = {
        str(task): level(Study(*(column[chosen] for column in found)), seed=seed)
        for task, chosen in parts.items()
        if chosen.any()
    }
    return level(found, seed=seed), adjusted_by_holm(by_task)


@pytest.fixture(autouse=True)
def faster(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(patient_swaps, "MAX_ARRANGEMENTS", 999)
    # statsmodels collects garbage in each correction, which takes longer than a whole study here.
    monkeypatch.setattr("gc.collect", lambda: 0)


class Claims(NamedTuple):
    """In how many studies without a change the headline, the tables and McNemar's tests (with Holm's) claim one."""

    headline: int
    tables: int
    questions: int


def claims(setting: Setting, *, studies: int) -> Claims:
    rng = np.random.default_rng(setting.patients)
    headline, tables, questions = 0, 0, 0
    for number in range(studies):
        whole, by_task = measured(study(rng, setting, {}), seed=number)
        judged = verdict(whole, higher_is_better=True)
        fallen = falls(judged, {"task": by_task}, {}, higher_is_better=True)
        headline += judged != "unclear" or any(fall.certainty == "sure" for fall in fallen)
        tables += any(verdict(each, higher_is_better=True) != "unclear" for each in by_task.values())
        questions += min(holm([each.mcnemar_p for each in by_task.values()]).p_values) <= ALPHA
    return Claims(headline, tables, questions)


@pytest.mark.soak
@pytest.mark.parametrize("setting", SETTINGS, ids=str)
def test_without_any_change_a_claim_is_made_in_at_most_6_of_100_studies(setting: Setting) -> None:
    found = claims(setting, studies=STUDIES)
    assert found.headline / STUDIES <= 0.06
    assert found.tables / STUDIES <= 0.06
    assert found.questions / STUDIES > 0.12, "McNemar's test with Holm's correction fails: the settings are clustered"


@pytest.mark.slow
def test_without_any_change_claims_stay_at_their_level_over_all_settings_together() -> None:
    studies = 100
    found = [claims(setting, studies=studies) for setting in SETTINGS]
    headline, tables, questions = np.sum(found, axis=0) / (len(SETTINGS) * studies)
    limit = most_claims(len(SETTINGS) * studies)
    assert headline <= limit
    assert tables <= limit
    assert questions > 0.12 > limit, "McNemar's test with Holm's correction fails here: the settings are clustered"
    # Each setting by itself: 3 standard errors of 100 studies above the level.
    assert np.max([each[:2] for each in found]) / studies <= 0.05 + 3 * (0.05 * 0.95 / studies) ** 0.5


def all_or_nothing(rng: np.random.Generator, patients: int) -> Study:
    of = np.repeat(np.arange(patients), 1 + rng.poisson(14, patients))
    before = (rng.random(of.size) < 0.15).astype(float)
    after = (rng.random(patients) < 0.15).astype(float)[of]
    return Study(before, after, of, np.zeros_like(of))


def claims_of_all_or_nothing(patients: int, *, studies: int) -> int:
    rng, found = np.random.default_rng(patients), 0
    for number in range(studies):
        whole = level(all_or_nothing(rng, patients), seed=number)
        found += verdict(whole, higher_is_better=True) != "unclear"
    return found


ALL_OR_NOTHING = (10, 20, 60)


@pytest.mark.soak
@pytest.mark.parametrize("patients", ALL_OR_NOTHING)
def test_answers_that_become_all_or_nothing_by_patient_are_no_change_of_the_mean(patients: int) -> None:
    """Swaps of patients take the phases as exchangeable. These are not: 15 % are right in both, but alike after."""
    assert claims_of_all_or_nothing(patients, studies=STUDIES) / STUDIES <= 0.06


@pytest.mark.slow
def test_all_or_nothing_by_patient_is_no_change_over_all_numbers_of_patients_together() -> None:
    studies = 125
    found = [claims_of_all_or_nothing(patients, studies=studies) for patients in ALL_OR_NOTHING]
    assert sum(found) / (len(found) * studies) <= most_claims(len(found) * studies)
    assert max(found) / studies <= 0.05 + 3 * (0.05 * 0.95 / studies) ** 0.5


@pytest.mark.parametrize(
    "studies", [pytest.param(150, marks=pytest.mark.slow), pytest.param(STUDIES, marks=pytest.mark.soak)]
)
def test_beside_a_true_gain_a_task_without_change_is_seldom_called_a_fall(studies: int) -> None:
    setting, rng = Setting(30, 1.0, 0.4), np.random.default_rng(5)
    wrong, seen = 0, 0
    for number in range(studies):
        whole, by_task = measured(study(rng, setting, {0: 0.6, 1: 0.6, 2: 0.6}), seed=number)
        judged = verdict(whole, higher_is_better=True)
        seen += judged == "gain"
        fallen = falls(judged, {"task": by_task}, {}, higher_is_better=True)
        wrong += any(fall.certainty == "sure" and fall.name in ("the task '3'", "the task '4'") for fall in fallen)
    assert seen / studies > 0.8
    assert wrong / studies <= most_claims(studies)


@pytest.mark.slow
def test_a_task_that_truly_falls_beside_a_gain_is_mostly_named() -> None:
    setting, rng = Setting(40, 0.5, 0.3), np.random.default_rng(6)
    named, studies = 0, 60
    for number in range(studies):
        whole, by_task = measured(study(rng, setting, {0: 0.5, 1: 0.5, 2: 0.5, 4: -0.4}), seed=number)
        judged = verdict(whole, higher_is_better=True)
        fallen = falls(judged, {"task": by_task}, {}, higher_is_better=True)
        named += any(fall.certainty == "sure" and fall.name == "the task '4'" for fall in fallen)
    assert named / studies > 0.8


def look_alikes(rng: np.random.Generator) -> Study:
    """Returns answers about groups of look-alike images, as in BUSI, whose images are mostly answered alike."""
    of = np.repeat(np.arange(90), 1 + rng.poisson(0.7, 90))
    phases = [np.where(rng.random(of.size) < 0.9, rng.random(90)[of], rng.random(of.size)) < 0.5 for _ in range(2)]
    return Study(phases[0].astype(float), phases[1].astype(float), of, rng.integers(0, TASKS, of.size))


def unequal(rng: np.random.Generator) -> Study:
    """Returns answers about few patients with very unequal numbers of questions, of whom large ones are easier."""
    sizes = np.maximum(1, np.rint(rng.gamma(0.25, 24, 12))).astype(int)
    of = np.repeat(np.arange(12), sizes)
    chance = np.clip(0.3 + 0.1 * np.log(sizes) + rng.normal(0, 0.15, (2, 12)), 0, 1)[:, of]
    before, after = (rng.random(chance.shape) < chance).astype(float)
    return Study(before, after, of, rng.integers(0, TASKS, of.size))


NULLS: dict[str, Callable[[np.random.Generator], Study]] = {
    **{f"of {each}": partial(study, setting=each, shift={}) for each in SETTINGS},
    **{f"all or nothing, {number} patients": partial(all_or_nothing, patients=number) for number in (10, 20, 60)},
    "look-alikes": look_alikes,
    "few unequal patients": unequal,
}
CHECKS, TABLES = 12, 4


class Marked(NamedTuple):
    """In how many studies without a change a page claims anything, and would by unadjusted cells and checks."""

    page: int
    cells: int
    checks: int


def marked(null: str, *, studies: int) -> Marked:
    """Counts pages with a headline, four tables of levels, and checks that are as good as the model."""
    rng, page, cells, checks = np.random.default_rng(len(null)), 0, 0, 0
    for seed in range(studies):
        found = NULLS[null](rng)
        names = [str(patient) for patient in found.patients]
        whole = level(found, seed=seed)
        tables = [found.tasks, *rng.integers(0, 4, (TABLES - 1, found.tasks.size))]
        levels = {
            (table, int(each)): level(Study(*(column[labels == each] for column in found)), seed=seed)
            for table, labels in enumerate(tables)
            for each in np.unique(labels)
        }
        by_table = [
            adjusted_by_holm({key: each for key, each in levels.items() if key[0] == table}) for table in range(TABLES)
        ]
        cells += any(verdict(x, higher_is_better=True) != "unclear" for each in by_table for x in each.values())
        # Swapped with the model for whole patients, a check is as good as the model, however answers depend.
        swaps = rng.random((CHECKS, int(found.patients.max()) + 1))[:, found.patients] < 0.5
        rows = [
            accuracy_row(
                "probe",
                "a probe",
                np.where(swap, found.before, found.after).tolist(),
                names,
                model=np.where(swap, found.after, found.before).tolist(),
            )
            for swap in swaps
        ]
        gaps = [row.gap for row in flagged_if_level(rows, {"probe": ("better", "open")}) if row.gap]
        checks += any(gap.ci95.high < 0 for gap in gaps)
        claims = verdict(whole, higher_is_better=True) != "unclear"
        # A cell is marked only beside a headline that claims a change.
        page += claims or any(gap.is_better for gap in gaps)
    shares = (page / studies, cells / studies, checks / studies)
    print("{}: {:.3f} of pages; {:.3f} by cells of one table, {:.3f} by intervals of checks".format(null, *shares))
    return Marked(page, cells, checks)


@pytest.mark.soak
@pytest.mark.parametrize("null", NULLS)
def test_without_any_change_a_page_claims_something_in_at_most_6_of_100_studies(null: str) -> None:
    assert marked(null, studies=STUDIES).page / STUDIES <= 0.06


@pytest.mark.slow
def test_without_any_change_pages_stay_at_their_level_over_all_nulls_together() -> None:
    studies = 20
    found = [marked(null, studies=studies) for null in NULLS]
    assert sum(each.page for each in found) / (len(NULLS) * studies) <= most_claims(len(NULLS) * studies)
    # By the intervals of the checks alone more is claimed.
    assert sum(each.checks for each in found) / (len(NULLS) * studies) > 0.1
