"""How long `medtune list recipes` takes, beside an empty Python process.

Run: python -m tests.perf.startup
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from collections.abc import Sequence

REPEATS = 7


def _median_s(command: Sequence[str]) -> float:
    times = []
    for _ in range(REPEATS):
        start = time.perf_counter()
        subprocess.run(command, check=True, capture_output=True)
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def main() -> None:
    """Prints both medians and their ratio."""
    empty_s = _median_s([sys.executable, "-c", "pass"])
    list_s = _median_s([sys.executable, "-m", "medtune", "list", "recipes"])
    print(f"medtune list recipes {list_s:.3f} s, an empty process {empty_s:.3f} s, ratio {list_s / empty_s:.1f}")


if __name__ == "__main__":
    main()
