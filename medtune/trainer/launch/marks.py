"""Notes in a run's folder who began the run and who stopped it.

A job that is queued again, and ranks that torchrun starts again, run the same command once more: they go on with the
run that they themselves began, and with no other. Ranks that stopped on request end with status 0, because torchrun
takes every other status for a failure; the note tells their launcher that the work is not done.
"""

import json
import os
import signal
from pathlib import Path

from medtune.data.files import replace_file
from medtune.eval.results.typed_json import read_json
from medtune.trainer.launch.started import job_of
from medtune.trainer.runs.run_folder import LAUNCH, RunFolder, write_json


def marker(root: Path) -> Path:
    """Returns the path of the file that says that the run in a folder was stopped on request."""
    return root / LAUNCH / "stopped.json"


def mark_stopped(root: Path, number: int) -> None:
    """Notes in a run folder that the run was stopped on request; its launcher then does not take that for the end."""
    path = marker(root)
    path.parent.mkdir(parents=True, exist_ok=True)
    replace_file(path, [json.dumps({"signal": signal.Signals(number).name}).encode()])


def stopped_by(root: Path) -> str | None:
    """Returns the name of the signal after which the run in a folder stopped; None if it did not stop on request."""
    path = marker(root)
    return read_json(path, dict[str, str]).get("signal") if path.is_file() else None


def forget_stop(root: Path) -> None:
    """Removes the note of an earlier stop when the run goes on."""
    marker(root).unlink(missing_ok=True)


def claim(root: Path, *, resume: bool) -> bool:
    """Prepares a run folder for this command and returns whether its run goes on; one process of a run calls it."""
    goes_on = resume or continues(root)
    if not goes_on:
        refuse_used(root, resume=False)
        RunFolder(root).environment.unlink(missing_ok=True)
    identity = _identity()
    if identity and (not resume or RunFolder(root).recipe.is_file()):
        (root / LAUNCH).mkdir(parents=True, exist_ok=True)
        write_json(_begun(root), identity)
    forget_stop(root)
    return goes_on


def refuse_used(root: Path, *, resume: bool) -> None:
    """Refuses a run folder that holds something which this command did not begin; it writes nothing."""
    if not resume and not continues(root):
        RunFolder(root).refuse_used(is_ours=_is_ours(root))


def continues(root: Path) -> bool:
    """Returns whether a folder holds a run that this SLURM job, or this torchrun before a restart, began."""
    return RunFolder(root).recipe.is_file() and _is_ours(root)


def _begun(root: Path) -> Path:
    return root / LAUNCH / "begun_by.json"


def _is_ours(root: Path) -> bool:
    path = _begun(root)
    began = read_json(path, dict[str, str]) if path.is_file() else {}
    is_restart = int(os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")) > 0
    identity = {kind: name for kind, name in _identity().items() if kind != "torchrun" or is_restart}
    return any(began.get(kind) == name for kind, name in identity.items())


def _identity() -> dict[str, str]:
    found = {}
    if job := job_of():
        found["slurm_job"] = job
    if run_id := os.environ.get("TORCHELASTIC_RUN_ID"):
        # Many torchruns have the same run id, so the process itself is named too.
        launcher = os.getppid()
        found["torchrun"] = f"{run_id}/{os.uname().nodename}/{launcher}/{_started_at(launcher)}"
    return found


def _started_at(process: int) -> str:
    path = Path(f"/proc/{process}/stat")
    return path.read_text().rpartition(")")[2].split()[19] if path.is_file() else ""
