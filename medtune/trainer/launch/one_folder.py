"""Lets all ranks of a run work in one folder."""

import os
import time
from pathlib import Path

import torch.distributed as dist

from medtune.trainer.devices.ranks import barrier, told_by_first
from medtune.trainer.experiment.run_folder import RunFolder
from medtune.trainer.launch.claim import claim
from medtune.trainer.recipe.schema import TrainBlock

SEEN_WITHIN_S = 60
"""How long a shared file system may take to show a new file on another machine."""


def one_folder(mine: Path, train: TrainBlock, *, resume: bool, is_named: bool) -> tuple[list[Path], bool]:
    """Returns the run folder of rank 0 for every rank, alone in a list, and whether its run goes on.

    Args:
        mine: The run folder by this rank's arguments and clock.
        train: The settings that say how many ranks there are.
        resume: Whether --resume was given.
        is_named: Whether --out was given.
    """
    if not is_named and int(os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")) > 0:
        raise ValueError("torchrun started this run again, which needs --out: the folder whose run goes on")
    rank = dist.get_rank() if dist.is_initialized() else 0
    numbers = (train.nodes, train.devices)
    decided: tuple[Path, bool] | Exception | None = None
    if rank == 0:
        try:
            decided = (mine, claim(mine, resume=resume))
        except (OSError, ValueError) as error:
            decided = error
    first_numbers, decided = told_by_first((numbers, decided))
    if isinstance(decided, Exception):
        raise decided
    if first_numbers != numbers:
        raise ValueError(
            f"rank 0 counts {first_numbers[0]} machines with {first_numbers[1]} processes each, this one {numbers[0]} "
            f"with {numbers[1]}; start the same number on every machine"
        )
    assert decided is not None
    return [decided[0]], decided[1]


def see_folder(folder: RunFolder) -> None:
    """Waits until rank 0 has begun the run, and until this rank sees its folder."""
    barrier()
    deadline = time.monotonic() + SEEN_WITHIN_S
    while not folder.recipe.is_file():
        if time.monotonic() > deadline:
            raise FileNotFoundError(
                f"{folder.root} of rank 0 is not to be seen on {os.uname().nodename}: the run folder has to lie on a "
                "file system that all machines share; name one with --out"
            )
        time.sleep(0.2)
