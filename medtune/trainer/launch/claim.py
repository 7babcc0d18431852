"""Decides whether a run folder's run goes on, and notes who began it.

A job that SLURM queues again, and ranks that torchrun starts again, run the same command once more. They go on with the
run that they themselves began, and with no other.
"""

import json
import os
from pathlib import Path

from medtune.trainer.experiment.run_folder import RunFolder, write_json
from medtune.trainer.launch.slurm import job_of
from medtune.trainer.launch.stop_marker import forget_stop

LAUNCH = "launch"
"""The folder inside a run folder that launchers write into before the run begins."""


def claim(root: Path, *, resume: bool) -> bool:
    """Prepares a run folder for this command and returns whether its run goes on; one process of a run calls it.

    Args:
        root: The run folder.
        resume: Whether --resume was given.
    """
    goes_on = resume or continues(root)
    if not goes_on:
        _clear(root)
    identity = _identity()
    if identity and (not resume or RunFolder(root).recipe.is_file()):
        (root / LAUNCH).mkdir(parents=True, exist_ok=True)
        write_json(_begun(root), identity)
    forget_stop(root)
    return goes_on


def refuse_used(root: Path, *, resume: bool) -> None:
    """Refuses a run folder that holds something which this command did not begin; it writes nothing."""
    if not resume and not continues(root) and _rest(root):
        raise FileExistsError(
            f"{root} is not empty; name another folder with --out, or continue that run with --resume"
        )


def continues(root: Path) -> bool:
    """Returns whether a folder holds a run that this SLURM job, or this torchrun before a restart, began."""
    return RunFolder(root).recipe.is_file() and _is_ours(root)


def _clear(root: Path) -> None:
    refuse_used(root, resume=False)
    if root.is_dir() and _is_ours(root):
        RunFolder(root).environment.unlink(missing_ok=True)


def _rest(root: Path) -> list[str]:
    if not root.is_dir():
        return [str(root)] if root.exists() else []
    ours = {LAUNCH, *([RunFolder(root).environment.name] if _is_ours(root) else [])}
    return [each.name for each in root.iterdir() if each.name not in ours]


def _begun(root: Path) -> Path:
    return root / LAUNCH / "begun_by.json"


def _is_ours(root: Path) -> bool:
    path = _begun(root)
    began = json.loads(path.read_text("utf-8")) if path.is_file() else {}
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
