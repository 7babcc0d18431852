"""Writes the script of `--slurm` and submits it.

The script is written here and not by submitit: its only function that gives the text of a script without submitting one
is private, and it names a wckey of its own, which some sites refuse. Run as a function of submitit, a training would
also be stopped by its handlers of signals, in the middle of a step.

Source: https://slurm.schedmd.com/sbatch.html
"""

import difflib
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from medtune.data.plugins import plugin_arguments
from medtune.trainer.launch.claim import LAUNCH, refuse_used

OPTIONS = (
    "account",
    "begin",
    "comment",
    "constraint",
    "cpus-per-task",
    "dependency",
    "exclude",
    "exclusive",
    "gres",
    "job-name",
    "licenses",
    "mail-type",
    "mail-user",
    "mem",
    "mem-per-cpu",
    "mem-per-gpu",
    "nice",
    "nodelist",
    "partition",
    "qos",
    "reservation",
    "time",
    "tmp",
    "wckey",
)
"""The options of sbatch that --slurm passes on."""
_OWN = ("nodes", "gpus", "devices", "warn")
WARNING_S = 120
"""The time in seconds before the end of the time limit at which SLURM warns a job, so that it can save."""
_TIME = re.compile(r"\d+|\d+:\d\d(:\d\d)?|\d+-\d+(:\d\d){0,2}")


@dataclass(frozen=True)
class Asked:
    """What --slurm asks for.

    Attributes:
        nodes: The number of machines.
        devices: The number of processes on each machine; None leaves it to the recipe.
        gpus: The number of GPUs on each machine; None asks for none.
        warning_s: Seconds before the time limit at which the run saves and is queued again.
        options: Further options of sbatch, with their values.
    """

    nodes: int
    devices: int | None
    gpus: int | None
    warning_s: int
    options: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class SlurmJob:
    """A job that runs a medtune command.

    Attributes:
        asked: What --slurm asks for.
        recipe_name: The recipe's name, after which the job is named.
        out: The run folder.
        arguments: The arguments of the command, with --slurm.
        names_out: Whether the arguments hold --out.
    """

    asked: Asked
    recipe_name: str
    out: Path
    arguments: Sequence[str]
    names_out: bool


def slurm_job(text: str, *, nodes: int, devices: int | None) -> Asked:
    """Reads KEY=VALUE,... of --slurm.

    Args:
        text: The argument.
        nodes: The number of machines where the text says nothing.
        devices: The argument --devices.
    """
    found: dict[str, str] = {}
    key = ""
    for part in text.split(","):
        name, equals, value = part.partition("=")
        if not equals and key and part:
            # A list, such as nodelist=gpu01,gpu02.
            found[key] += f",{part}"
            continue
        key = name.strip().replace("_", "-")
        _check_key(key, equals, text)
        if key in found:
            raise ValueError(f"--slurm: {key} is given twice in {text!r}")
        found[key] = value.strip()
    if "time" not in found or not _TIME.fullmatch(found["time"]):
        raise ValueError(
            f"--slurm: time is {found.get('time')!r}; wanted for instance time=24:00:00 or time=2-12:00:00"
        )
    gpus = _number(found, "gpus")
    per_node = _number(found, "devices") or gpus
    if None not in (per_node, devices) and per_node != devices:
        raise ValueError(f"--slurm asks for {per_node} devices on each machine and --devices is {devices}; give one")
    return Asked(
        nodes=_number(found, "nodes") or nodes,
        devices=per_node or devices,
        gpus=gpus,
        warning_s=_number(found, "warn") or WARNING_S,
        options={name: value for name, value in found.items() if name not in _OWN},
    )


