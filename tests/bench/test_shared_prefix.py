import pytest

from bench.shared_prefix import measured
from medtune.models.vlm import VisionLanguageModel
from tests.models.twins import all_seen


@pytest.mark.slow
def test_sharing_gives_the_same_answers_and_gradients() -> None:
    found = measured("nano_pocket", num_groups=4, steps=1)
    assert [ways.title for ways in found.ways] == ["answering", "training"]
    assert all(ways.agree for ways in found.ways)
    assert "nano_pocket, 4 images" in found.subject


@pytest.mark.slow
def test_branches_that_see_each_other_are_not_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    forward = VisionLanguageModel.forward

    def leaking(self, rows, tokens_MNE):  # type: ignore[no-untyped-def]
        return forward(self, all_seen(rows), tokens_MNE)

    monkeypatch.setattr(VisionLanguageModel, "forward", leaking)
    found = measured("nano_pocket", num_groups=4, steps=1)
    assert not any(ways.agree for ways in found.ways)
