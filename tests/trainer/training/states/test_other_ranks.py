"""Tests that a state saved by some ranks is continued by another number of ranks, and under another strategy."""

from pathlib import Path

import pytest

from tests.trainer.training.states.ranks_that_train import FULL, losses, state_of, train


@pytest.fixture(scope="module")
def whole(prepared_tiny: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[float]]:
    """Returns the losses of runs that nobody stopped, on one device."""
    folder = tmp_path_factory.mktemp("whole")
    found = {}
    for name, settings in (("lora", ()), ("full", FULL)):
        train(folder / name, prepared_tiny, *settings, devices=1)
        found[name] = losses(folder / name)
    return found


@pytest.mark.parametrize(
    ("tuning", "before", "after"),
    [
        ("lora", (1, "auto"), (1, "auto")),
        ("lora", (2, "ddp"), (1, "auto")),
        pytest.param("full", (2, "ddp"), (4, "ddp"), marks=pytest.mark.soak),
        pytest.param("full", (2, "deepspeed_stage_2"), (4, "deepspeed_stage_2"), marks=pytest.mark.slow),
        pytest.param("lora", (2, "deepspeed_stage_3"), (4, "deepspeed_stage_3"), marks=pytest.mark.soak),
        pytest.param("full", (2, "deepspeed_stage_3"), (1, "auto"), marks=pytest.mark.soak),
        pytest.param("full", (2, "ddp"), (2, "deepspeed_stage_3"), marks=pytest.mark.soak),
        pytest.param("full", (2, "fsdp"), (4, "fsdp"), marks=pytest.mark.soak),
        pytest.param("lora", (2, "fsdp"), (1, "auto"), marks=pytest.mark.soak),
        pytest.param("full", (2, "ddp"), (2, "fsdp"), marks=pytest.mark.soak),
        pytest.param("full", (2, "deepspeed_stage_3_offload"), (2, "fsdp"), marks=pytest.mark.slow),
        pytest.param("full", (4, "deepspeed_stage_3"), (2, "deepspeed_stage_1"), marks=pytest.mark.soak),
    ],
)
def test_the_next_losses_are_those_of_the_run_that_nobody_stopped(
    prepared_tiny: Path, tmp_path: Path, whole: dict[str, list[float]], tuning: str,
    before: tuple[int, str], after: tuple[int, str],
) -> None:  # fmt: skip
    out, settings = tmp_path / "run", FULL if tuning == "full" else ()
    train(out, prepared_tiny, *settings, devices=before[0], strategy=before[1], stop_at=3)
    assert state_of(out)["step"] == 3
    train(out, prepared_tiny, *settings, devices=after[0], strategy=after[1], resume=True)
    assert losses(out) == pytest.approx(whole[tuning], abs=1e-6)
    assert state_of(out)["step"] == 6
