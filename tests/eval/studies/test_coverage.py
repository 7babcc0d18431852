"""How often the interval of a difference holds the truth, and how often the test rejects where there is none."""

import numpy as np
import pytest

from medtune.data.types import Prediction, PredictionKey, Question
from medtune.eval.evidence import Evidence
from medtune.eval.metric import ParsedReply
from medtune.eval.metrics.accuracy import metric as accuracy
from medtune.eval.studies.cells import StudyAnswers, StudyCell, study_cells
from medtune.eval.studies.measures import of_metric, share
from medtune.eval.studies.published import PublishedColumn, PublishedTable

PATIENTS, QUESTIONS, DRAWS = 40, 5, 400


def cell(printed: float, right: np.ndarray) -> StudyCell:
    rows = []
    for number, is_right in enumerate(right):
        question = Question(str(number), "m", "?", ("a", "b"), "a", "choice", f"p{number // QUESTIONS}")
        said = "a" if is_right else "b"
        key = PredictionKey(question.id, "image", "generation", 0)
        rows.append(ParsedReply(question, Prediction(key, text=said), said))
    evidence = Evidence([row.question for row in rows], (), {"image": {"robust": rows}}, "robust")
    column = PublishedColumn("accuracy", of_metric(accuracy(), "final"), ("final",), printed_interval=share)
    table = PublishedTable("one", "One", "nowhere", (column,), {"theirs": {"accuracy": printed}})
    (found,) = study_cells([table], [StudyAnswers("ours", "theirs", [{"final": evidence}])])
    return found


def drawn(random: np.random.Generator, rate: float, difficulty: np.ndarray, weight: float) -> np.ndarray:
    """Returns right and wrong answers at a rate; `weight` is how far the difficulty of a question decides them."""
    own = random.standard_normal(PATIENTS * QUESTIONS)
    mixed = weight * difficulty + np.sqrt(1 - weight**2) * own
    limit = float(np.quantile(random.standard_normal(200_000), rate))
    return np.asarray(mixed < limit)


def rates(rate_ours: float, rate_theirs: float, *, weight: float, seed: int) -> tuple[float, float]:
    """Returns the share of intervals that hold the true difference, and of tests with p < 0.05."""
    random = np.random.default_rng(seed)
    held = rejected = 0
    for _ in range(DRAWS):
        of_patient = np.repeat(random.standard_normal(PATIENTS), QUESTIONS)
        difficulty = (0.5 * of_patient + np.sqrt(0.75) * random.standard_normal(PATIENTS * QUESTIONS)).astype(float)
        printed = float(drawn(random, rate_theirs, difficulty, weight).mean())
        found = cell(printed, drawn(random, rate_ours, difficulty, weight))
        assert found.difference_ci95 is not None
        assert found.p is not None
        held += found.difference_ci95.low <= rate_ours - rate_theirs <= found.difference_ci95.high
        rejected += found.p < 0.05
    return held / DRAWS, rejected / DRAWS


@pytest.mark.soak
@pytest.mark.parametrize("weight", [0.0, 0.7])
def test_intervals_hold_and_tests_do_not_reject_too_often(weight: float) -> None:
    held, rejected = rates(0.6, 0.6, weight=weight, seed=1)
    assert held >= 0.93
    assert rejected <= 0.07
    held, rejected = rates(0.75, 0.5, weight=weight, seed=2)
    assert held >= 0.93
    assert rejected >= 0.9
