"""Starts the medtune command once for each device of this machine, as torchrun would."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from types import FrameType

from medtune.data.plugins import plugin_arguments

INTERRUPTED = 130
"""Exit status after Ctrl-C. Source: 128 + SIGINT, the convention of POSIX shells."""
GRACE_S = 5.0
"""The time in seconds that the other processes have to end by themselves after one has failed."""


def needs_launch(devices: int) -> bool:
    """Returns whether this process has to start one process for each device.

    Raises:
        ValueError: A launcher started another number of processes than the recipe asks for.
    """
    world_size = os.environ.get("WORLD_SIZE")
    if world_size is None:
        return devices > 1
    if int(world_size) != devices:
        raise ValueError(f"the launcher started {world_size} processes, train.devices is {devices}; make them equal")
    return False


def launch(argv: Sequence[str], *, devices: int) -> int:
    """Runs `medtune ARGV` in one process for each device and returns the exit status.

    Ctrl-C reaches all processes through the terminal, and a SIGTERM is passed on to them; each process then saves its
    state and ends. If one process fails, the others are ended, because they would wait for it forever.
    """
    threads = max(1, (os.cpu_count() or 1) // devices)
    shared = {
        # Without this setting every process would use all cores.
        "OMP_NUM_THREADS": str(threads),
        **os.environ,
        "WORLD_SIZE": str(devices),
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(_free_port()),
    }
    processes = [
        subprocess.Popen(
            [sys.executable, "-m", "medtune", *plugin_arguments(), *argv],
            env={**shared, "RANK": str(rank), "LOCAL_RANK": str(rank)},
        )
        for rank in range(devices)
    ]
    with _passing_sigterm_on(processes):
        while any(process.poll() is None for process in processes):
            try:
                time.sleep(0.1)
            except KeyboardInterrupt:
                continue
            if any(process.poll() not in (None, 0, INTERRUPTED) for process in processes):
                _end(processes)
    return next((process.returncode for process in processes if process.returncode), 0)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextlib.contextmanager
def _passing_sigterm_on(processes: Sequence[subprocess.Popen[bytes]]) -> Iterator[None]:
    def pass_on(number: int, frame: FrameType | None) -> None:
        for process in processes:
            process.send_signal(number)

    before = signal.signal(signal.SIGTERM, pass_on)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _end(processes: Sequence[subprocess.Popen[bytes]]) -> None:
    deadline = time.monotonic() + GRACE_S
    while time.monotonic() < deadline and any(process.poll() is None for process in processes):
        time.sleep(0.1)
    for process in processes:
        if process.poll() is None:
            process.kill()
            process.wait()
