import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize_scalar
from scipy.stats import norm, t

from medtune.eval.statistics.intervals import normal_quantile, t_quantile, tango, wilson

Z = float(norm.ppf(0.975))


def most_likely_variance(up: float, down: float, true: float) -> float:
    """Returns the variance of one pair's change if the difference is `true`, by a search for the likeliest shares."""

    def unlikely(fewer: float) -> float:
        shares = np.array([fewer + max(true, 0), fewer + max(-true, 0), 1 - 2 * fewer - abs(true)])
        return -float(np.array([up, down, 1 - up - down]) @ np.log(np.maximum(shares, 1e-300)))

    fewer = minimize_scalar(unlikely, bounds=(0, (1 - abs(true)) / 2), method="bounded", options={"xatol": 1e-12}).x
    return 2 * float(fewer) + abs(true) - true**2


@given(st.integers(5, 60), st.data())
def test_tango_ends_where_the_score_test_begins_to_reject(n: int, data: st.DataObject) -> None:
    ups = data.draw(st.integers(0, n))
    downs = data.draw(st.integers(0, n - ups))
    up, down = ups / n, downs / n
    for end in tango(up, down, n):
        assert -1 <= end <= 1
        if abs(end) < 1:
            distance = (up - down - end) / np.sqrt(most_likely_variance(up, down, end) / n)
            assert abs(distance) == pytest.approx(Z, abs=2e-3)


def test_tango_without_change_is_wilson_of_no_success_on_both_sides() -> None:
    low, high = tango(0, 0, 40)
    assert (low, high) == pytest.approx((-wilson(0, 40).high, wilson(0, 40).high))


def test_tango_turns_around_with_the_phases() -> None:
    low, high = tango(0.3, 0.1, 25)
    assert tango(0.1, 0.3, 25) == pytest.approx((-high, -low))


def test_tango_of_a_change_everywhere_ends_at_1() -> None:
    low, high = tango(1, 0, 30)
    assert high == 1
    assert 0.5 < low < 0.9


@pytest.mark.parametrize(("up", "down", "n"), [(0.6, 0.6, 10), (-0.1, 0.2, 10), (0.1, 0.1, 0)])
def test_tango_refuses_impossible_shares(up: float, down: float, n: float) -> None:
    with pytest.raises(ValueError, match="tango wants shares"):
        tango(up, down, n)


def test_quantiles_equal_scipys() -> None:
    assert normal_quantile() == pytest.approx(Z)
    assert t_quantile(3.5) == pytest.approx(t.ppf(0.975, 3.5))
