"""The intervals of a cross-validation, also by simulation: classifiers are trained on all patients but a fold."""

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import norm

from medtune.data.types import FOLD, Interval
from medtune.eval.comparing.gain import level_gain
from medtune.eval.metric import ParsedReply
from medtune.eval.metrics.accuracy import metric as accuracy
from medtune.eval.scoring.score import score_rows
from medtune.eval.statistics.intervals import OVER_FOLDS, gain_interval, mean_interval, method_for, over_folds
from tests.eval.comparing.test_seeds import lowest, rows


def in_folds(answers: list[ParsedReply], folds: list[str]) -> list[ParsedReply]:
    return [
        replace(row, question=replace(row.question, facets={FOLD: fold}))
        for row, fold in zip(answers, folds, strict=True)
    ]


def test_folds_that_differ_widen_the_interval_and_folds_that_agree_do_not_narrow_it() -> None:
    patients = list(range(40))
    folds = [f"fold {patient % 4}" for patient in patients]
    right = [float(patient % 8 > 3) for patient in patients]
    plain = score_rows(rows(right, patients), accuracy())
    alike = score_rows(in_folds(rows(right, patients), folds), accuracy())
    assert plain.ci95 is not None
    assert alike.ci95 is not None
    assert alike.value == plain.value
    assert alike.ci95.low <= plain.ci95.low < plain.ci95.high <= alike.ci95.high
    one_bad_model = [float(patient % 4 > 0) for patient in patients]
    uneven = score_rows(in_folds(rows(one_bad_model, patients), folds), accuracy()).ci95
    assert uneven is not None
    by_patient = mean_interval(one_bad_model, [f"p{patient}" for patient in patients])
    assert uneven.high - uneven.low > 2 * (by_patient.high - by_patient.low)
    gains = [
        level_gain(made(rows([0.0] * 40, patients)), made(rows(one_bad_model, patients)), accuracy()).ci95
        for made in (lambda answers: in_folds(answers, folds), list)
    ]
    assert gains[0].low < gains[1].low


def test_the_method_names_the_folds() -> None:
    clusters = [f"p{number}" for number in range(60)]
    assert method_for(clusters, folds=5) == method_for(clusters) + OVER_FOLDS


GRID = [
    (12, 4, 5, 0.3), (20, 3, 5, 0.0), (20, 3, 5, 0.5), (40, 2, 5, 0.4), (40, 2, 10, 0.0), (100, 2, 5, 0.0),
    (100, 2, 5, 0.3), (100, 2, 5, 0.6), (100, 3, 10, 0.6), (100, 3, 3, 0.4), (100, 3, 2, 0.0),
]  # fmt: skip
"""Patients, questions of each, folds, and the noise of the training's weights."""
FEATURES, SHIFT, OF_PATIENT = 8, 0.35, 0.5


class Study:
    """A simulated cross-validation of a linear classifier, beside fixed weights before the training."""

    def __init__(self, rng: np.random.Generator, *, patients: int, size: int, folds: int, noise: float) -> None:
        centre_X = np.full(FEATURES, SHIFT)
        truth_PQ = rng.integers(0, 2, (patients, size)) * 2 - 1
        own_P1X = rng.normal(0, OF_PATIENT, (patients, 1, FEATURES))
        seen_PQX = truth_PQ[..., None] * centre_X + own_P1X + rng.normal(size=(patients, size, FEATURES))
        fold_P = rng.permutation(np.arange(patients) % folds)
        after_PQ = np.zeros((patients, size))
        of_models = []
        for fold in range(folds):
            learnt, truth = seen_PQX[fold_P != fold].reshape(-1, FEATURES), truth_PQ[fold_P != fold].ravel()
            ends = [learnt[truth == side].mean(0) if (truth == side).any() else np.zeros(FEATURES) for side in (1, -1)]
            weights_X = (ends[0] - ends[1]) / 2 + rng.normal(0, noise, FEATURES)
            bias = -float(weights_X @ (ends[0] + ends[1])) / 2
            after_PQ[fold_P == fold] = np.sign(seen_PQX[fold_P == fold] @ weights_X + bias) == truth_PQ[fold_P == fold]
            of_models.append(_accuracy(weights_X, bias))
        before_X = np.array([1.0, 1.5, *[0.0] * (FEATURES - 2)])
        self.before = (np.sign(seen_PQX @ before_X) == truth_PQ).astype(float).ravel().tolist()
        self.after = after_PQ.ravel().tolist()
        self.patients = np.repeat(np.arange(patients), size).astype(str).tolist()
        self.folds = np.repeat(fold_P, size).astype(str).tolist()
        # What the models score on average on new patients.
        self.truth, self.truth_before = float(np.mean(of_models)), _accuracy(before_X, 0.0)

    def intervals(self) -> tuple[Interval, Interval]:
        """Returns the interval of the value after training, and that of the gain."""
        value = over_folds(lambda clusters: mean_interval(self.after, clusters), self.patients, self.folds)
        gain = over_folds(lambda clusters: gain_interval(self.before, self.after, clusters), self.patients, self.folds)
        return value, gain


def _accuracy(weights_X: np.ndarray, bias: float) -> float:
    sd = float(np.linalg.norm(weights_X)) * math.sqrt(1 + OF_PATIENT**2)
    middle = float(weights_X.sum()) * SHIFT
    return float(0.5 * (norm.cdf((middle + bias) / sd) + norm.cdf((middle - bias) / sd)))


def held(patients: int, size: int, folds: int, noise: float, *, repeats: int) -> tuple[float, float]:
    """Returns the shares of the intervals of values and of gains that hold what the recipe gives on average."""
    rng = np.random.default_rng(1)
    studies = [Study(rng, patients=patients, size=size, folds=folds, noise=noise) for _ in range(repeats)]
    truth, before = float(np.mean([each.truth for each in studies])), studies[0].truth_before
    found = [study.intervals() for study in studies]
    values = np.mean([low <= truth <= high for (low, high), _ in found])
    gains = np.mean([low <= truth - before <= high for _, (low, high) in found])
    width, wide = (float(np.mean([each[place].high - each[place].low for each in found])) for place in (0, 1))
    sd = float(np.std([study.truth for study in studies])) * math.sqrt(folds)
    print(f"| {patients} x {size} | {folds} | {sd:.2f} | {values:.3f} | {width:.2f} | {gains:.3f} | {wide:.2f} |")
    return float(values), float(gains)


@pytest.mark.soak
@pytest.mark.parametrize(("patients", "size", "folds", "noise"), GRID)
def test_the_interval_holds_what_the_recipe_gives(patients: int, size: int, folds: int, noise: float) -> None:
    repeats = 1500
    values, gains = held(patients, size, folds, noise, repeats=repeats)
    assert min(values, gains) >= lowest(repeats)
    # A handful of folds says little about how much trainings vary; the wider of two intervals covers more often.
    if folds > 5:
        assert max(values, gains) <= 0.975 + 3 * math.sqrt(0.975 * 0.025 / repeats)


@pytest.mark.slow
def test_an_interval_of_folds_holds_what_the_recipe_gives_where_trainings_differ() -> None:
    repeats = 200
    assert min(held(100, 2, 5, 0.6, repeats=repeats)) >= lowest(repeats)
