import pytest

from bench import startup


@pytest.mark.soak
def test_both_ways_list_the_recipes_and_the_lazy_one_is_the_quick_one() -> None:
    found = startup.measured(repeats=1)
    (ways,) = found.ways
    assert ways.agree
    assert ways.ratio > 1
    assert [limit.title for limit in found.limits] == [title for title, *_ in startup.LIMITS]
    assert all(limit.value > 0 for limit in found.limits)


@pytest.mark.soak
def test_another_list_is_not_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(startup, "_EAGER", "print('nano_busi_lora')")
    (ways,) = startup.measured(repeats=1, limits=()).ways
    assert not ways.agree
