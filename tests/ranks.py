"""Runs commands, and functions in several ranks, in processes that are forked from one that has imported everything.

A process of its own would import for 9 to 15 CPU seconds what it then uses for 2. Tests start Python anew where the
start itself is what they prove.
"""

import contextlib
import dataclasses
import functools
import multiprocessing
import os
import pickle
import signal
import socket
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from multiprocessing import forkserver
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any, Literal

ROOT = Path(__file__).resolve().parents[1]
_PRELOADED = ["tests.preloaded"]
_SAID = "MEDTUNE_TESTS_SAID"
"""The variable with the file that a forked command prints into, and its ranks too."""
_server: Any = vars(forkserver)["_forkserver"]


@functools.cache
def start_server() -> None:
    """Starts the server process anew: `medtune prepare -j` in this process may have started one without torch."""
    if not isinstance(_server.ensure_running, _Shared):
        _server._stop()
        forkserver.set_forkserver_preload(_PRELOADED)
        # The server finds `tests` in its working directory.
        with contextlib.chdir(ROOT):
            forkserver.ensure_running()


class _Shared:
    """Takes the place of `ensure_running` in a forked process, which forks its own from the server that forked it."""

    def __init__(self, address: str) -> None:
        _server._forkserver_address = address

    def __call__(self) -> None:
        """Does nothing: the server runs as long as the process that runs the tests."""


class Forked:
    """A command of medtune or torchrun in a process of its own, with a session and a process group of its own.

    Attributes:
        pid: The number of the process and of its group.
        returncode: As in subprocess.Popen: None while it runs, and minus the signal that killed it.
    """

    def __init__(
        self,
        arguments: Sequence[str],
        *,
        folder: Path | None = None,
        environment: Mapping[str, str] | None = None,
        program: Literal["medtune", "torchrun"] = "medtune",
        constants: Mapping[tuple[str, str], float] | None = None,
    ) -> None:
        """Starts `PROGRAM ARGUMENTS` in a folder (None: this process's) with further variables of the environment.

        Args:
            constants: Numbers in the place of those of modules, by the module and the name, such as shorter waits.
        """
        start_server()
        with tempfile.NamedTemporaryFile(prefix="medtune-said-", delete=False) as said:
            self._said = Path(said.name)
        where = str(folder or Path.cwd())
        work = (program, list(arguments), where, {**os.environ, **(environment or {})}, str(self._said), _address())
        changed = dict(constants or {})
        self._process = multiprocessing.get_context("forkserver").Process(target=_command, args=(*work, changed))
        self._process.start()
        assert self._process.pid is not None
        self.pid: int = self._process.pid

    @property
    def returncode(self) -> int | None:
        return self._process.exitcode

    def poll(self) -> int | None:
        """Returns the exit status, or None while the process runs."""
        return self._process.exitcode

    def communicate(self, timeout: float) -> tuple[str, None]:
        """Waits for the end and returns all that was printed, once; raises TimeoutExpired after `timeout` seconds."""
        self._process.join(timeout)
        if self._process.exitcode is None:
            raise subprocess.TimeoutExpired("medtune", timeout, self._said.read_bytes()[-3000:])
        text = self._said.read_text("utf-8", errors="replace")
        for each in self._said.parent.glob(f"{self._said.name}*"):
            each.unlink()
        return text, None

    def ranks(self) -> dict[int, int]:
        """Returns the ranks that the command has started, with the numbers of their processes."""
        return {
            int(file.suffix[1:]): int(file.read_text("ascii"))
            for file in self._said.parent.glob(f"{self._said.name}.*")
        }


def medtune_forked(
    *arguments: str, folder: Path | None = None, environment: Mapping[str, str] | None = None, timeout_s: float = 500
) -> str:
    """Returns what `medtune ARGUMENTS` prints in a process of its own, which has to succeed."""
    process = Forked(arguments, folder=folder, environment=environment)
    said, _ = process.communicate(timeout_s)
    assert process.returncode == 0, said[-3000:]
    return said


def _address() -> str:
    address: str = _server._forkserver_address
    return address


def _command(
    program: str, arguments: list[str], folder: str, environment: dict[str, str], said: str, address: str,
    constants: Mapping[tuple[str, str], float],
) -> None:  # fmt: skip
    os.setsid()
    signal.signal(signal.SIGINT, signal.default_int_handler)
    _print_into(said)
    os.environ.clear()
    os.environ.update({"OMP_NUM_THREADS": "1", **environment, _SAID: said})
    os.chdir(folder)
    _server.ensure_running = _Shared(address)
    import torch
    from torch.distributed import run as torchrun

    torch.set_num_threads(1)
    from medtune.trainer.commands.cli import main
    from medtune.trainer.launch import agent

    for each in (agent, torchrun):
        vars(each)["elastic_launch"] = ForkedLaunch
    for (module, name), number in constants.items():
        assert name in vars(sys.modules[module])
        vars(sys.modules[module])[name] = number
    status = main(arguments) if program == "medtune" else torchrun.main(arguments)
    sys.stdout.flush()
    sys.stderr.flush()
    sys.exit(status)


class ForkedLaunch:
    """Takes the place of torch's `elastic_launch`: the agent is the real one, and its ranks are forked."""

    def __init__(self, config: Any, entrypoint: str) -> None:
        from torch.distributed.launcher.api import elastic_launch

        start_server()
        self._launch = elastic_launch(dataclasses.replace(config, start_method="forkserver"), _rank_of_agent)

    def __call__(self, *words: str) -> object:
        first = words.index("-m") + 2
        assert words[first - 1] == "medtune"
        return self._launch(dict(os.environ), list(words[first:]), str(Path.cwd()))


def _print_into(file: str) -> None:
    """Makes this process print into a file, whatever the server that forked it prints into."""
    opened = os.open(file, os.O_WRONLY | os.O_APPEND)
    os.dup2(opened, 1)
    os.dup2(opened, 2)


def _rank_of_agent(environment: dict[str, str], arguments: list[str], folder: str) -> None:
    """Runs a medtune command with the variables of torchrun, which its agent has set in this process."""
    by_agent = {name: value for name, value in os.environ.items() if name in _of_agent() or "TORCHELASTIC" in name}
    os.environ.clear()
    # Its parent is the server that forked it.
    os.environ.update({**environment, **by_agent, "OMP_NUM_THREADS": "1", "MEDTUNE_LAUNCHER_PID": str(os.getppid())})
    os.chdir(folder)
    if said := environment.get(_SAID):
        _print_into(said)
        Path(f"{said}.{os.environ['RANK']}").write_text(str(os.getpid()), "ascii")
    import torch
    from lightning_utilities.core.rank_zero import rank_zero_only

    torch.set_num_threads(1)
    rank_zero_only.rank = int(os.environ["RANK"])  # type: ignore[attr-defined]
    from medtune.trainer.commands.cli import main

    if status := main(arguments):
        sys.exit(status)


def _of_agent() -> set[str]:
    return {*torchrun_environment(0, 1, 0), "GROUP_WORLD_SIZE", "ROLE_RANK", "ROLE_NAME", "ROLE_WORLD_SIZE"}


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
    start_server()
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
