"""Times the start of `medtune list recipes`, which imports only what it needs, and what other commands take in all.

The limits are CPU seconds of new processes on one thread, all of their children included, which other work on the
machine changes less than the time on the clock. What a run imports, `validate --no-weights` and a whole run of a
random, tiny model are measured with the files of Python's packages in memory, and after the system was asked to forget
them. What `import torch` alone takes is recorded beside them: on a machine that is quick or idle it is 1.8 s.
"""

import os
import statistics
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

import medtune
from bench.measuring.measured import Limit, Measured, TwoWays, refuse_subject, timed
from bench.measuring.subjects import first_simulated
from medtune.benchmarks import find_source
from medtune.data.prepared.write import prepare

REPEATS = 3
TARGET = 5.0
STEPS = 20
PATIENTS = 24
RECIPE = "nano_busi_lora"
_COMMAND = ["list", "recipes"]
_LAZY = f"from medtune.trainer.commands.cli import main; main({_COMMAND!r})"
_EAGER = f"import medtune.trainer.experiment.run, medtune.models.zoo.pocket; {_LAZY}"
_PARSED = "from medtune.trainer.commands.cli import parser; parser([{!r}])"
_RUN = (
    "from medtune.trainer.launch.imports import importing_for_good\n"
    "with importing_for_good():\n"
    "    import medtune.trainer.commands.start, medtune.trainer.experiment.run\n"
    "from medtune.trainer.launch.end import end\n"
    "end(0)"
)
"""A run's imports, as the command makes them and ends after them."""
LIMITS: Sequence[tuple[str, str, float]] = (
    ("medtune --help, ready", _PARSED.format("--help"), 0.3),
    ("medtune list, ready", _PARSED.format("list"), 0.3),
    ("medtune prepare, ready", _PARSED.format("prepare"), 0.7),
    ("medtune score, ready", _PARSED.format("score"), 0.7),
    ("medtune compare, ready", _PARSED.format("compare"), 0.7),
    ("medtune power, ready", _PARSED.format("power"), 0.7),
)
"""What is measured, its program, and the CPU seconds that it may take (our own choice)."""
MEASURES = (
    "constraints.txt", "medtune/trainer/commands/cli.py", "medtune/trainer/commands/start.py",
    "medtune/trainer/commands/validate.py", "medtune/trainer/experiment/run.py", "medtune/trainer/launch/end.py",
    "medtune/trainer/launch/imports.py",
)  # fmt: skip
"""What a start goes through, beside the modules that are imported here."""
_EXTRAS = ("bitsandbytes", "matplotlib")
"""What a run imports where an extra has installed it."""
IMPORTS_S, VALIDATE_S, RUN_S = 5.9, 8.0, 12.0
_FORGOTTEN = ", files not in memory"
_ONE_THREAD = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}


def bench(subject: str | None) -> Measured:
    """Returns the medians of several starts; each start is a new process, so that no module is imported yet."""
    refuse_subject("startup", subject)
    return measured(repeats=REPEATS)


def measured(
    *, repeats: int, limits: Sequence[tuple[str, str, float]] = LIMITS, whole: bool = True, steps: int = STEPS
) -> Measured:
    """Returns the medians of `repeats` starts of each program; the two ways to list recipes alternate.

    Args:
        whole: Whether whole commands are measured too, with the packages' files in memory and without.
    """
    lazy, eager = [], []
    programs = [(title, [sys.executable, "-c", program], at_most) for title, program, at_most in limits]
    with tempfile.TemporaryDirectory() as folder:
        if whole:
            programs += _whole_commands(Path(folder), steps=steps)
        cpu_s: list[list[float]] = [[] for _ in programs]
        torch_s = []
        for turn in range(repeats):
            torch_s.append(cpu_seconds([sys.executable, "-c", "import torch"]))
            lazy.append(timed(lambda: _said(_LAZY)))
            eager.append(timed(lambda: _said(_EAGER)))
            for (title, command, _), found in zip(programs, cpu_s, strict=True):
                if not title.endswith(_FORGOTTEN):
                    found.append(cpu_seconds(command))
                elif turn == 0:
                    forget_files()
                    found.append(cpu_seconds(command))
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
        f"a new process, the median of {repeats}, once without files in memory; "
        f"{'with' if has_bytecode() else 'WITHOUT'} compiled packages; of the extras that a run imports "
        f"{' and '.join(filter(find_spec, _EXTRAS)) or 'none'} installed; import torch alone took "
        f"{statistics.median(torch_s):.1f} CPU s",
        (ways,),
        tuple(
            Limit(title, statistics.median(found), at_most, "s")
            for (title, _, at_most), found in zip(programs, cpu_s, strict=True)
        ),
    )


def _whole_commands(folder: Path, *, steps: int) -> list[tuple[str, list[str], float]]:
    """Prepares simulated questions, and returns what is measured on them."""
    name, _, simulation = first_simulated("image")
    raw, data = folder / "raw", folder / "data"
    source = find_source(simulation.source)
    assert source.write_settings is not None
    source.write_settings(raw, PATIENTS)
    prepare(source, benchmark=name, root=raw, out=data)
    settings = ["--set", f"data.benchmark={name}", f"data.root={data}", f"train.max_steps={steps}"]
    own = [sys.executable, "-m", "medtune"]
    # Each run needs a folder of its own; the shell's process id names it.
    run = f'"$0" -m medtune run {RECIPE} --out {folder}/run-$$ "$@"'
    commands: list[tuple[str, list[str], float]] = [
        ("imports of a run", [sys.executable, "-c", _RUN], IMPORTS_S),
        (f"medtune validate --no-weights {RECIPE}", [*own, "validate", "--no-weights", RECIPE, *settings], VALIDATE_S),
        (f"medtune run {RECIPE}, {steps} steps", ["sh", "-c", run, sys.executable, *settings], RUN_S),
    ]
    return [(title + where, command, at_most) for where in ("", _FORGOTTEN) for title, command, at_most in commands]


def cpu_seconds(command: Sequence[str]) -> float:
    """Returns the CPU seconds of a command and its children, on one thread."""
    process = subprocess.Popen(
        command, env={**os.environ, **_ONE_THREAD}, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
    )
    assert process.stderr is not None
    said = process.stderr.read()
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise ValueError(f"{command} ended with status {process.returncode}: {said.decode(errors='replace')[-500:]}")
    return used.ru_utime + used.ru_stime


def forget_files() -> int:
    """Asks the system to forget the files of Python and its packages, and returns their bytes.

    It keeps those that other processes have open as programs or libraries.
    """
    size = 0
    for place in places():
        for path in place.rglob("*"):
            if path.is_file() and not path.is_symlink():
                handle = os.open(path, os.O_RDONLY)
                try:
                    size += os.fstat(handle).st_size
                    os.posix_fadvise(handle, 0, 0, os.POSIX_FADV_DONTNEED)
                finally:
                    os.close(handle)
    return size


def places() -> list[Path]:
    """Returns the folders of Python's library, of the packages and of medtune."""
    return [Path(sysconfig.get_path("stdlib")), Path(sysconfig.get_path("purelib")), Path(medtune.__file__).parent]


def has_bytecode() -> bool:
    """Returns whether the packages were compiled when they were installed, as `make setup` does."""
    import torch

    return Path(torch.__file__).parent.joinpath("__pycache__").is_dir() and not sys.dont_write_bytecode


def _said(program: str) -> str:
    command: Sequence[str] = [sys.executable, "-c", program]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout
