import numpy as np
import pytest

from bench.lookalikes import bench, both_ways
from medtune.data.prepared import same_picture


def test_every_planted_copy_that_is_found_among_all_pairs_is_found_and_with_no_neighbours_none(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ways = both_ways("breast-like", 14)
    assert ways.agree
    assert "14 of them planted copies (14 found" in ways.title
    monkeypatch.setattr(
        same_picture, "nearest_details", lambda spectra, groups: ((n, np.array([n - 1])) for n in range(1, len(groups)))
    )
    assert not both_ways("breast-like", 14).agree


@pytest.mark.soak
def test_the_search_of_many_pictures_grows_hardly_faster_than_their_number() -> None:
    found = bench("2000")
    assert all(ways.agree for ways in found.ways)
    assert all(limit.kept for limit in found.limits)


def test_a_number_is_wanted() -> None:
    with pytest.raises(ValueError, match="takes a number of pictures"):
        bench("many")
