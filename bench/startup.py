"""Times the start of `medtune list recipes`, which imports only what it needs, and what commands and a run import.

The limits are CPU seconds of a new process, which other work on the machine changes less than the time on the clock.
"""

import statistics
import subprocess
import sys
from collections.abc import Sequence

from bench.measuring.measured import Limit, Measured, TwoWays, refuse_subject, timed

REPEATS = 3
TARGET = 5.0
_COMMAND = ["list", "recipes"]
_LAZY = f"from medtune.trainer.commands.cli import main; main({_COMMAND!r})"
_EAGER = f"import medtune.trainer.experiment.run, medtune.models.zoo.pocket; {_LAZY}"
_READY = "; import time; print(time.process_time())"
_PARSED = "from medtune.trainer.commands.cli import parser; parser([{!r}])"
_WITHOUT_BITSANDBYTES = "import sys; sys.modules['bitsandbytes'] = None; "
"""Measures a machine on which the optional package is not installed: peft, which adapts, imports it wherever it is."""
_RUN = "import medtune.trainer.experiment.run"
LIMITS: Sequence[tuple[str, str, float]] = (
    ("medtune --help, ready", _PARSED.format("--help"), 0.3),
    ("medtune list, ready", _PARSED.format("list"), 0.3),
    ("medtune prepare, ready", _PARSED.format("prepare"), 0.7),
    ("medtune score, ready", _PARSED.format("score"), 0.7),
    ("medtune compare, ready", _PARSED.format("compare"), 0.7),
    ("medtune power, ready", _PARSED.format("power"), 0.7),
    ("imports of a run", _RUN, 7.0),
    ("imports of a run that adapts, without bitsandbytes", f"{_WITHOUT_BITSANDBYTES}{_RUN}, peft", 7.0),
)
"""What is measured, its program, and the CPU seconds that it may take; all but those of a run are our own choice."""


def bench(subject: str | None) -> Measured:
    """Returns the medians of several starts; each start is a new process, so that no module is imported yet."""
    refuse_subject("startup", subject)
    return measured(repeats=REPEATS)


def measured(*, repeats: int, limits: Sequence[tuple[str, str, float]] = LIMITS) -> Measured:
    """Returns the medians of `repeats` starts of each program; the two ways to list recipes alternate."""
    lazy, eager = [], []
    cpu_s: dict[str, list[float]] = {program: [] for _, program, _ in limits}
    for _ in range(repeats):
        lazy.append(timed(lambda: _said(_LAZY)))
        eager.append(timed(lambda: _said(_EAGER)))
        for program, found in cpu_s.items():
            found.append(float(_said(program + _READY).split()[-1]))
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
    return Measured(
        f"a new process, the median of {repeats}",
        (ways,),
        tuple(Limit(title, statistics.median(cpu_s[program]), at_most, "s") for title, program, at_most in limits),
    )


def _said(program: str) -> str:
    command: Sequence[str] = [sys.executable, "-c", program]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout
