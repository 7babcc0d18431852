import pytest

from bench.cache_fill import bench, measured


@pytest.mark.soak
def test_two_processes_give_the_same_entries_and_another_model_does_not() -> None:
    (ways,) = measured(6).ways
    assert ways.agree
    (ways,) = measured(6, other_model="nano_m3d_llama2").ways
    assert not ways.agree


def test_a_number_is_wanted() -> None:
    with pytest.raises(ValueError, match="takes a number of CTs"):
        bench("many")
