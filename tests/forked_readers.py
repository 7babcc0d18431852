"""Lets the proof of an export read it in a forked process, which saves 9 to 15 CPU seconds of imports.

A conftest switches it on with `from tests.forked_readers import forked_readers`, for the tests of its folder that use
the fixture. What plain transformers reads alone is proven by the tests that do not use it.
"""

import importlib
import os
import runpy
import subprocess
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace

import pytest

from medtune.models.proof import fresh_process
from tests.ranks import run_ranks


@pytest.fixture
def forked_readers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Forks both readers, `OWN` and `PLAIN`; any other command starts a process as ever."""
    monkeypatch.setattr(fresh_process, "subprocess", SimpleNamespace(run=_run))


def _run(command: Sequence[str], *, capture_output: bool, text: bool, check: bool) -> subprocess.CompletedProcess[str]:
    reader = next(
        (each for each in (fresh_process.OWN, fresh_process.PLAIN) if tuple(command[: len(each)]) == each), None
    )
    if reader is None:
        return subprocess.run(command, capture_output=capture_output, text=text, check=check)
    files = list(command[len(reader) :])
    ((status, said),) = run_ranks(1, _read, reader[1:], files, str(Path.cwd()), environment=lambda _: {})
    return subprocess.CompletedProcess(command, status, "", said)


def _read(rank: int, world_size: int, reader: Sequence[str], files: Sequence[str], folder: str) -> tuple[int, str]:
    """Runs a reader as `python READER FILES` would, and returns its status and its last words."""
    os.chdir(folder)
    try:
        if reader == fresh_process.OWN[1:]:
            importlib.import_module(reader[-1]).main(*files)
        else:
            forget_medtune()
            sys.argv = [reader[-1], *files]
            runpy.run_path(reader[-1], run_name="__main__")
    except BaseException:
        return 1, traceback.format_exc()
    return 0, ""


def forget_medtune() -> None:
    """Leaves the plain reader without medtune's modules, whose absence it checks."""
    for name in [name for name in sys.modules if name.partition(".")[0] in ("medtune", "tests")]:
        del sys.modules[name]
