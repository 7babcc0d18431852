"""Tests that the bench of a CT's facts compares two ways that agree, and notices where they do not."""

from bench.case_facts import measured


def test_both_ways_agree_and_another_brightness_is_noticed() -> None:
    found = measured((96, 96, 72), most_s=30)
    assert found.ways[0].agree
    assert {limit.unit for limit in found.limits} == {"s", "GB"}
    assert all(limit.kept for limit in found.limits)
    assert not measured((96, 96, 72), most_s=30, shifted_hu=1.0).ways[0].agree
