"""How much more memory this process holds than at a moment before, at its peak; Linux alone says it. Standard library.

Scripts that run without medtune and without this package import it as a file beside them.
"""

import ctypes
import gc
import re
from pathlib import Path

_OWN = Path("/proc/self")
_PEAK_FROM_NOW = "5"
"""Source: proc_pid_clear_refs(5)."""


class MemoryGrowth:
    """Begins to watch when it is made, after what is free was given back to the system."""

    def __init__(self) -> None:
        gc.collect()
        ctypes.CDLL(None).malloc_trim(0)
        (_OWN / "clear_refs").write_text(_PEAK_FROM_NOW, "ascii")
        self._held_mb = _status_mb("VmRSS")

    def peak_mb(self) -> float:
        """Returns how many MB more than at the beginning the process has held at once."""
        return _status_mb("VmHWM") - self._held_mb


def _status_mb(name: str) -> float:
    found = re.search(rf"^{name}:\s+(\d+) kB$", (_OWN / "status").read_text("ascii"), re.MULTILINE)
    assert found is not None, f"/proc/self/status says nothing of {name}"
    return int(found[1]) * 1024 / 1e6
