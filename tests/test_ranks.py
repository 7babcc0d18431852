"""Tests that the processes of `tests.ranks` work together, and that their errors reach the test."""

from __future__ import annotations

import os
import time

import pytest
import torch
import torch.distributed as dist

from tests.ranks import run_ranks


def _sum_of_ranks(rank: int, world_size: int, more: int) -> float:
    dist.init_process_group("gloo")
    total = torch.tensor(float(rank + more))
    dist.all_reduce(total)
    dist.destroy_process_group()
    return float(total)


def _failing(rank: int, world_size: int) -> None:
    if rank == 1:
        raise ValueError("rank one is ill")
    time.sleep(100)


def _dying(rank: int, world_size: int) -> None:
    os._exit(3)


def test_ranks_add_up_their_numbers() -> None:
    assert run_ranks(3, _sum_of_ranks, 10) == [33.0, 33.0, 33.0]


def test_an_error_of_a_rank_reaches_the_test() -> None:
    with pytest.raises(AssertionError, match=r"rank 1 of 2(.|\n)*rank one is ill"):
        run_ranks(2, _failing)


def test_a_rank_that_dies_fails_the_test() -> None:
    with pytest.raises(AssertionError, match="rank 0 of 1 died"):
        run_ranks(1, _dying)
