"""Tests that the processes of `tests.ranks` work together, and that their errors reach the test."""

import os
import time
from pathlib import Path

import pytest
import torch
import torch.distributed as dist

from tests.costs import cpu_seconds
from tests.ranks import Forked, medtune_forked, run_ranks


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


def _busy(rank: int, world_size: int, seconds: float) -> None:
    end = time.process_time() + seconds
    while time.process_time() < end:
        pass


def test_what_ranks_cost_is_counted() -> None:
    before, deadline = cpu_seconds(), time.monotonic() + 20
    run_ranks(2, _busy, 0.5)
    while cpu_seconds() - before < 1 and time.monotonic() < deadline:
        time.sleep(0.1)
    assert cpu_seconds() - before >= 1


def test_a_forked_command_prints_in_its_folder_and_fails_as_a_command_does(tmp_path: Path) -> None:
    assert "nano_busi_lora" in medtune_forked("list", "recipes", "--all", folder=tmp_path)
    wrong = Forked(["show", "no_such_recipe"], folder=tmp_path)
    said, _ = wrong.communicate(60)
    assert wrong.returncode == 1
    assert "no_such_recipe" in said
