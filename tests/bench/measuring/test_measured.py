"""Tests the measurement of time and memory for benches."""

import pytest

from bench.measuring.measured import peak_memory_gb, refuse_subject, timed


def test_peak_memory_is_that_of_a_process_with_torch_or_more() -> None:
    assert 0.02 < peak_memory_gb() < 100


def test_timed_work_gives_its_result_and_seconds() -> None:
    result, seconds = timed(lambda: "done")
    assert result == "done"
    assert 0 <= seconds < 10


def test_a_subject_is_refused_where_there_is_none_to_choose() -> None:
    refuse_subject("startup", None)
    with pytest.raises(ValueError, match="runs on one thing alone; leave 'pocket' out"):
        refuse_subject("startup", "pocket")
