"""Says how this process was started: alone, as a rank of torchrun, or as a task of srun.

Source: the variables of torchrun (https://docs.pytorch.org/docs/stable/elastic/run.html) and of srun
(https://slurm.schedmd.com/srun.html, OUTPUT ENVIRONMENT VARIABLES).
"""

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

How = Literal["alone", "torchrun", "srun"]

_OPENED_BY_HAND = 2**32 - 256
"""SLURM's numbers of steps from here on stand for a batch script or a shell, not for tasks that srun started."""
_SHELLS = ("bash", "interactive")
"""The names of jobs that are a shell; srun starts `bash` in them, and what is typed there is no task of its own."""


@dataclass(frozen=True)
class Started:
    """How this process was started, and its place among those that were started with it.

    Attributes:
        rank: The number of this process among all, from 0.
        local_rank: Its number among those of its machine, from 0.
        world_size: The number of processes on all machines.
        local_world_size: The number of processes on each machine.
        node_rank: The number of the machine, from 0.
        how: What started it. `torchrun` stands for everything that sets RANK and WORLD_SIZE.
    """

    rank: int
    local_rank: int
    world_size: int
    local_world_size: int
    node_rank: int
    how: How

    @property
    def nodes(self) -> int:
        """The number of machines."""
        return self.world_size // self.local_world_size


ALONE = Started(0, 0, 1, 1, 0, "alone")


def how_started(variables: Mapping[str, str] | None = None) -> Started:
    """Returns how this process was started.

    torchrun is looked for first, because it may run inside a SLURM job. Tasks of srun count only if there are several;
    a batch script, one task and a shell in a job are `alone`, whatever SLURM_NTASKS says there.

    Args:
        variables: The environment variables; None takes those of this process.
    """
    given = os.environ if variables is None else variables
    if "RANK" in given or "WORLD_SIZE" in given:
        return _by_torchrun(given)
    if _has_tasks(given):
        return _by_srun(given)
    if int(given.get("OMPI_COMM_WORLD_SIZE", "1")) > 1:
        raise ValueError(
            f"mpirun started {given['OMPI_COMM_WORLD_SIZE']} processes, which medtune does not join; start the command "
            "once with --nodes and --devices, or by torchrun or srun"
        )
    return ALONE


def _by_torchrun(given: Mapping[str, str]) -> Started:
    world_size = int(given.get("WORLD_SIZE", "1"))
    if "RANK" not in given:
        if world_size == 1:
            return ALONE
        raise ValueError(
            f"WORLD_SIZE is {world_size} and RANK is not set; a launcher sets both. Unset WORLD_SIZE, or start the "
            "command by torchrun"
        )
    rank = int(given["RANK"])
    local_size = int(given.get("LOCAL_WORLD_SIZE", str(world_size)))
    local_rank = int(given.get("LOCAL_RANK", str(rank % local_size)))
    if not 0 <= rank < world_size or not 0 <= local_rank < local_size:
        raise ValueError(
            f"RANK is {rank} of WORLD_SIZE {world_size} and LOCAL_RANK {local_rank} of LOCAL_WORLD_SIZE {local_size}; "
            "ranks count from 0. Unset these variables, or start the command by torchrun"
        )
    if world_size % local_size:
        raise ValueError(
            f"WORLD_SIZE is {world_size} and LOCAL_WORLD_SIZE {local_size}: the machines have different numbers of "
            "processes; give every torchrun the same --nproc-per-node"
        )
    node_rank = int(given.get("GROUP_RANK", str(rank // local_size)))
    return Started(rank, local_rank, world_size, local_size, node_rank, "torchrun")


def _has_tasks(given: Mapping[str, str]) -> bool:
    step = given.get("SLURM_STEP_ID", given.get("SLURM_STEPID"))
    if step is None or "SLURM_PROCID" not in given or int(step) >= _OPENED_BY_HAND:
        return False
    if given.get("SLURM_JOB_NAME") in _SHELLS and int(step) == 0:
        return False
    return _tasks(given) > 1


def _tasks(given: Mapping[str, str]) -> int:
    return int(given.get("SLURM_STEP_NUM_TASKS", given.get("SLURM_NTASKS", "1")))


def _by_srun(given: Mapping[str, str]) -> Started:
    tasks, rank = _tasks(given), int(given["SLURM_PROCID"])
    each = _tasks_of_each_node(given, tasks)
    if len(set(each)) > 1 or sum(each) != tasks:
        raise ValueError(
            f"srun started {', '.join(map(str, each))} tasks on {len(each)} nodes (SLURM_NTASKS {tasks}); every node "
            "needs the same number: give --nodes and --ntasks-per-node, and leave --ntasks out"
        )
    missing = [name for name in ("SLURM_LOCALID", "SLURM_NODEID") if name not in given]
    if missing:
        raise ValueError(f"srun started {tasks} tasks and {', '.join(missing)} is not set; start the command by srun")
    local_rank, node_rank = int(given["SLURM_LOCALID"]), int(given["SLURM_NODEID"])
    if node_rank * each[0] + local_rank != rank:
        raise ValueError(
            f"task {rank} is number {local_rank} on node {node_rank}: srun dealt the tasks out in turn. Ranks go node "
            "by node: leave --distribution=cyclic out, or give --distribution=block"
        )
    return Started(rank, local_rank, tasks, each[0], node_rank, "srun")


def _tasks_of_each_node(given: Mapping[str, str], tasks: int) -> list[int]:
    if text := given.get("SLURM_STEP_TASKS_PER_NODE"):
        counts = [re.fullmatch(r"(\d+)(?:\(x(\d+)\))?", part) for part in text.split(",")]
        return [int(found[1]) for found in counts if found for _ in range(int(found[2] or 1))]
    nodes = int(given.get("SLURM_STEP_NUM_NODES", given.get("SLURM_NNODES", "1")))
    return [len(range(node, tasks, nodes)) for node in range(nodes)]
