"""Says how this process was started: alone, as a rank of torchrun, or as a task of srun.

Source: the variables of torchrun (https://docs.pytorch.org/docs/stable/elastic/run.html) and of srun
(https://slurm.schedmd.com/srun.html, OUTPUT ENVIRONMENT VARIABLES).
"""

import os
import re
import sys
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal

from medtune.trainer.recipe.check import check_recipe
from medtune.trainer.recipe.schema import Recipe

_SHELLS = ("bash", "interactive")
"""The names of jobs that are a shell; srun starts `bash` in them, and what is typed there is no task of its own."""
_FIRST_PORT, _PORTS = 10_000, 20_000
"""Ports from 10,000 to 29,999 lie below those that Linux gives to connections by itself."""

How = Literal["alone", "torchrun", "srun"]

_OPENED_BY_HAND = 2**32 - 256
"""SLURM's numbers of steps from here on stand for a batch script or a shell, not for tasks that srun started."""

_DEFAULT_PORT = 29400
"""Source: torchrun's default port of rendezvous."""
_LOOPBACK = ("127.0.0.1", "localhost", "::1")


@dataclass(frozen=True)
class Started:
    """How this process was started, and its place among those that were started with it."""

    rank: int  # The number of this process among all, from 0.
    local_rank: int  # Its number among those of its machine, from 0.
    world_size: int
    local_world_size: int
    node_rank: int  # The number of the machine, from 0.
    how: How  # What started it. `torchrun` stands for everything that sets RANK and WORLD_SIZE.

    @property
    def nodes(self) -> int:
        return self.world_size // self.local_world_size


ALONE = Started(0, 0, 1, 1, 0, "alone")


