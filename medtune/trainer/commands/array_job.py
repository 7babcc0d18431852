"""Submits the preparation of a folder as an array job of shares, and a job behind it that writes the folder.

Source: https://slurm.schedmd.com/job_array.html and https://slurm.schedmd.com/sbatch.html
"""

import argparse
import shlex
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Literal, NamedTuple

from medtune.data.plugins import plugin_arguments
from medtune.data.prepared.work.work_folder import Share, work_path
from medtune.trainer.launch.slurm import OPTIONS
from medtune.trainer.recipe.read import read_recipe
from medtune.trainer.recipe.schema import Recipe

_OWN = ("--slurm-array", "--slurm")


class Jobs(NamedTuple):
    """What the two jobs are called, and when the second begins: after all shares ended well, or after all ended."""

    work: str
    last: str
    after: Literal["afterok", "afterany"]


PREPARING = Jobs("prepare", "collect", "afterok")


def submit_array(
    arguments: Sequence[str], *, out: Path, shares: int, slurm: str, dry: bool, jobs: Jobs = PREPARING
) -> int:
    """Submits the two jobs, or prints their scripts, and returns the exit status; `slurm` is KEY=VALUE,..."""
    logs = work_path(out).with_name(f"{out.name}.slurm")
    options, command = _options(slurm), _command(arguments)
    array = {"job-name": f"medtune-{jobs.work}-{out.name}", "array": f"1-{shares}", "output": f"{logs}/share-%a.log"}
    last = {"job-name": f"medtune-{jobs.last}-{out.name}", "output": f"{logs}/{jobs.last}.log"}
    share = f'{command} --share "$SLURM_ARRAY_TASK_ID/{shares}"'
    scripts = [_script({**array, **options}, share), _script({**last, **options}, command)]
    if dry:
        print("\n".join(scripts), end="")
        return 0
    if shutil.which("sbatch") is None:
        raise ValueError(
            "--slurm-array: there is no sbatch on the PATH of this machine; --dry prints the scripts, and --share K/N "
            "does a share by hand"
        )
    logs.mkdir(parents=True, exist_ok=True)
    paths = [logs / "share.sh", logs / f"{jobs.last}.sh"]
    for path, script in zip(paths, scripts, strict=True):
        path.write_text(script, encoding="utf-8")
    first = _sbatch([str(paths[0])])
    behind = _sbatch([f"--dependency={jobs.after}:{first}", str(paths[1])])
    print(f"submitted {shares} shares as job {first} and the last step as job {behind}\nlogs: {logs}")
    return 0


def _options(slurm: str) -> dict[str, str]:
    found = {}
    for part in slurm.split(",") if slurm else ():
        name, equals, value = part.partition("=")
        key = name.strip().replace("_", "-")
        if key not in OPTIONS or not equals or not value:
            raise ValueError(f"--slurm: {part!r}: wanted KEY=VALUE with a key among {', '.join(OPTIONS)}")
        found[key] = value.strip()
    return found


def _command(arguments: Sequence[str]) -> str:
    kept: list[str] = []
    rest = iter(arguments)
    for each in rest:
        name, equals, _ = each.partition("=")
        # argparse takes abbreviations. A job with one of these would submit the array again, without end.
        if name.startswith("--s") and any(own.startswith(name) for own in _OWN):
            if not equals:
                next(rest)
        elif not (name.startswith("--d") and "--dry".startswith(name)):
            kept.append(each)
    return shlex.join([sys.executable, "-m", "medtune", *plugin_arguments(), *kept])


def _script(options: dict[str, str], command: str) -> str:
    lines = [f"#SBATCH --{key}={shlex.quote(value)}" for key, value in {"chdir": str(Path.cwd()), **options}.items()]
    return "\n".join(["#!/bin/bash", *lines, "#SBATCH --requeue", "", command, ""])


def _sbatch(arguments: list[str]) -> str:
    answer = subprocess.run(["sbatch", "--parsable", *arguments], capture_output=True, text=True, check=False)
    if answer.returncode:
        raise ValueError(f"sbatch refused {arguments[-1]}: {answer.stderr.strip() or answer.stdout.strip()}")
    return answer.stdout.strip().split(";")[0]


JOBS = Jobs("cache", "check", "afterany")
WHOLE = Share(1, 1)


def fill_cache(options: argparse.Namespace, arguments: Sequence[str], *, processes: int) -> int:
    """Fills the cache, or submits jobs that do, and returns 0 if every volume is there and 1 if scans are broken."""
    recipe = read_recipe(options.cache, options.overrides)
    if not recipe.data.cache:
        raise ValueError("data.cache is false in this recipe, so that its runs keep no volumes: --set data.cache=true")
    if options.slurm_array is not None:
        return submit_array(
            arguments,
            out=recipe.data.root,
            shares=options.slurm_array,
            slurm=options.slurm or "",
            dry=options.dry,
            jobs=JOBS,
        )
    return _fill(recipe, share=options.share or WHOLE, processes=processes)


def _fill(recipe: Recipe, *, share: Share, processes: int) -> int:
    # Imported here, because it loads torch, which preparing does not need.
    from medtune.trainer.volume_cache import fill, wanted

    found = wanted(recipe)
    if found is None:
        raise ValueError(f"model.name {recipe.model.shown_name} keeps no volumes: the cache is for models over volumes")
    if not found.scans:
        raise ValueError(f"{recipe.data.root} holds no volumes for this recipe: there is nothing to keep")
    done = fill(recipe, found, processes=processes, share=share, say=lambda text: print(text, flush=True))
    part = "" if share.of == 1 else f"share {share.number}/{share.of}: "
    print(f"{part}{done.made} volumes were written, {done.there} were there, {len(done.broken)} could not be made")
    # A scan has an entry for each organ that is asked about.
    for path, why in dict.fromkeys(done.broken):
        print(f"  {path}: {why}")
    return 1 if done.broken else 0
