"""Tests that ranks which torchrun starts again do not find what the ranks before them have left."""

import os
import time
from datetime import timedelta

import pytest
import torch
import torch.distributed as dist
from torch._C._distributed_c10d import TCPStore

from medtune.trainer.devices.ranks import barrier, join_ranks
from tests.ranks import run_ranks, torchrun_environment


def joined(rank: int, world_size: int) -> float:
    """Joins the ranks and returns the sum of their ranks."""
    join_ranks(world_size, torch.device("cpu"), timeout_minutes=0.2)
    total = torch.tensor([float(rank)])
    dist.all_reduce(total)
    barrier()
    return float(total)


def joined_late(rank: int, world_size: int) -> float:
    """Joins rank 1 seconds after rank 0, however long either takes to start."""
    store = TCPStore("127.0.0.1", int(os.environ["MASTER_PORT"]), is_master=False, timeout=timedelta(seconds=60))
    if rank == 0:
        store.set("rank 0 joins", "")
    else:
        store.wait(["rank 0 joins"])
        time.sleep(3)
    return joined(rank, world_size)


@pytest.fixture
def server() -> TCPStore:
    """The store of torchrun's agent, in which the addresses of ended ranks stand until the launcher ends."""
    return TCPStore("127.0.0.1", 0, is_master=True, timeout=timedelta(seconds=60))


def _variables(server: TCPStore, attempt: int, rank: int) -> dict[str, str]:
    agent = {"TORCHELASTIC_USE_AGENT_STORE": "True", "TORCHELASTIC_RESTART_COUNT": str(attempt)}
    return {**torchrun_environment(rank, 2, server.port), **agent}


def test_a_second_attempt_does_not_meet_the_first(server: TCPStore) -> None:
    def one_machine(attempt: int, rank: int) -> dict[str, str]:
        return {**_variables(server, attempt, rank), "GROUP_WORLD_SIZE": "1"}

    assert run_ranks(2, joined, environment=lambda rank: one_machine(0, rank)) == [1.0, 1.0]
    first = set(server.list_keys())
    assert run_ranks(2, joined_late, environment=lambda rank: one_machine(1, rank)) == [1.0, 1.0]
    second = set(server.list_keys()) - first
    # What the ranks of an attempt tell each other has the same names in each, but for the attempt.
    assert any("attempt 0" in key for key in first)
    assert {key.replace("attempt 0", "attempt 1") for key in first if "attempt 0" in key} <= second


def test_without_a_name_the_next_attempt_reads_the_keys_of_the_first(server: TCPStore) -> None:
    """The control, and what happens on several machines, whose counts of attempts differ."""
    assert run_ranks(2, joined, environment=lambda rank: _variables(server, 0, rank)) == [1.0, 1.0]
    first = set(server.list_keys())
    assert first
    assert not any("attempt" in key for key in first)
