from __future__ import annotations

import pytest

from medtune.data.types import Interval
from medtune.eval.report.cells import gain_cells, improvement_tone, value_cells
from medtune.eval.report.table import NONE
from medtune.eval.results.schema import Changed, LevelGain


@pytest.mark.parametrize(
    ("reach", "higher_is_better", "tone"),
    [
        ((0.1, 0.2), True, "good"),
        ((0.1, 0.2), False, "bad"),
        ((-0.2, -0.1), True, "bad"),
        ((-0.2, -0.1), False, "good"),
        ((-0.1, 0.1), True, ""),
        ((0.0, 0.1), True, ""),
        (None, True, ""),
    ],
)
def test_only_a_sure_gain_is_set_apart(reach: tuple[float, float] | None, higher_is_better: bool, tone: str) -> None:
    assert improvement_tone(reach, higher_is_better=higher_is_better) == tone


def test_a_gain_and_its_interval_have_signs() -> None:
    changed = Changed(both_right=3, only_before=1, only_after=3, both_wrong=1)
    gain = LevelGain(value=0.25, n=8, ci95=Interval(0.125, 0.5), mcnemar_p=0.5, counts=changed)
    value, reach = gain_cells(gain, higher_is_better=True)
    assert (value.text, value.tone, reach.text) == ("+0.250", "good", "+0.125 to +0.500")


def test_what_was_not_measured_is_a_dash() -> None:
    assert [cell.text for cell in (*value_cells(None), *gain_cells(None, higher_is_better=True))] == [NONE] * 4
