"""The note in a run folder that the run was stopped on request.

Ranks that stopped on request end with status 0, because torchrun takes every other status for a failure and would start
them again. The note tells their launcher that the work is not done.
"""

import json
import signal
from pathlib import Path

from medtune.eval.predictions.files import replace_file

REQUEUED_AFTER = ("SIGUSR1", "SIGUSR2")
"""The signals of `sbatch --signal`, which say that the time is nearly over; SIGTERM comes from scancel too."""


def marker(root: Path) -> Path:
    """Returns the path of the file that says that the run in a folder was stopped on request."""
    return root / "launch" / "stopped.json"


def mark_stopped(root: Path, number: int) -> None:
    """Notes in a run folder that the run was stopped on request; its launcher then does not take that for the end."""
    path = marker(root)
    path.parent.mkdir(parents=True, exist_ok=True)
    replace_file(path, [json.dumps({"signal": signal.Signals(number).name}).encode()])


def stopped_by(root: Path) -> str | None:
    """Returns the name of the signal after which the run in a folder stopped; None if it did not stop on request."""
    path = marker(root)
    return str(json.loads(path.read_text("utf-8"))["signal"]) if path.is_file() else None


def forget_stop(root: Path) -> None:
    """Removes the note of an earlier stop when the run goes on."""
    marker(root).unlink(missing_ok=True)
