import pytest

from bench import prepare
from bench.prepare import bench, measured


@pytest.mark.soak
def test_two_processes_give_the_same_folder_and_another_seed_does_not(monkeypatch: pytest.MonkeyPatch) -> None:
    # The times are medians of several runs; the folders of each run are the same.
    monkeypatch.setattr(prepare, "ROUNDS", 1)
    (ways,) = measured(6).ways
    assert ways.agree
    (ways,) = measured(6, other_seed=1).ways
    assert not ways.agree


def test_a_number_is_wanted() -> None:
    with pytest.raises(ValueError, match="takes a number of CTs"):
        bench("many")
