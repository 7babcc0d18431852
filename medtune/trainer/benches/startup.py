"""Times the start of `medtune list recipes`, which imports only what it needs, against importing everything first."""

from __future__ import annotations

import statistics
import subprocess
import sys
from collections.abc import Sequence

from medtune.trainer.benches.measuring.measured import Measured, TwoWays, refuse_subject, timed

REPEATS = 3
TARGET = 5.0
_COMMAND = ["list", "recipes"]
_LAZY = f"from medtune.trainer.commands.cli import main; main({_COMMAND!r})"
_EAGER = f"import medtune.trainer.experiment.run, medtune.models.zoo.pocket; {_LAZY}"


def bench(subject: str | None) -> Measured:
    """Returns the median times of several starts; each start is a new process, so that no module is imported yet."""
    refuse_subject("startup", subject)
    return measured(repeats=REPEATS)


def measured(*, repeats: int) -> Measured:
    """Returns the median times of `repeats` starts of each way; the two ways alternate."""
    lazy, eager = [], []
    for _ in range(repeats):
        lazy.append(timed(lambda: _said(_LAZY)))
        eager.append(timed(lambda: _said(_EAGER)))
    same = {said for said, _ in (*lazy, *eager)}
    ways = TwoWays(
        title="medtune list recipes",
        quick="what the command needs",
        plain="torch and all the rest imported first",
        quick_s=statistics.median(seconds for _, seconds in lazy),
        plain_s=statistics.median(seconds for _, seconds in eager),
        apart=len(same) - 1,
        tolerance=0,
        target=TARGET,
    )
    return Measured(f"a new process, the median of {repeats}", (ways,))


def _said(program: str) -> str:
    command: Sequence[str] = [sys.executable, "-c", program]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout
