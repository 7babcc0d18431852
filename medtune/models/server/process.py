"""Starts servers on this machine, waits until they are healthy, and ends them with everything that they started."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from medtune.models.server import guard

POLL_S = 0.5
_LINES = 20


@dataclass(frozen=True, slots=True)
class Started:
    """A server that runs on this machine.

    Attributes:
        address: Its address, without a path.
        log: The file that its output goes to.
        process: The process that guards it.
    """

    address: str
    log: Path
    process: subprocess.Popen[bytes]

    @property
    def is_running(self) -> bool:
        """Whether the server has not ended."""
        return self.process.poll() is None

    def last_lines(self) -> str:
        """Returns the last lines of the server's output, for messages."""
        lines = self.log.read_text("utf-8", errors="replace").splitlines()[-_LINES:]
        return "\n".join(f"    {line}" for line in lines) or "    (no output)"


@contextmanager
def serving(
    command: Callable[[int], Sequence[str]],
    *,
    devices: Sequence[str | None],
    log_folder: Path,
    patience_s: float,
    say: Callable[[str], None],
) -> Iterator[list[Started]]:
    """Starts one server for each of `devices`, waits until all are healthy, and ends them when the context ends.

    Args:
        command: Returns the command of a server that listens on the given port.
        devices: The GPUs of each server, as CUDA_VISIBLE_DEVICES names them; None leaves the variable as it is.
        log_folder: Folder for the output of the servers.
        patience_s: Seconds within which a server has to be healthy.
        say: Prints a line for the user.

    Raises:
        ValueError: A server ended or was not healthy in time; the message has the last lines of its output.
    """
    log_folder.mkdir(parents=True, exist_ok=True)
    with ExitStack() as stack:
        started = [
            stack.enter_context(_guarded(command, device, log_folder / f"server_{number}.log"))
            for number, device in enumerate(devices)
        ]
        for each in started:
            say(f"server     {each.address} is starting, its output goes to {each.log}")
        begun = time.monotonic()
        for each in started:
            _wait(each, until=begun + patience_s, patience_s=patience_s)
        say(f"server     healthy after {time.monotonic() - begun:.0f} s")
        yield started


@contextmanager
def _guarded(command: Callable[[int], Sequence[str]], device: str | None, log: Path) -> Iterator[Started]:
    port = free_port()
    environment = {**os.environ} if device is None else {**os.environ, "CUDA_VISIBLE_DEVICES": device}
    # The server must not read this checkout of medtune's packages in place of its own.
    environment.pop("PYTHONPATH", None)
    with log.open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, guard.__file__, *command(port)],
            stdin=subprocess.PIPE,
            stdout=output,
            stderr=subprocess.STDOUT,
            env=environment,
            # Ctrl-C reaches the whole foreground group; the server ends when its guard says so.
            start_new_session=True,
        )
    try:
        yield Started(f"http://127.0.0.1:{port}", log, process)
    finally:
        if process.stdin is not None:
            process.stdin.close()
        process.wait(timeout=4 * guard.GRACE_S)


def free_port() -> int:
    """Returns a port on which nothing listens."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _wait(server: Started, *, until: float, patience_s: float) -> None:
    while not is_healthy(server.address):
        if not server.is_running:
            raise ValueError(
                f"the server ended with status {server.process.returncode} before it was healthy. Its last lines "
                f"({server.log}):\n{server.last_lines()}"
            )
        if time.monotonic() > until:
            raise ValueError(
                f"the server was not healthy within {patience_s:g} s; --engine-patience allows more. Its last lines "
                f"({server.log}):\n{server.last_lines()}"
            )
        time.sleep(POLL_S)


def is_healthy(address: str) -> bool:
    """Returns whether a server says that it can answer."""
    try:
        with urllib.request.urlopen(f"{address}/health", timeout=30) as said:
            return bool(said.status == 200)
    except (urllib.error.URLError, OSError):
        return False