def how_started(variables: Mapping[str, str] | None = None) -> Started:
    """Returns how this process was started.

    torchrun is looked for first, because it may run inside a SLURM job. Tasks of srun count only if there are several;
    a batch script, one task and a shell in a job are `alone`, whatever SLURM_NTASKS says there.
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


@dataclass(frozen=True)
class Meeting:
    """Where the launchers of a run meet."""

    endpoint: str
    name: str  # A name that all launchers of the run know, and those of other runs do not have.
    # Whether this machine keeps the meeting; None lets PyTorch compare the names of host and machine.
    is_host: bool | None
    local_address: str | None  # The address under which the others reach this machine; None takes its full name.


def meeting(nodes: int, *, rendezvous: str | None, node_rank: int | None) -> Meeting:
    """Returns where the launchers meet: at `rendezvous`, else at MASTER_ADDR, else on the first node of a SLURM job."""
    if nodes == 1:
        return Meeting("127.0.0.1:0", uuid.uuid4().hex, True, "127.0.0.1")
    if rendezvous is not None:
        host, port = _host_and_port(rendezvous)
    elif found := address_of(os.environ):
        host, port = found
    else:
        raise ValueError(
            f"{nodes} machines have to meet: give --rendezvous HOST:PORT on each, the name of the first machine and a "
            "free port of it"
        )
    is_host = None if node_rank is None else node_rank == 0
    local = host if is_host or host in _LOOPBACK else os.environ.get("SLURMD_NODENAME")
    numbers = ("SLURM_JOB_ID", "SLURM_STEP_ID", "SLURM_RESTART_COUNT")
    parts = [os.environ[name] for name in numbers if name in os.environ]
    return Meeting(f"{host}:{port}", "-".join(["medtune", host, str(port), *parts]), is_host, local)


def _host_and_port(text: str) -> tuple[str, int]:
    host, colon, port = text.rpartition(":")
    if not colon:
        return text, _DEFAULT_PORT
    if not host or not port.isdigit():
        raise ValueError(f"--rendezvous is {text!r}; wanted HOST or HOST:PORT, e.g. gpu01:29400")
    return host, int(port)


@dataclass(frozen=True)
class Counts:
    """How many processes a run has, and whether this process has to start some of them."""

    nodes: int
    devices: int
    starts_ranks: bool  # Whether this process starts the processes of its machine; otherwise it is one of them.
    node_rank: int | None  # The number of this machine; None if the meeting of the machines decides.


def count(
    started: Started,
    recipe: Recipe,
    *,
    nodes: int | None,
    devices: int | None,
    node_rank: int | None,
    variables: Mapping[str, str] | None = None,
) -> Counts:
    """Returns the numbers of a run: those of its launcher if it has one, else the arguments', else the recipe's.

    Tasks of srun are the ranks, unless there is one on each of several nodes and more than one device is wanted on
    each: every task then starts the ranks of its node.
    """
    given = os.environ if variables is None else variables
    if started.how == "alone":
        wanted = Counts(nodes or recipe.train.nodes, devices or recipe.train.devices, False, node_rank)
        _check_alone(wanted, given)
        return replace(wanted, starts_ranks=wanted.nodes * wanted.devices > 1)
    each = devices or recipe.train.devices
    is_one_a_node = started.how == "srun" and started.local_world_size == 1 and each > 1
    found = Counts(started.nodes, each if is_one_a_node else started.local_world_size, is_one_a_node, started.node_rank)
    for flag, asked, there in (("--nodes", nodes, found.nodes), ("--devices", devices, found.devices)):
        if asked is not None and asked != there:
            raise ValueError(
                f"{flag} is {asked} and {started.how} started this on {found.nodes} machines with "
                f"{started.local_world_size} processes each; make them equal, or leave {flag} out"
            )
    return found


def _check_alone(wanted: Counts, given: Mapping[str, str]) -> None:
    if wanted.node_rank is not None and not 0 <= wanted.node_rank < wanted.nodes:
        raise ValueError(f"--node-rank is {wanted.node_rank} and --nodes {wanted.nodes}; it counts from 0")
    if "SLURM_JOB_ID" not in given or wanted.node_rank is not None:
        return
    names = ("SLURM_STEP_NUM_NODES", "SLURM_JOB_NUM_NODES", "SLURM_NNODES")
    allotted = int(next((given[name] for name in names if name in given), "1"))
    if wanted.nodes > 1:
        raise ValueError(
            f"--nodes is {wanted.nodes} and this SLURM job runs the command on one node only: put "
            f"`srun --nodes={wanted.nodes} --ntasks-per-node=1 --kill-on-bad-exit=1` before it, which starts it on each"
        )
    if allotted > 1:
        print(
            f"medtune: this SLURM job has {allotted} nodes and the command uses one; to use all put "
            f"`srun --ntasks-per-node=1 --kill-on-bad-exit=1` before it and give --nodes {allotted}",
            file=sys.stderr,
        )


def with_counts(recipe: Recipe, counts: Counts) -> Recipe:
    """Returns the recipe with the numbers that the run really has, which decide nothing about its results."""
    counted = replace(recipe, train=replace(recipe.train, nodes=counts.nodes, devices=counts.devices))
    check_recipe(counted)
    return counted


def job_of() -> str | None:
    """Returns a name of the SLURM job of this process, which it keeps when it is queued again; None outside of a job.

    A job that is a shell has no such name: each command that is typed there is a piece of work of its own.
    """
    if "SLURM_JOB_ID" not in os.environ or os.environ.get("SLURM_JOB_NAME") in _SHELLS:
        return None
    return f"{os.environ.get('SLURM_CLUSTER_NAME', 'cluster')}/{os.environ['SLURM_JOB_ID']}"


def first_host(node_list: str) -> str:
    """Returns the first name of a list of nodes as SLURM writes it, for instance "gpu[07-09,12],big1".

    It is the first line of `scontrol show hostnames`.
    """
    name = node_list.strip()
    while found := re.match(r"([^,\[]*)\[([^\]]*)\](.*)", name):
        before, ranges, rest = found.groups()
        name = f"{before}{re.split('[,-]', ranges)[0]}{rest}"
    return name.split(",")[0]


def address_of(variables: Mapping[str, str]) -> tuple[str, int] | None:
    """Returns the host and a port at which the tasks of a job can meet; None outside of a job.

    The port follows from the numbers of the job and of the step, so that two steps of one job do not meet each other.
    MASTER_ADDR and MASTER_PORT go first.
    """
    nodes = (
        variables.get("SLURM_STEP_NODELIST") or variables.get("SLURM_JOB_NODELIST") or variables.get("SLURM_NODELIST")
    )
    host = variables.get("MASTER_ADDR") or (first_host(nodes) if nodes else None)
    if host is None:
        return None
    job, step = int(variables.get("SLURM_JOB_ID", "0")), int(variables.get("SLURM_STEP_ID", "0"))
    port = variables.get("MASTER_PORT") or str(_FIRST_PORT + (job * 31 + step * 7919) % _PORTS)
    return host, int(port)
