import pytest

from bench import long_media
from bench.long_media import measured
from tests.bench.measuring.leaking import let_branches_see_each_other


@pytest.mark.soak
def test_both_ways_give_the_same_and_a_leak_does_not(monkeypatch: pytest.MonkeyPatch) -> None:
    (ways,) = measured([32], questions=6, runs=1).ways
    assert ways.agree
    assert "of 6 questions" in ways.plain
    let_branches_see_each_other(monkeypatch, "forward")
    (ways,) = measured([32], questions=6, runs=1).ways
    assert not ways.agree


def test_the_masks_of_a_long_row_are_small() -> None:
    assert long_media.mask_memory_gb() < long_media.MASK_MEMORY_GB
