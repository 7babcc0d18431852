"""The stated timeout holds inside a step, for every process group; waiting for one rank is apart from it."""

import time
from typing import Any

import torch
import torch.distributed as dist

from medtune.trainer.devices import ranks
from tests.ranks import run_ranks

CPU = torch.device("cpu")
LATE_S = 4.0


def _with_a_late_rank(rank: int, world_size: int) -> dict[str, str]:
    ranks.join_ranks(world_size, CPU, timeout_minutes=60)
    own: Any = dist.new_group(backend="gloo")
    ranks.state_timeout(1 / 60)
    told = ranks.told_by_first("of rank 0" if rank == 0 else "of rank 1")
    time.sleep(rank * LATE_S)
    ranks.barrier()
    highest = ranks.highest(rank + 5)
    time.sleep(rank * LATE_S)
    step = "in time"
    try:
        dist.all_reduce(torch.ones(1), group=own)
    except RuntimeError:
        step = "timed out"
    return {"told": told, "highest": str(highest), "step": step}


def _waiting_too_long(rank: int, world_size: int) -> str:
    ranks.WAITING_HOURS = 1 / 3600
    ranks.join_ranks(world_size, CPU)
    if rank == 1:
        time.sleep(LATE_S)
        return ""
    try:
        ranks.barrier()
    except RuntimeError as error:
        return str(error)
    return "in time"


def test_waiting_takes_longer_than_a_step_may() -> None:
    first, second = run_ranks(2, _with_a_late_rank)
    assert first == {"told": "of rank 0", "highest": "6", "step": "timed out"}
    assert second["told"] == "of rank 0"


def test_the_error_names_the_timeout() -> None:
    message, _ = run_ranks(2, _waiting_too_long)
    assert "hours for the other ranks (WAITING_HOURS)" in message
