import pytest

from bench.generation import measured
from tests.bench.measuring.leaking import let_branches_see_each_other


@pytest.mark.soak
def test_both_ways_give_the_same_and_a_leak_does_not(monkeypatch: pytest.MonkeyPatch) -> None:
    ways, both = measured([32], questions=6, runs=1).ways
    assert ways.agree
    assert both.agree
    assert "of 6 questions" in ways.plain
    let_branches_see_each_other(monkeypatch, "reply")
    ways, both = measured([32], questions=6, runs=1).ways
    assert not ways.agree
    assert not both.agree
