"""What a process does as one rank of a run: it joins the others, ends with its launcher and tells its errors."""

import contextlib
import ctypes
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lightning.fabric.utilities.rank_zero as lightning_ranks
import torch
import torch.distributed as dist
from torch.distributed.elastic.multiprocessing.errors import record

from medtune.trainer.devices.ranks import (
    ask_all_to_stop,
    barrier,
    device_of_rank,
    join_ranks,
    prefer_one_order,
    stop_heard,
    told_by_first,
)
from medtune.trainer.launch.held import held
from medtune.trainer.launch.marks import claim, mark_stopped, stopped_by
from medtune.trainer.launch.slurm import REQUEUED_AFTER, queue_again
from medtune.trainer.launch.started import Started, address_of, how_started
from medtune.trainer.launch.stop import INTERRUPTED, Stopped, listening, note_stop
from medtune.trainer.recipe.schema import TrainBlock
from medtune.trainer.runs.run_folder import RunFolder

LAUNCHER_PID = "MEDTUNE_LAUNCHER_PID"
"""The variable in which medtune's launcher gives its ranks its process id."""
ALONE_S = 45
"""The time in seconds that a rank has to save and end after its launcher was killed."""
_PARENT_DEATH_SIGNAL = 1
"""Source: PR_SET_PDEATHSIG in linux/prctl.h."""

SEEN_WITHIN_S = 60
"""How long a shared file system may take to show a new file on another machine."""


def join(train: TrainBlock, started: Started | None = None) -> tuple[Started, torch.device]:
    """Joins this process to the others of its run; returns how it was started and its device; it may be repeated."""
    started = started or how_started()
    if started.world_size != train.world_size:
        raise ValueError(
            f"the launcher started {started.world_size} processes, train.nodes is {train.nodes} and train.devices "
            f"{train.devices}; make them equal"
        )
    if started.how == "srun":
        _tell_torch(started)
    # Lightning guesses it from variables when it is imported; its loggers write on rank 0 alone.
    guessing: Any = lightning_ranks.rank_zero_only
    guessing.rank = started.rank
    device = device_of_rank(started.local_rank)
    prefer_one_order(device, wanted=train.deterministic)
    join_ranks(started.world_size, device, timeout_minutes=train.timeout_minutes, divides_weights=train.divides_weights)
    return started, device


def _tell_torch(started: Started) -> None:
    address = address_of(os.environ)
    if address is None:
        raise ValueError("srun started several tasks and neither SLURM_JOB_NODELIST nor MASTER_ADDR is set; set one")
    os.environ.update(
        RANK=str(started.rank),
        LOCAL_RANK=str(started.local_rank),
        WORLD_SIZE=str(started.world_size),
        LOCAL_WORLD_SIZE=str(started.local_world_size),
        GROUP_RANK=str(started.node_rank),
        MASTER_ADDR=address[0],
        MASTER_PORT=str(address[1]),
    )


def run_rank(work: Callable[[], int], started: Started, *, root: Callable[[], Path | None], requeue: bool) -> int:
    """Does this process's part of a run and returns its exit status; `stop_signals` has to be around it.

    Under torchrun, a rank that stopped on request ends with status 0 and a note in the run folder; otherwise with 130.

    Args:
        requeue: Whether SLURM is asked to queue the job again after a signal that says that its time is nearly over.
    """
    under_torchrun = started.how == "torchrun"

    def stoppable() -> int:
        try:
            if under_torchrun:
                end_with_launcher()
            status = work()
            if status == INTERRUPTED and not under_torchrun:
                _end_together(started, root(), requeue=requeue)
        except Stopped as stop:
            _stopped_here(stop, started, root())
            if stop.together and not under_torchrun:
                _end_together(started, root(), requeue=requeue)
            return INTERRUPTED
        except Exception:
            # After a rank was stopped outside of a collective, the others fail in their next one.
            if number := _heard(root()):
                note_stop(number)
                return INTERRUPTED
            raise
        return status

    status = record(stoppable)() if "TORCHELASTIC_ERROR_FILE" in os.environ else stoppable()
    # Before this rank has joined, the others wait for it; only a failure makes torchrun end them.
    if status == INTERRUPTED and under_torchrun and dist.is_initialized():
        return 0
    return status or 0


def _heard(root: Path | None) -> int:
    """Returns the signal that asked another rank to stop; 0 if none did.

    The note in the run folder is looked at first: without a launcher, what rank 0 told the others ends with rank 0.
    """
    noted = None if root is None else stopped_by(root)
    return stop_heard() if noted is None else signal.Signals[noted].value


def _stopped_here(stop: Stopped, started: Started, root: Path | None) -> None:
    ask_all_to_stop(stop.number)
    has_folder = root is not None and root.is_dir()
    if root is not None and has_folder:
        mark_stopped(root, stop.number)
    if started.rank == 0:
        where = f"; continue with --resume --out {root}" if has_folder else ""
        print(f"\nstopped by {signal.Signals(stop.number).name}{where}", file=sys.stderr)


def _end_together(started: Started, root: Path | None, *, requeue: bool) -> None:
    with listening():
        if requeue and started.rank == 0 and root is not None and stopped_by(root) in REQUEUED_AFTER:
            queue_again()
        with contextlib.suppress(RuntimeError):
            barrier()


def end_with_launcher() -> None:
    """Lets this process save and end when the process that started it was killed, and kills it if it does neither."""
    parent = os.getppid()
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PARENT_DEATH_SIGNAL, signal.SIGTERM)
    if parent != int(os.environ.get(LAUNCHER_PID, parent)):
        raise Stopped(signal.SIGTERM)
    threading.Thread(target=_watch, args=(parent,), name="launcher watch", daemon=True).start()


def _watch(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(1)
    time.sleep(ALONE_S)
    os.kill(os.getpid(), signal.SIGKILL)


def one_folder(
    mine: Path, train: TrainBlock, *, resume: bool, is_named: bool, holding: contextlib.ExitStack
) -> tuple[Path, bool]:
    """Returns the run folder of rank 0 for every rank, and whether its run goes on.

    Rank 0 holds the folder until `holding` is closed.
    """
    if not is_named and int(os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")) > 0:
        raise ValueError("torchrun started this run again, which needs --out: the folder whose run goes on")
    rank = dist.get_rank() if dist.is_initialized() else 0
    numbers = (train.nodes, train.devices)
    decided: tuple[Path, bool] | Exception | None = None
    if rank == 0:
        try:
            folder = holding.enter_context(held(mine))
            decided = (mine, claim(mine, resume=resume))
            if not decided[1]:
                folder.begins()
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
    return decided


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
