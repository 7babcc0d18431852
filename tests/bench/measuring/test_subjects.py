import pytest

from bench.measuring.subjects import first_simulated, released
from bench.measuring.workload import workload


def test_benches_measure_by_default_what_they_have_always_measured() -> None:
    volumes, images = first_simulated("volume"), first_simulated("image")
    assert (volumes.name, volumes.simulation.source, volumes.simulation.questions_per_item) == (
        "ctlesionvqa", "ct_phantom", 43,
    )  # fmt: skip
    assert (images.name, images.simulation.source, images.simulation.questions_per_item) == (
        "fetal_gauge", "fetal_phantom", 2,
    )  # fmt: skip
    made_up = released(None)
    assert (made_up.name, made_up.release.source) == ("ctlesionvqa", "ctlesionvqa")
    assert (made_up.release.rows, made_up.release.items, made_up.release.test_items) == (395_612, 9_262, 928)
    assert workload("u2_bench").max_predictions == 7_241


def test_a_benchmark_without_what_a_bench_needs_is_refused() -> None:
    with pytest.raises(ValueError, match="busi offers no made-up release"):
        released("busi")
    with pytest.raises(ValueError, match="no benchmark simulates media of the kind 'video'"):
        first_simulated("video")
