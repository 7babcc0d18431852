from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import softmax
from sklearn.metrics import brier_score_loss
from torchmetrics.functional.classification import binary_calibration_error

from medtune.eval.statistics.calibration import (
    ReliabilityBin,
    expected_calibration_error,
    option_probabilities,
    right_closed_bins,
)
from tests.eval.golden import near, recorded
from tests.eval.statistics.other_definitions import brier, left_closed_bins, maximum_calibration_error

UNIT = st.floats(0, 1)


def assert_bins(found: list[ReliabilityBin], expected: dict[str, Any]) -> None:
    assert expected_calibration_error(found) == near(expected["ece"])
    assert maximum_calibration_error(found) == near(expected["mce"])
    assert [(each.index, each.n) for each in found] == [(row[0], row[1]) for row in expected["bins"]]
    for each, row in zip(found, expected["bins"], strict=True):
        assert [each.confidence, each.accuracy] == near(row[2:])


def test_golden_statistics_calibration() -> None:
    golden = recorded("statistics.json")
    confidence, correct = golden["rows"]["calibration"]["confidence"], golden["rows"]["calibration"]["correct"]
    for name, expected in golden["expected"]["ece"].items():
        bins = int(name.removesuffix("_bins"))
        assert_bins(right_closed_bins(confidence, correct, bins=bins), expected["right_closed (lo,hi], zero in first"])
        assert_bins(left_closed_bins(confidence, correct, bins=bins), expected["left_closed [lo,hi), one in last"])
        # Recorded for comparison only: torchmetrics computes in float32 and has another rule for edges.
        orientation = binary_calibration_error(torch.tensor(confidence), torch.tensor(correct), n_bins=bins, norm="l1")
        assert float(orientation) == pytest.approx(expected["torchmetrics_binary_l1"], abs=1e-6)
    assert brier(confidence, correct) == near(golden["expected"]["brier"])


@given(st.lists(st.tuples(UNIT, st.integers(0, 1)), min_size=1), st.integers(1, 20))
def test_every_answer_is_in_one_bin_and_order_does_not_matter(rows: list[tuple[float, int]], bins: int) -> None:
    confidence, correct = [row[0] for row in rows], [row[1] for row in rows]
    for binned in (right_closed_bins, left_closed_bins):
        found = binned(confidence, correct, bins=bins)
        assert sum(each.n for each in found) == len(rows)
        assert all(0 <= each.index < bins for each in found)
        assert 0 <= expected_calibration_error(found) <= maximum_calibration_error(found) + 1e-12 <= 1 + 1e-9
        again = binned(confidence[::-1], correct[::-1], bins=bins)
        assert expected_calibration_error(again) == pytest.approx(expected_calibration_error(found))


@given(st.lists(st.tuples(UNIT, st.integers(0, 1)), min_size=1))
def test_brier_equals_sklearn(rows: list[tuple[float, int]]) -> None:
    confidence, correct = [row[0] for row in rows], [row[1] for row in rows]
    assert brier(confidence, correct) == pytest.approx(brier_score_loss(correct, confidence, labels=[0, 1]))


def test_oracle_and_opposite() -> None:
    assert brier([1.0, 0.0], [1, 0]) == 0 == expected_calibration_error(right_closed_bins([1.0, 0.0], [1, 0], bins=10))
    assert brier([0.0, 1.0], [1, 0]) == 1 == expected_calibration_error(right_closed_bins([0.0, 1.0], [1, 0], bins=10))


@given(st.lists(st.floats(-1e4, 0), min_size=1, max_size=8))
def test_option_probabilities_are_the_softmax(logprobs: list[float]) -> None:
    assert option_probabilities(logprobs) == pytest.approx(softmax(logprobs).tolist())
    assert sum(option_probabilities(logprobs)) == pytest.approx(1)


def test_of_nothing() -> None:
    assert right_closed_bins([], [], bins=5) == left_closed_bins([], [], bins=5) == []
    assert expected_calibration_error([]) == maximum_calibration_error([]) == brier([], []) == 0


def test_refuses_what_is_no_probability() -> None:
    with pytest.raises(ValueError, match="within"):
        brier([1.5], [1])
    with pytest.raises(ValueError, match="one outcome"):
        brier([0.5], [])
    with pytest.raises(ValueError, match="at least one bin"):
        left_closed_bins([0.5], [1], bins=0)