def _check_key(key: str, equals: str, text: str) -> None:
    if key in (*_OWN, *OPTIONS) and (equals or key == "exclusive"):
        return
    if not equals:
        raise ValueError(f"--slurm: {key!r} of {text!r} has no value; wanted KEY=VALUE,KEY=VALUE")
    close = difflib.get_close_matches(key, [*_OWN, *OPTIONS], 1)
    hint = f"; did you mean {close[0]}?" if close else f"; it takes {', '.join([*_OWN, *OPTIONS])}"
    raise ValueError(f"--slurm: there is no key {key!r}{hint}")


def _number(found: dict[str, str], key: str) -> int | None:
    if key not in found:
        return None
    if not found[key].isdigit() or int(found[key]) < 1:
        raise ValueError(f"--slurm: {key} is {found[key]!r}; wanted a number above 0")
    return int(found[key])


def script_of(job: SlurmJob) -> str:
    """Returns the script: SLURM starts the command once on each node, and each starts the ranks of its node.

    --open-mode=append keeps the log of a job that is queued again. --kill-on-bad-exit ends the other nodes when one
    fails. The signal goes to what srun started; each launcher passes it on to its ranks.
    """
    asked, log = job.asked, (job.out / LAUNCH).resolve() / "slurm-%j.log"
    options = {
        "job-name": f"medtune-{job.recipe_name}",
        "nodes": str(asked.nodes),
        "ntasks-per-node": "1",
        **({} if asked.gpus is None else {"gpus-per-node": str(asked.gpus)}),
        "signal": f"USR2@{asked.warning_s}",
        "open-mode": "append",
        "output": str(log),
        "chdir": str(Path.cwd()),
        **asked.options,
    }
    lines = [f"#SBATCH --{key}={value}" if value else f"#SBATCH --{key}" for key, value in options.items()]
    # srun does not take --cpus-per-task over from sbatch.
    cpus = [f"--cpus-per-task={asked.options['cpus-per-task']}"] if "cpus-per-task" in asked.options else []
    start = ["srun", "--kill-on-bad-exit=1", "--ntasks-per-node=1", *cpus]
    return "\n".join(
        ["#!/bin/bash", *lines, "#SBATCH --requeue", "", shlex.join([*start, sys.executable, *_command(job)]), ""]
    )


def _command(job: SlurmJob) -> list[str]:
    kept = _without_slurm(job.arguments)
    devices = [] if job.asked.devices is None or "--devices" in kept else ["--devices", str(job.asked.devices)]
    nodes = [] if "--nodes" in kept else ["--nodes", str(job.asked.nodes)]
    out = [] if job.names_out else ["--out", str(job.out)]
    requeue = [] if "--requeue" in kept else ["--requeue"]
    return ["-m", "medtune", *plugin_arguments(), *kept, *nodes, *devices, *out, *requeue]


def _without_slurm(arguments: Sequence[str]) -> list[str]:
    kept: list[str] = []
    rest = iter(arguments)
    for each in rest:
        if each == "--slurm":
            next(rest)
        elif each != "--dry" and not each.startswith("--slurm="):
            kept.append(each)
    return kept


def submit(job: SlurmJob, *, resume: bool, dry: bool) -> int:
    """Submits the job, or prints its script, and returns the exit status.

    Args:
        job: The job.
        resume: Whether --resume was given.
        dry: Whether the script is only printed.
    """
    refuse_used(job.out, resume=resume)
    script = script_of(job)
    if dry:
        print(script, end="")
        return 0
    if shutil.which("sbatch") is None:
        raise ValueError("--slurm: there is no sbatch on the PATH of this machine; --dry prints the script")
    # SLURM opens the log before the script begins, and ends the job without a word if there is no such folder.
    folder = job.out / LAUNCH
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "job.sh"
    path.write_text(script, encoding="utf-8")
    answer = subprocess.run(["sbatch", str(path)], capture_output=True, text=True, check=False)
    if answer.returncode:
        raise ValueError(f"sbatch refused {path}: {answer.stderr.strip() or answer.stdout.strip()}")
    print(f"{answer.stdout.strip()}\nrun folder: {job.out}\nlog: {folder}/slurm-JOB.log")
    return 0
