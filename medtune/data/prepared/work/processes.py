"""Does independent tasks in several processes; a task whose process dies costs that task and no other."""

import contextlib
import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import forkserver
from pathlib import Path
from typing import Generic, NamedTuple, TypeVar

_AHEAD = 3
"""Tasks that are handed out for each process, so that none waits for the next."""
_THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")

Task = TypeVar("Task")
Result = TypeVar("Result")


class Done(NamedTuple, Generic[Result]):
    number: int
    result: Result | None  # What it returned; None if its process died, tried alone as well.


def usable_cores() -> int:
    """Returns the number of cores that this process may use: what its machine, job and container allow."""
    try:
        cores = len(os.sched_getaffinity(0))
    except AttributeError:  # macOS
        cores = os.cpu_count() or 1
    with contextlib.suppress(OSError, ValueError):
        quota, period = Path("/sys/fs/cgroup/cpu.max").read_text("ascii").split()
        cores = min(cores, max(int(quota) // int(period), 1))
    with contextlib.suppress(KeyError, ValueError):
        cores = min(cores, max(int(os.environ["SLURM_CPUS_PER_TASK"]), 1))
    return cores


def in_processes(do: Callable[[Task], Result], tasks: Sequence[Task], *, processes: int) -> Iterator[Done[Result]]:
    """Yields the results of `do` as they come.

    The processes are forked from the server of `start_server`, which is started here if it does not run yet. When one
    dies (a crash in a decoder, or the kernel ended it because memory ran out), each task that was under way is tried
    again in a process of its own. If that dies again, the result is None.
    """
    if tasks:
        start_server([do.__module__])
    alone = list[int]()
    waiting = list(range(len(tasks) - 1, -1, -1))
    while waiting:
        under_way: dict[Future[Result], int] = {}
        with _pool(min(processes, len(waiting))) as pool:
            try:
                yield from _results(do, tasks, waiting, under_way, pool, ahead=_AHEAD * processes)
            except BrokenProcessPool:
                alone += under_way.values()
    for number in sorted(alone):
        with _pool(1) as pool:
            try:
                result = pool.submit(do, tasks[number]).result()
            except BrokenProcessPool:
                yield Done(number, None)
                continue
        yield Done(number, result)


def _results(
    do: Callable[[Task], Result],
    tasks: Sequence[Task],
    waiting: list[int],
    under_way: dict[Future[Result], int],
    pool: ProcessPoolExecutor,
    *,
    ahead: int,
) -> Iterator[Done[Result]]:
    errors: dict[int, BaseException] = {}
    while (waiting and not errors) or under_way:
        while waiting and not errors and len(under_way) < ahead:
            # It is noted first: if the pool is broken by now, `submit` raises.
            number = waiting.pop()
            try:
                under_way[pool.submit(do, tasks[number])] = number
            except BrokenProcessPool:
                waiting.append(number)
                raise
        done, _ = wait(under_way, return_when=FIRST_COMPLETED)
        for future in sorted(done, key=under_way.__getitem__):
            error = future.exception()
            if isinstance(error, BrokenProcessPool):
                raise error
            number = under_way.pop(future)
            if error is None:
                yield Done(number, future.result())
            else:
                errors[number] = error
    if errors:
        raise errors[min(errors)]


def start_server(modules: Sequence[str]) -> None:
    """Starts the process that all others are forked from and that imports what they need, and does not wait for it.

    A fork of this process would copy locks that its threads hold, and processes that are started anew would each import
    everything again, half a second of work. A server that runs already stays as it is.
    """
    multiprocessing.get_context("forkserver").set_forkserver_preload(list(modules))
    # The processes share the cores already. Libraries read the variables when they are imported.
    unset = [name for name in _THREADS if name not in os.environ]
    os.environ.update(dict.fromkeys(unset, "1"))
    try:
        forkserver.ensure_running()
    finally:
        for name in unset:
            os.environ.pop(name, None)


@contextlib.contextmanager
def _pool(processes: int) -> Iterator[ProcessPoolExecutor]:
    others = {child.pid for child in multiprocessing.active_children()}
    context = multiprocessing.get_context("forkserver")
    pool = ProcessPoolExecutor(processes, context, initializer=_begin)
    try:
        yield pool
    except BaseException:
        pool.shutdown(wait=False, cancel_futures=True)
        for child in multiprocessing.active_children():
            if child.pid not in others:
                child.terminate()
        raise
    finally:
        pool.shutdown(cancel_futures=True)


def _begin() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)
