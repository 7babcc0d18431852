"""Writes the script of `--slurm` and submits it, queues a job again, and notes who began and who stopped a run.

A job that is queued again, and ranks that torchrun starts again, run the same command once more: they go on with the
run that they themselves began, and with no other. Ranks that stopped on request end with status 0, because torchrun
takes every other status for a failure; a note in the run folder tells their launcher that the work is not done.

The script is not submitit's: its only function that gives the text of a script is private and names a wckey, which some
sites refuse; and its handlers of signals would stop a training in the middle of a step.

Source: https://slurm.schedmd.com/sbatch.html, also OUTPUT ENVIRONMENT VARIABLES, and
https://slurm.schedmd.com/scontrol.html
"""

import difflib
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from medtune.data.files import replace_file
from medtune.data.plugins import plugin_arguments
from medtune.eval.results.typed_json import read_json
from medtune.trainer.runs.run_folder import LAUNCH, RunFolder, write_json

REQUEUED_AFTER = ("SIGUSR1", "SIGUSR2")
"""The signals of `sbatch --signal`, which say that the time is nearly over; SIGTERM comes from scancel too."""

SHELLS = ("bash", "interactive")
"""The names of jobs that are a shell; srun starts `bash` in them, and what is typed there is no task of its own."""
_FIRST_PORT, _PORTS = 10_000, 20_000
"""Ports from 10,000 to 29,999 lie below those that Linux gives to connections by itself."""
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


def job_of() -> str | None:
    """Returns a name of the SLURM job of this process, which it keeps when it is queued again; None outside of a job.

    A job that is a shell has no such name: each command that is typed there is a piece of work of its own.
    """
    if "SLURM_JOB_ID" not in os.environ or os.environ.get("SLURM_JOB_NAME") in SHELLS:
        return None
    return f"{os.environ.get('SLURM_CLUSTER_NAME', 'cluster')}/{os.environ['SLURM_JOB_ID']}"


def first_host(node_list: str) -> str:
    """Returns the first name of a list of nodes as SLURM writes it, for instance "gpu[07-09,12],big1".

    It is the first line of `scontrol show hostnames`.
    """
    name = node_list.strip()
    while found := re.match(r"([^,\[]*)\[([^\]]*)\](.*)", name):
        before, ranges, rest = found.groups()
        name = f"{before}{re.split('[,-]', ranges)[0]}{rest}"
    return name.split(",")[0]


def address_of(variables: Mapping[str, str]) -> tuple[str, int] | None:
    """Returns the host and a port at which the tasks of a job can meet; None outside of a job.

    The port follows from the numbers of the job and of the step, so that two steps of one job do not meet each other.
    MASTER_ADDR and MASTER_PORT go first.
    """
    nodes = (
        variables.get("SLURM_STEP_NODELIST") or variables.get("SLURM_JOB_NODELIST") or variables.get("SLURM_NODELIST")
    )
    host = variables.get("MASTER_ADDR") or (first_host(nodes) if nodes else None)
    if host is None:
        return None
    job, step = int(variables.get("SLURM_JOB_ID", "0")), int(variables.get("SLURM_STEP_ID", "0"))
    port = variables.get("MASTER_PORT") or str(_FIRST_PORT + (job * 31 + step * 7919) % _PORTS)
    return host, int(port)


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


def claim(root: Path, *, resume: bool) -> bool:
    """Prepares a run folder for this command and returns whether its run goes on; one process of a run calls it."""
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
    if not resume and not continues(root):
        RunFolder(root).refuse_used(is_ours=_is_ours(root))


def continues(root: Path) -> bool:
    """Returns whether a folder holds a run that this SLURM job, or this torchrun before a restart, began."""
    return RunFolder(root).recipe.is_file() and _is_ours(root)


def _clear(root: Path) -> None:
    refuse_used(root, resume=False)
    RunFolder(root).environment.unlink(missing_ok=True)


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
