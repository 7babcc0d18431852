"""Makes the runs of a series one after another, or as an array job of SLURM, and pools them afterwards."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from medtune.trainer.commands.arguments import ACCEPT_CHANGED_DATA
from medtune.trainer.launch.slurm import SlurmArray, submit_array
from medtune.trainer.launch.started import how_started
from medtune.trainer.runs.run_folder import RunFolder

Start = Callable[[Sequence[str]], int]
"""Carries out a command in this process, from its arguments, and returns the exit status."""


@dataclass(frozen=True, slots=True)
class PlannedRun:
    title: str  # What the run is in the series, in words.
    folder: Path
    settings: tuple[str, ...]  # KEY=VALUE of each value that replaces one of the recipe.


@dataclass(frozen=True, slots=True)
class Series:
    named_by: str  # What asks for the series, for messages.
    runs: tuple[PlannedRun, ...]
    pool: Callable[[], str]  # Writes what the finished runs have in common, and returns it as text.


def run_series(start: Start, arguments: Sequence[str], series: Series, *, resume: bool) -> int:
    """Makes the runs, pools them, prints that and returns the exit status; one that fails ends the series with its own.

    Args:
        arguments: Those of each run, without --out and its settings.
        resume: Whether finished runs are kept and an unfinished one is continued.
    """
    refuse_launchers(series.named_by)
    for planned in series.runs:
        print(f"\n{planned.title}", flush=True)
        if status := run_unfinished(start, arguments, planned, resume=resume):
            return status
    print(f"\n{series.pool()}")
    return 0


def run_unfinished(start: Start, arguments: Sequence[str], planned: PlannedRun, *, resume: bool) -> int:
    """Makes one run, or continues it, unless it is finished and may be kept; returns the exit status."""
    if resume and RunFolder(planned.folder).results.is_file():
        return 0
    return start(arguments_of(arguments, planned, resume=resume))


def submit_series(
    arguments: Sequence[str], series: Series, *, command: Sequence[str], out: Path, slurm: str, dry: bool
) -> int:
    """Submits an array job with a task for each run, and a job behind it that pools them; returns the exit status.

    Args:
        command: The arguments of the whole series, with --out; the last job carries it out with --resume.
    """
    refuse_launchers(series.named_by)
    resume = "--resume" in command
    runs = tuple(tuple(arguments_of(arguments, planned, resume=resume)) for planned in series.runs)
    return submit_array(SlurmArray(slurm, out, runs, tuple(command)), dry=dry)


def arguments_of(arguments: Sequence[str], planned: PlannedRun, *, resume: bool) -> list[str]:
    """Returns the arguments of one run; with `resume`, one that was begun is continued."""
    again = ["--resume"] if resume and RunFolder(planned.folder).recipe.is_file() else []
    mine = [each for each in arguments if again or each != ACCEPT_CHANGED_DATA]
    settings = ["--set", *planned.settings] if planned.settings else []
    return [*mine, "--out", str(planned.folder), *settings, *again]


def refuse_launchers(what: str) -> None:
    """Refuses torchrun and srun with several tasks, each of which would make the whole series."""
    if how_started().how != "alone":
        raise ValueError(
            f"{what} starts its own processes; leave torchrun and srun with several tasks out and set train.devices"
        )
