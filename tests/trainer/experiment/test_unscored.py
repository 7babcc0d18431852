"""Tests the flat metrics, the summary and --seeds for a phase whose free answers wait for a judge."""

import math
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from medtune.eval.scoring.score import PhaseScores
from medtune.trainer.series import SeedRun, without_unscored
from medtune.trainer.training.checkpoints import is_best
from medtune.trainer.training.dashboard.logger import summary
from medtune.trainer.training.loggers import phase_metrics
from tests.eval.free_answers import FREE, Said, phase


def test_flat_metrics_count_what_waits_and_the_summary_has_no_nan() -> None:
    before, after = phase(("waits", "waits")), phase((True, "waits"))
    flat = phase_metrics("zero_shot", before, FREE)
    assert flat["zero_shot/unscored"] == 2
    assert math.isnan(flat["zero_shot/free_answers"])
    assert summary({"zero_shot": before, "final": after}, None) == {
        "final": 1.0,
        "zero_shot_unscored": 2.0,
        "final_unscored": 1.0,
        **_ends(after),
    }


def _ends(found: PhaseScores) -> Mapping[str, float]:
    ci95 = found.overall.score.ci95
    return {"final_ci95_low": ci95.low, "final_ci95_high": ci95.high} if ci95 else {}


def run(seed: int, before: tuple[Said, ...], after: tuple[Said, ...]) -> SeedRun:
    return SeedRun(seed, Path(f"seed_{seed}"), (list(phase(before).rows), list(phase(after).rows)))


def test_seeds_are_compared_on_what_is_judged_in_all_of_them() -> None:
    runs = [run(0, (True, False, "waits", True), (True,) * 4), run(1, (False,) * 4, (True, "waits", True, False))]
    kept, unscored = without_unscored(runs)
    assert unscored == 2
    assert [[[row.question.id for row in rows] for rows in each.phases] for each in kept] == [[["q0", "q3"]] * 2] * 2
    with pytest.raises(ValueError, match="answered different questions"):
        without_unscored([run(0, (True,), (True,)), run(1, (True, True), (True, True))])


@pytest.mark.parametrize(
    ("value", "best", "sign", "replaced"),
    [
        (0.1, None, 1, True),
        (math.nan, None, 1, True),
        (math.nan, math.nan, 1, True),
        (0.1, math.nan, 1, True),
        (math.nan, 0.1, 1, False),
        (0.2, 0.1, 1, True),
        (0.1, 0.1, 1, True),
        (0.2, 0.1, -1, False),
    ],
)
def test_weights_without_a_value_are_never_better_than_ones_with(
    value: float, best: float | None, sign: int, replaced: bool
) -> None:
    assert is_best(value, best, sign=sign) is replaced


def test_the_dashboard_says_how_many_questions_a_score_leaves_out() -> None:
    found = replace(phase((True, False)), uncounted={"CVE": 2, "RG": 1})
    assert summary({"zero_shot": found}, None)["zero_shot_uncounted"] == 3
