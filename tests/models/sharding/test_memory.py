"""Tests that no process holds a whole model in memory where the weights are divided, while it is built and asked.

`make test-slow` measures smaller models, in tests/trainer/plan/test_planned_and_measured.py.
"""

from pathlib import Path

import pytest

from tests.models.sharding.memory import LAYER_PARAMETERS, MB, Peak, peak_of_rank, write_model
from tests.ranks import run_ranks

pytestmark = pytest.mark.soak

BF16_BYTES = 2


@pytest.fixture(scope="session")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, float]:
    """A random model of 300 million parameters in float32 files, and its size in bfloat16, in MB."""
    folder = tmp_path_factory.mktemp("large")
    parameters = write_model(folder)
    assert parameters > 3e8
    assert len(list(folder.glob("*.safetensors"))) > 1
    return folder, parameters * BF16_BYTES / MB


def _bound(whole_mb: float) -> float:
    """The bound of each rank of four: 0.3 of the model, and twice the largest group that is gathered, in MB."""
    return 0.3 * whole_mb + 2 * LAYER_PARAMETERS * BF16_BYTES / MB


@pytest.mark.parametrize("strategy", ["fsdp", "deepspeed_stage_3"])
def test_four_ranks_hold_a_share_and_what_is_gathered(checkpoint: tuple[Path, float], strategy: str) -> None:
    folder, whole_mb = checkpoint
    peaks: list[Peak] = run_ranks(4, peak_of_rank, folder, strategy)
    for peak in peaks:
        assert peak.building < _bound(whole_mb), peaks
        assert peak.asking < _bound(whole_mb), peaks
        assert peak.asking > 0.25 * whole_mb, "the share itself is there, so the measurement sees it"


def test_the_measurement_sees_a_whole_model(checkpoint: tuple[Path, float]) -> None:
    folder, whole_mb = checkpoint
    (peak,) = run_ranks(1, peak_of_rank, folder, "whole")
    assert peak.building > 0.95 * whole_mb > _bound(whole_mb)
