"""Writes the script of `--slurm` and submits it, and queues a job again.

The script is not submitit's: its only function that gives the text of a script is private and names a wckey, which some
sites refuse; and its handlers of signals would stop a training in the middle of a step.

Source: https://slurm.schedmd.com/sbatch.html, also OUTPUT ENVIRONMENT VARIABLES, and
https://slurm.schedmd.com/scontrol.html
"""

import difflib
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from medtune.data.plugins import plugin_arguments
from medtune.trainer.launch.marks import refuse_used
from medtune.trainer.runs.run_folder import LAUNCH

REQUEUED_AFTER = ("SIGUSR1", "SIGUSR2")
"""The signals of `sbatch --signal`, which say that the time is nearly over; SIGTERM comes from scancel too."""

REQUEUE_TIMEOUT_S = 60
OPTIONS = (
    "account", "begin", "comment", "constraint", "cpus-per-task", "dependency", "exclude", "exclusive", "gres",
    "job-name", "licenses", "mail-type", "mail-user", "mem", "mem-per-cpu", "mem-per-gpu", "nice", "nodelist",
    "partition", "qos", "reservation", "time", "tmp", "wckey",
)  # fmt: skip
"""The options of sbatch that --slurm passes on."""
_OWN = ("nodes", "gpus", "devices", "warn")
WARNING_S = 120
"""The time in seconds before the end of the time limit at which SLURM warns a job, so that it can save."""
_TIME = re.compile(r"\d+|\d+:\d\d(:\d\d)?|\d+-\d+(:\d\d){0,2}")


