"""Runs the medtune command once for each device of this machine by torchrun's agent, together with other machines.

Source: https://docs.pytorch.org/docs/stable/elastic/agent.html
"""

import contextlib
import os
import shutil
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from torch.distributed.elastic.multiprocessing import DefaultLogsSpecs, SignalException, Std
from torch.distributed.elastic.multiprocessing.errors import ChildFailedError, ProcessFailure
from torch.distributed.elastic.rendezvous import RendezvousError
from torch.distributed.launcher.api import LaunchConfig, elastic_launch

from medtune.data.plugins import plugin_arguments
from medtune.trainer.launch.marks import forget_stop, stopped_by
from medtune.trainer.launch.rank import LAUNCHER_PID
from medtune.trainer.launch.slurm import REQUEUED_AFTER, queue_again
from medtune.trainer.launch.started import Counts, Meeting
from medtune.trainer.launch.stop import INTERRUPTED, STOP_SIGNALS
from medtune.trainer.runs.run_folder import LAUNCH

FAILED = 1
SAVING_S = 150
"""The time in seconds that ranks have to save and end after a signal, before they are killed."""
OTHERS_S = 20
"""The time in seconds that the launchers of other machines have to end after the ranks of this one have stopped."""
JOIN_MINUTES = 10
"""How long the first machines wait for the others."""


def run_agent(
    arguments: Sequence[str], *, root: Path, counts: Counts, meeting: Meeting, restarts: int, requeue: bool
) -> int:
    """Runs `medtune ARGUMENTS` in one process for each device of this machine and returns the exit status.

    A signal is passed on to the ranks, which save a state and end. If a rank fails, the others are ended, here within
    30 seconds and on other machines as soon as their launchers notice; which rank failed and why is printed.

    Args:
        restarts: How often failed ranks are started again, which then go on with the run.
        requeue: Whether SLURM is asked to queue the job again after a signal that says that its time is nearly over.
    """
    if restarts and counts.nodes > 1:
        raise ValueError(
            f"--restarts is {restarts} and --nodes {counts.nodes}: after a machine was lost, ranks are not started "
            "again. Leave --restarts out, and start the command again with --resume (or use --slurm, which does)"
        )
    forget_stop(root)
    errors = root / LAUNCH / "errors"
    errors.mkdir(parents=True, exist_ok=True)
    status = FAILED

    def ended(stopped: str) -> int:
        if requeue and stopped in REQUEUED_AFTER and not counts.node_rank:
            queue_again()
        return INTERRUPTED

    try:
        waiting = _not_waiting_after_a_stop(root, ended, nodes=counts.nodes)
        with _handlers_restored(), _variables(counts.devices), waiting:
            status = _elastic(arguments, errors=errors, counts=counts, meeting=meeting, restarts=restarts)
    finally:
        if status == 0:
            shutil.rmtree(errors, ignore_errors=True)
    stopped = stopped_by(root)
    return status if stopped is None else ended(stopped)


def _elastic(arguments: Sequence[str], *, errors: Path, counts: Counts, meeting: Meeting, restarts: int) -> int:
    config = LaunchConfig(
        min_nodes=counts.nodes,
        max_nodes=counts.nodes,
        nproc_per_node=counts.devices,
        run_id=meeting.name,
        rdzv_backend="c10d",
        rdzv_endpoint=meeting.endpoint,
        rdzv_configs={
            "join_timeout": 60 * JOIN_MINUTES,
            **({} if meeting.is_host is None else {"is_host": meeting.is_host}),
        },
        max_restarts=restarts,
        monitor_interval=0.1,
        shutdown_timeout=SAVING_S,
        signals_to_handle=",".join(["SIGQUIT", *(each.name for each in STOP_SIGNALS)]),
        local_addr=meeting.local_address,
        logs_specs=DefaultLogsSpecs(log_dir=str(errors), redirects=Std.NONE, tee=Std.NONE),
    )
    try:
        elastic_launch(config, sys.executable)("-m", "medtune", *plugin_arguments(), *arguments)
    except ChildFailedError as error:
        rank, failure = error.get_first_failure()
        print(f"medtune: rank {rank} ended the run: {_why(failure)}", file=sys.stderr)
        return FAILED
    except SignalException as error:
        # Whether or not the ranks came so far as to leave a note, the command was stopped and did not fail.
        print(f"medtune: stopped by {error.sigval.name}; --resume goes on with what was saved", file=sys.stderr)
        return INTERRUPTED
    except RendezvousError as error:
        raise ValueError(
            f"{counts.nodes} machines were to meet at {meeting.endpoint} and did not within {JOIN_MINUTES} minutes, or "
            f"one of them is lost ({type(error).__name__}: {error}). Start the same command on each, with the same "
            "--nodes and --rendezvous"
        ) from error
    return 0


def _why(failure: ProcessFailure) -> str:
    if failure.exitcode < 0:
        name = signal.Signals(-failure.exitcode).name
        memory = "; the machine may have run out of memory" if name == "SIGKILL" else ""
        return f"it was killed by {name}{memory}"
    # `record` writes the error and its traceback; without it the message is a sentence of torchrun's.
    recorded: object = failure.message
    message = str(recorded["message"] if isinstance(recorded, dict) else recorded).strip()
    return message or f"exit status {failure.exitcode}"


@contextlib.contextmanager
def _not_waiting_after_a_stop(root: Path, ended: Callable[[str], int], *, nodes: int) -> Iterator[None]:
    """Ends this process inside the block when its ranks have stopped on request and the other machines do not end.

    The agent would wait five minutes for theirs, which a lost machine never tells it of; it hears no signal meanwhile.
    """
    done = threading.Event()

    def watch() -> None:
        idle_s = 0
        while idle_s < OTHERS_S and not done.wait(1):
            idle_s = idle_s + 1 if stopped_by(root) and not _has_children() else 0
        if not done.is_set() and (stopped := stopped_by(root)):
            print(f"medtune: stopped by {stopped}; another machine is lost", file=sys.stderr, flush=True)
            os._exit(ended(stopped))

    if nodes > 1:
        threading.Thread(target=watch, name="after a stop", daemon=True).start()
    try:
        yield
    finally:
        done.set()


def _has_children() -> bool:
    path = Path(f"/proc/{os.getpid()}/task/{os.getpid()}/children")
    return not path.is_file() or bool(path.read_text())


@contextlib.contextmanager
def _handlers_restored() -> Iterator[None]:
    before = {number: signal.getsignal(number) for number in (*STOP_SIGNALS, signal.SIGQUIT)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextlib.contextmanager
def _variables(devices: int) -> Iterator[None]:
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    mine = {"OMP_NUM_THREADS": os.environ.get("OMP_NUM_THREADS", str(max(1, cores // devices)))}
    mine[LAUNCHER_PID] = str(os.getpid())
    before = {name: os.environ.get(name) for name in mine}
    os.environ.update(mine)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
