"""Runs a command and ends it, with all its children, when the process that started this one is gone.

The starting process holds the other end of this process's standard input. Closing it, or dying in any way, ends the
command: first all processes of its session get SIGTERM, and after `GRACE_S` seconds SIGKILL. The module is run as a
file and imports nothing of medtune, so that it starts at once.
"""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Sequence

GRACE_S = 10.0
_TICK_S = 0.5


def run(command: Sequence[str]) -> int:
    """Runs the command until it ends or the starting process is gone, and returns its exit status."""
    parent = os.getppid()
    child = subprocess.Popen(command, stdin=subprocess.DEVNULL, start_new_session=True)
    while child.poll() is None:
        readable, _, _ = select.select([sys.stdin], [], [], _TICK_S)
        if readable or os.getppid() != parent:
            break
    end(child)
    return child.returncode


def end(child: subprocess.Popen[bytes]) -> None:
    """Ends all processes of the child's session."""
    for signal_ in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(child.pid, signal_)
        except ProcessLookupError:
            break
        until = time.monotonic() + GRACE_S
        while time.monotonic() < until and _alive(child):
            time.sleep(0.05)
    child.wait()


def _alive(child: subprocess.Popen[bytes]) -> bool:
    """Returns whether any process of the child's session is left."""
    child.poll()
    try:
        os.killpg(child.pid, 0)
    except ProcessLookupError:
        return False
    return True


if __name__ == "__main__":
    sys.exit(run(sys.argv[1:]))