def queue_again() -> None:
    """Asks SLURM once to queue this job again; says so if it does not.

    Source: `--requeue` allows it, and at its time limit SLURM does not do it by itself.
    """
    job = os.environ.get("SLURM_JOB_ID")
    if job is None:
        print("medtune: --requeue: this is no SLURM job (no SLURM_JOB_ID); continue with --resume", file=sys.stderr)
        return
    try:
        asked = subprocess.run(
            ["scontrol", "requeue", job], capture_output=True, text=True, timeout=REQUEUE_TIMEOUT_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        print(f"medtune: scontrol requeue {job}: {error}; continue with --resume", file=sys.stderr)
        return
    if asked.returncode:
        print(f"medtune: scontrol requeue {job}: {asked.stderr.strip()}; continue with --resume", file=sys.stderr)
    else:
        print(f"asked SLURM to queue job {job} again; it then continues this run", flush=True)


@dataclass(frozen=True)
class SlurmOptions:
    nodes: int
    devices: int | None  # The number of processes on each machine; None leaves it to the recipe.
    gpus: int | None  # The number of GPUs on each machine; None asks for none.
    warning_s: int  # Seconds before the time limit at which the run saves and is queued again.
    options: dict[str, str] = field(default_factory=dict)  # Further options of sbatch, with their values.


@dataclass(frozen=True)
class SlurmJob:
    """A job that runs a medtune command; `arguments` still hold --slurm, and --out where `names_out` says so."""

    asked: SlurmOptions
    recipe_name: str
    out: Path
    arguments: Sequence[str]
    names_out: bool


def slurm_job(text: str, *, nodes: int, devices: int | None) -> SlurmOptions:
    """Reads KEY=VALUE,... of --slurm.

    `nodes` counts where the text says nothing; `devices` is the argument --devices.
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
    return SlurmOptions(
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
    return _script(asked, job.recipe_name, log, {}, [shlex.join([*_srun(asked), sys.executable, *_command(job)])])


def _script(asked: SlurmOptions, name: str, log: Path, own: Mapping[str, str], commands: Sequence[str]) -> str:
    options = {
        "job-name": f"medtune-{name}",
        "nodes": str(asked.nodes),
        "ntasks-per-node": "1",
        **({} if asked.gpus is None else {"gpus-per-node": str(asked.gpus)}),
        "signal": f"USR2@{asked.warning_s}",
        "open-mode": "append",
        "output": str(log),
        "chdir": str(Path.cwd()),
        **asked.options,
        **own,
    }
    lines = [f"#SBATCH --{key}={value}" if value else f"#SBATCH --{key}" for key, value in options.items()]
    return "\n".join(["#!/bin/bash", *lines, "#SBATCH --requeue", "", *commands, ""])


def _srun(asked: SlurmOptions) -> list[str]:
    # srun does not take --cpus-per-task over from sbatch.
    cpus = [f"--cpus-per-task={asked.options['cpus-per-task']}"] if "cpus-per-task" in asked.options else []
    return ["srun", "--kill-on-bad-exit=1", "--ntasks-per-node=1", *cpus]


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


@dataclass(frozen=True)
class SlurmArray:
    """An array job with a task for each run of a series, and a job behind it that pools the runs."""

    asked: str  # KEY=VALUE,... of --slurm.
    out: Path
    runs: tuple[tuple[str, ...], ...]  # The arguments of each run.
    command: tuple[str, ...]  # The arguments of the whole series, with --out; they still hold --slurm.


def submit_array(array: SlurmArray, *, dry: bool) -> int:
    """Submits the two jobs, or prints their scripts, and returns the exit status.

    The last job begins when all runs ended well, and carries out the command of the series with --resume, which finds
    its runs finished.
    """
    scripts = array_scripts(array)
    if dry:
        print("\n".join(scripts), end="")
        return 0
    _refuse_without_sbatch()
    folder = array.out / LAUNCH
    folder.mkdir(parents=True, exist_ok=True)
    paths = [folder / "runs.sh", folder / "pool.sh"]
    for path, script in zip(paths, scripts, strict=True):
        path.write_text(script, encoding="utf-8")
    first = _sbatch("--parsable", str(paths[0])).split(";")[0]
    last = _sbatch("--parsable", f"--dependency=afterok:{first}", str(paths[1])).split(";")[0]
    print(f"submitted {len(array.runs)} runs as job {first} and their pooling as job {last}\nfolder: {array.out}")
    return 0


def array_scripts(array: SlurmArray) -> tuple[str, str]:
    """Returns the script of the runs, of which each task makes one, and the script that pools them."""
    asked = slurm_job(array.asked, nodes=1, devices=None)
    if asked.nodes != 1:
        raise ValueError(f"--slurm: nodes is {asked.nodes}; each run of a series is on one machine")
    logs, name = (array.out / LAUNCH).resolve(), array.out.name
    medtune = [sys.executable, "-m", "medtune", *plugin_arguments()]
    devices = [] if asked.devices is None else ["--devices", str(asked.devices)]
    tasks = [
        f"{number}) {shlex.join([*_srun(asked), *medtune, *_devices(run, devices), '--requeue'])} ;;"
        for number, run in enumerate(array.runs, start=1)
    ]
    choice = ['case "$SLURM_ARRAY_TASK_ID" in', *tasks, "esac"]
    runs = _script(asked, name, logs / "run-%a.log", {"array": f"1-{len(array.runs)}"}, choice)
    kept = _without_slurm(array.command)
    pooled = [*medtune, *kept, *(() if "--resume" in kept else ("--resume",))]
    alone = replace(asked, gpus=None, devices=None)
    return runs, _script(alone, f"{name}-pool", logs / "pool.log", {}, [shlex.join(pooled)])


def _devices(run: Sequence[str], devices: Sequence[str]) -> list[str]:
    return [run[0], run[1], *([] if "--devices" in run else devices), *run[2:]]


def _refuse_without_sbatch() -> None:
    if shutil.which("sbatch") is None:
        raise ValueError("--slurm: there is no sbatch on the PATH of this machine; --dry prints the script")


def _sbatch(*arguments: str) -> str:
    answer = subprocess.run(["sbatch", *arguments], capture_output=True, text=True, check=False)
    if answer.returncode:
        raise ValueError(f"sbatch refused {arguments[-1]}: {answer.stderr.strip() or answer.stdout.strip()}")
    return answer.stdout.strip()


def submit(job: SlurmJob, *, resume: bool, dry: bool) -> int:
    """Submits the job, or prints its script, and returns the exit status."""
    refuse_used(job.out, resume=resume)
    script = script_of(job)
    if dry:
        print(script, end="")
        return 0
    _refuse_without_sbatch()
    # SLURM opens the log before the script begins, and ends the job without a word if there is no such folder.
    folder = job.out / LAUNCH
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "job.sh"
    path.write_text(script, encoding="utf-8")
    print(f"{_sbatch(str(path))}\nrun folder: {job.out}\nlog: {folder}/slurm-JOB.log")
    return 0
