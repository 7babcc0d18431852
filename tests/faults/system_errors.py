"""Yields commands to which the system refuses a file in their middle: no room, a disk that fails, a folder gone."""

import builtins
import errno
import io
import os
import random
import shutil
from collections.abc import Callable, Iterator
from contextlib import redirect_stderr
from functools import partial
from pathlib import Path
from typing import Any

from medtune.trainer.commands.cli import main
from tests.faults.harness import Broken

ERRORS = ("ENOSPC", "EDQUOT", "EROFS", "EIO", "ESTALE", "EFBIG", "ENAMETOOLONG", "EISDIR", "EACCES", "EMFILE", "ENOENT")
GONE = "the folder removed"
_MOST_WRITES = 12
"""The refused file is one of the first so many that a command writes."""


def system_errors(draw: random.Random, folder: Path, *, raw: Path, prepared: Path) -> Iterator[Broken]:
    """Yields `prepare` and `eval`, each with one of the files that they write refused, or with their folder removed."""
    while True:
        out, name = folder / f"out_{draw.getrandbits(32):08x}", draw.choice((*ERRORS, GONE))
        verb = draw.choice(("prepare", "eval", "run") if name == GONE else ("prepare", "eval"))
        arguments = {
            "prepare": ["prepare", "busi", "--from", str(raw), "--out", str(out)],
            "eval": ["eval", "nano_busi_lora", "--limit", "2", "--out", str(out), "--set", f"data.root={prepared}",
                     "log.wandb=disabled", "eval.max_new_tokens=2"],
            "run": ["run", "nano_busi_lora", "--out", str(out), "--set", f"data.root={prepared}", "log.wandb=disabled",
                    "train.max_steps=2", "eval.every_steps=2", "eval.max_new_tokens=2", "eval.questions=6"],
        }[verb]  # fmt: skip
        number = draw.randrange(_MOST_WRITES)
        read = partial(_refused, arguments, out, name=name, number=number)
        yield Broken(f"{verb}: {name} at the write {number}", read)


def _refused(arguments: list[str], out: Path, *, name: str, number: int) -> None:
    """Runs a command whose file number so much, of those that it writes, is refused; a run ends with 0 or in a line."""
    left, opened = [number], io.open

    def refusing(file: Any, mode: str = "r", *rest: Any, **named: Any) -> Any:
        if isinstance(file, str | os.PathLike) and {*mode} & {*"wxa+"} and out.name in os.fspath(file):
            left[0] -= 1
            if left[0] == -1 and name == GONE:
                for place in out.parent.glob(f"*{out.name}*"):
                    shutil.rmtree(place, ignore_errors=True)
            elif left[0] == -1:
                code: int = getattr(errno, name)
                raise OSError(code, os.strerror(code), os.fspath(file))
        return opened(file, mode, *rest, **named)

    said = io.StringIO()
    status: int
    with _Replaced(refusing), redirect_stderr(said):
        status = main(arguments)
    shutil.rmtree(out, ignore_errors=True)
    if status == 0:
        return
    lines = [line for line in said.getvalue().splitlines() if line.startswith("medtune: ")]
    assert len(lines) == 1, said.getvalue()
    assert "[Errno" not in lines[0], lines[0]
    raise ValueError(lines[0])


class _Replaced:
    def __init__(self, opener: Callable[..., Any]) -> None:
        self._opener, self._before = opener, (builtins.open, io.open)

    def __enter__(self) -> None:
        builtins.open = io.open = self._opener

    def __exit__(self, *_: object) -> None:
        builtins.open, io.open = self._before
