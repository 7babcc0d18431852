import pytest

from bench.shared_prefix import measured
from tests.bench.measuring.leaking import let_all_see_each_other


@pytest.mark.soak
def test_sharing_gives_the_same_answers_and_gradients() -> None:
    found = measured("nano_pocket", num_groups=4, steps=1)
    assert [ways.title for ways in found.ways] == ["answering", "training"]
    assert all(ways.agree for ways in found.ways)
    assert "nano_pocket, 4 images" in found.subject


@pytest.mark.soak
def test_branches_that_see_each_other_are_not_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    let_all_see_each_other(monkeypatch)
    found = measured("nano_pocket", num_groups=4, steps=1)
    assert not any(ways.agree for ways in found.ways)
