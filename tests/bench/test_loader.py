from collections.abc import Sequence

import pytest

from bench.loader import measured
from medtune.data.types import MediaRef
from medtune.models.media_reader import MediaReader


@pytest.mark.soak
def test_media_read_ahead_give_the_same_answers_and_another_volume_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    found = measured("nano_pocket_ct", num_cached=24, num_uncached=2, repeats=1)
    assert [ways.title for ways in found.ways] == [
        "answering 24 volumes from a filled cache",
        "answering 2 volumes without a cache",
    ]
    assert all(ways.agree for ways in found.ways)
    (waited,) = found.limits
    assert 0 <= waited.value <= 100
    expect = MediaReader.expect

    def turned(reader: MediaReader, groups: Sequence[tuple[MediaRef, ...]]) -> None:
        expect(reader, groups[::-1] if reader._workers else groups)

    monkeypatch.setattr(MediaReader, "expect", turned)
    wrong = measured("nano_pocket_ct", num_cached=24, num_uncached=2, repeats=1)
    assert not any(ways.agree for ways in wrong.ways)


def test_a_model_of_pictures_is_refused() -> None:
    with pytest.raises(ValueError, match="wants a model that reads volumes, and 'nano_pocket' reads others"):
        measured("nano_pocket", num_cached=1, num_uncached=1)
