"""Tells Lightning how the processes of a run were started, so that it does not guess.

Left to itself, Lightning takes every process with SLURM_NTASKS for a task of srun: in a batch script all ranks of
torchrun would be rank 0 of one. Its own handlers for SLURM write hpc_ckpt_1.ckpt into the working directory, and every
later training there would begin with it.
"""

import os
from pathlib import Path
from typing import Any

import lightning.pytorch as pl
from lightning.fabric.plugins.environments.cluster_environment import ClusterEnvironment

from medtune.trainer.launch.started import Started


class StartedEnvironment(ClusterEnvironment):
    """The place of this process among those of the run, as `how_started` found it.

    Args:
        started: How the process was started.
    """

    def __init__(self, started: Started) -> None:
        super().__init__()
        self._started = started

    @property
    def creates_processes_externally(self) -> bool:
        """True: Lightning starts no process."""
        return True

    @property
    def main_address(self) -> str:
        """The address of the machine of rank 0."""
        return os.environ.get("MASTER_ADDR", "127.0.0.1")

    @property
    def main_port(self) -> int:
        """The port at which the ranks met."""
        return int(os.environ.get("MASTER_PORT", "29500"))

    @staticmethod
    def detect() -> bool:
        """False: this environment is always named."""
        return False

    def world_size(self) -> int:
        return self._started.world_size

    def set_world_size(self, size: int) -> None:
        """Does nothing, the number is known."""

    def global_rank(self) -> int:
        """The number of this process among all."""
        return self._started.rank

    def set_global_rank(self, rank: int) -> None:
        """Does nothing, the number is known."""

    def local_rank(self) -> int:
        """The number of this process among those of its machine."""
        return self._started.local_rank

    def node_rank(self) -> int:
        """The number of the machine."""
        return self._started.node_rank


def keep_to_run_folder(trainer: Any, root: Path) -> None:
    """Takes from a trainer what it would read or do outside of our control.

    Lightning's handler of SIGTERM waits for the other ranks inside the signal handler, where each rank is at another
    place; `medtune.trainer.launch.stop` handles all signals. Lightning also reads the newest hpc_ckpt_N.ckpt of its
    `default_root_dir` wherever SLURM_NTASKS is set, whatever its environment is.

    Args:
        trainer: The trainer; its `default_root_dir` is `root`.
        root: The folder that Lightning may use, inside the run folder.
    """
    if found := sorted(root.glob("hpc_ckpt_*")):
        raise ValueError(f"{found[0]}: Lightning would begin with these weights; no run writes this file, remove it")
    assert isinstance(trainer, pl.Trainer)
    assert Path(trainer.default_root_dir) == root
    trainer._signal_connector.register_signal_handlers = _leave_alone  # type: ignore[method-assign]


def _leave_alone() -> None:
    return None
