"""Finds out how many machines and devices a run has, from its launcher, its arguments and its recipe."""

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace

from medtune.trainer.launch.started import Started
from medtune.trainer.recipe.check import check_recipe
from medtune.trainer.recipe.schema import Recipe


@dataclass(frozen=True)
class Counts:
    """How many processes a run has, and whether this process has to start some of them.

    Attributes:
        nodes: The number of machines.
        devices: The number of processes on each machine.
        starts_ranks: Whether this process starts the processes of its machine; otherwise it is one of them.
        node_rank: The number of this machine; None if the meeting of the machines decides.
    """

    nodes: int
    devices: int
    starts_ranks: bool
    node_rank: int | None


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

    Args:
        started: How this process was started.
        recipe: The recipe as it was read.
        nodes: The argument --nodes.
        devices: The argument --devices.
        node_rank: The argument --node-rank.
        variables: The environment variables; None takes those of this process.
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
