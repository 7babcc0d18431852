"""The arguments that say on which machines and devices a run works, and how it is started there."""

import argparse

from medtune.trainer.commands.arguments import positive


def add_launch(parser: argparse.ArgumentParser) -> None:
    """Adds --nodes, --devices and what else a launch takes."""
    group = parser.add_argument_group("machines and devices", "docs/cluster.md shows how they are used.")
    group.add_argument(
        "--nodes",
        type=positive,
        metavar="N",
        help="The number of machines; the command is started on each (default: train.nodes of the recipe).",
    )
    group.add_argument(
        "--devices",
        type=positive,
        metavar="N",
        help="The number of processes on each machine, each with a device of its own (default: train.devices).",
    )
    group.add_argument(
        "--rendezvous",
        metavar="HOST:PORT",
        help="Where the machines meet: the first machine's name and a free port of it (default: MASTER_ADDR and "
        "MASTER_PORT, or the first node of a SLURM job).",
    )
    group.add_argument(
        "--node-rank",
        type=int,
        metavar="N",
        help="The number of this machine, from 0; machine 0 keeps the meeting (default: the one that --rendezvous "
        "names).",
    )
    group.add_argument(
        "--restarts",
        type=int,
        default=0,
        metavar="N",
        help="How often the processes are started again after a failure, on one machine; they go on with the last "
        "saved state (default: 0).",
    )
    group.add_argument(
        "--requeue",
        action="store_true",
        help="Asks SLURM to queue the job again after a stop by SIGUSR1 or SIGUSR2, which `sbatch --signal` sends "
        "before the time is over; the job then goes on with this run.",
    )
    group.add_argument(
        "--slurm",
        metavar="KEY=VALUE,...",
        help="Writes a script for SLURM and submits it, for instance nodes=2,gpus=8,time=24:00:00,partition=long "
        "(default: the command runs here).",
    )
    group.add_argument("--dry", action="store_true", help="With --slurm: prints the script and submits nothing.")
