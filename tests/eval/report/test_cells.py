import pytest

from medtune.data.types import Interval
from medtune.eval.report.result_tables import gain_cells, improvement_tone, value_cells
from medtune.eval.report.table import NONE
from medtune.eval.results.gain_schema import Changed, LevelGain

CHANGED = Changed(both_right=3, only_before=1, only_after=3, both_wrong=1)


def gain_of(reach: tuple[float, float] | None, p: float | None, holm: float | None = None) -> LevelGain:
    ci95 = Interval(*reach) if reach else None
    return LevelGain(
        value=0.25, n=8, ci95=ci95, permutation_p=p, permutation_p_holm=holm, mcnemar_p=0.5, counts=CHANGED
    )


@pytest.mark.parametrize(
    ("gain", "higher_is_better", "tone"),
    [
        (gain_of((0.1, 0.2), 0.01), True, "good"),
        (gain_of((0.1, 0.2), 0.01), False, "bad"),
        (gain_of((-0.2, -0.1), 0.01), True, "bad"),
        (gain_of((-0.2, -0.1), 0.05), False, "good"),
        (gain_of((-0.1, 0.1), 0.01), True, ""),
        (gain_of((0.0, 0.1), 0.01), True, ""),
        (gain_of((0.1, 0.2), 0.06), True, ""),
        (gain_of((0.1, 0.2), 0.01, holm=0.06), True, ""),
        (gain_of((0.1, 0.2), None), True, ""),
        (gain_of(None, 0.01), True, ""),
        (None, True, ""),
    ],
)
def test_only_a_sure_gain_is_set_apart(gain: LevelGain | None, higher_is_better: bool, tone: str) -> None:
    assert improvement_tone(gain, higher_is_better=higher_is_better) == tone


@pytest.mark.parametrize(("whole", "tone"), [((0.01, 0.2), "good"), ((-0.2, -0.01), "good"), ((-0.1, 0.2), "")])
def test_a_part_is_marked_only_beside_a_whole_that_changed_surely(whole: tuple[float, float], tone: str) -> None:
    part = gain_of((0.1, 0.2), 0.001, holm=0.01)
    assert gain_cells(part, higher_is_better=True, whole=gain_of(whole, 0.01))[0].tone == tone


def test_a_gain_and_its_interval_have_signs() -> None:
    value, reach = gain_cells(gain_of((0.125, 0.5), 0.01), higher_is_better=True)
    assert (value.text, value.tone, reach.text) == ("+0.250", "good", "+0.125 to +0.500")


def test_what_was_not_measured_is_a_dash() -> None:
    assert [cell.text for cell in (*value_cells(None), *gain_cells(None, higher_is_better=True))] == [NONE] * 4
