"""Runs a function in several processes that work together as the ranks of a run.

The processes are forked from one server process that has imported everything, so that a test with four ranks takes
seconds and not a minute.
"""

from __future__ import annotations

import functools
import multiprocessing
import os
import pickle
import socket
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from multiprocessing import forkserver
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Any

_PRELOADED = [
    "torch.distributed",
    "lightning.pytorch",
    "transformers",
    "peft",
    "medtune.trainer.experiment.run",
]


@functools.cache
def _start_server() -> None:
    """Starts the server process anew: `medtune prepare -j` in this process may have started one without torch."""
    forkserver._forkserver._stop()  # type: ignore[attr-defined]
    forkserver.set_forkserver_preload(_PRELOADED)
    forkserver.ensure_running()


def free_port() -> int:
    """Returns a port of this machine that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def torchrun_environment(rank: int, world_size: int, port: int) -> dict[str, str]:
    """Returns the variables that torchrun sets for a rank of one machine."""
    return {
        "RANK": str(rank),
        "LOCAL_RANK": str(rank),
        "WORLD_SIZE": str(world_size),
        "LOCAL_WORLD_SIZE": str(world_size),
        "GROUP_RANK": "0",
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
        "TORCHELASTIC_RUN_ID": "tests",
    }


def run_ranks(
    world_size: int,
    function: Callable[..., Any],
    *arguments: Any,
    environment: Callable[[int], Mapping[str, str]] | None = None,
    timeout_s: float = 240,
) -> list[Any]:
    """Returns what `function(rank, world_size, *arguments)` returns in each rank.

    Args:
        world_size: The number of ranks.
        function: A function of a module; it has to be found under its name, and its result has to be picklable.
        arguments: Further arguments, which have to be picklable.
        environment: Returns the environment variables of a rank; None sets those of torchrun.
        timeout_s: Seconds after which all ranks are killed.

    Raises:
        AssertionError: A rank raised an error (the message holds its traceback), died, or did not end in time.
    """
    context = multiprocessing.get_context("forkserver")
    _start_server()
    port = free_port()
    ranks: list[tuple[BaseProcess, Connection]] = []
    for rank in range(world_size):
        variables = torchrun_environment(rank, world_size, port) if environment is None else environment(rank)
        ours, theirs = context.Pipe(duplex=False)
        work = (dict(os.environ), dict(variables), function, rank, world_size, arguments)
        process: BaseProcess = context.Process(target=_work, args=(theirs, *work), daemon=True)
        process.start()
        theirs.close()
        ranks.append((process, ours))
    results: dict[int, Any] = {}
    try:
        _receive(ranks, results, deadline=time.monotonic() + timeout_s)
    finally:
        for each, pipe in ranks:
            each.join(5 if len(results) == world_size else 0)
            if each.is_alive():
                each.kill()
                each.join()
            pipe.close()
    return [results[rank] for rank in range(world_size)]


def _receive(ranks: Sequence[tuple[BaseProcess, Connection]], results: dict[int, Any], *, deadline: float) -> None:
    """Collects the results in the order in which the ranks end, so that the first error is told at once."""
    waiting = {pipe: rank for rank, (_, pipe) in enumerate(ranks)}
    while waiting:
        ready = wait(list(waiting), max(deadline - time.monotonic(), 0))
        if not ready:
            raise AssertionError(f"the ranks {sorted(waiting.values())} of {len(ranks)} did not end in time")
        for pipe in ready:
            assert isinstance(pipe, Connection)
            rank = waiting.pop(pipe)
            try:
                is_ok, result = pipe.recv()
            except EOFError as error:
                process = ranks[rank][0]
                process.join(5)
                raise AssertionError(f"rank {rank} of {len(ranks)} died with status {process.exitcode}") from error
            assert is_ok, f"rank {rank} of {len(ranks)}:\n{result}"
            results[rank] = result


def _work(
    pipe: Connection,
    inherited: dict[str, str],
    variables: dict[str, str],
    function: Callable[..., Any],
    rank: int,
    world_size: int,
    arguments: tuple[Any, ...],
) -> None:
    os.environ.clear()
    # A library may have left the variables of a launcher in the process that runs the tests.
    kept = {name: value for name, value in inherited.items() if name not in torchrun_environment(0, 1, 0)}
    os.environ.update({**kept, "OMP_NUM_THREADS": "1", **variables})
    import torch
    from lightning_utilities.core.rank_zero import rank_zero_only

    torch.set_num_threads(1)
    # Lightning read the rank when it was imported, in the process that this one was forked from.
    rank_zero_only.rank = rank  # type: ignore[attr-defined]
    try:
        answer = (True, function(rank, world_size, *arguments))
        pickle.dumps(answer)
    except BaseException:
        answer = (False, traceback.format_exc())
    pipe.send(answer)
    pipe.close()
