"""Several devices: the command starts itself once per device through torchrun."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence


def needs_launch(devices: int) -> bool:
    """Returns whether this process must start one process per device.

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
    """Runs `medtune ARGV` on that many processes of this machine and returns the exit status.

    Ctrl-C reaches all of them through the terminal; they save their state and this waits for them.
    """
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={devices}"]
    # torchrun sets one thread per process when nothing is said; the cores are shared out instead.
    threads = max(1, (os.cpu_count() or 1) // devices)
    environment = {"OMP_NUM_THREADS": str(threads), **os.environ}
    process = subprocess.Popen([*command, "-m", "medtune", *argv], env=environment)
    while True:
        try:
            return process.wait()
        except KeyboardInterrupt:
            continue
