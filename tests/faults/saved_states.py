"""Yields damaged saved states: of two, the last or both with a file changed, cut, emptied, gone or exchanged."""

import random
import shutil
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import numpy as np
from safetensors.numpy import save_file

from medtune.trainer.runs.run_folder import STATE_FILE, RunFolder
from medtune.trainer.runs.saved_states import put_damaged_aside, read_sealed, sealed
from tests.faults.harness import Broken
from tests.faults.prepared_files import CHANGES, damaged_content

_STEPS = (2, 4)


def saved_states(draw: random.Random, folder: Path) -> Iterator[Broken]:
    """Yields runs that are about to go on: what is damaged has to be put aside in words, and the rest is read."""
    while True:
        run = RunFolder(folder / f"run_{draw.getrandbits(32):08x}")
        for step in _STEPS:
            state = run.state(step, validation_due=False)
            (state / "tensors").mkdir(parents=True)
            for name in ("one", "two"):
                values = np.random.default_rng(step).standard_normal(200).astype(np.float32)
                save_file({f"model.{name}": values}, state / "tensors" / f"{name}.safetensors")
            said = {"step": step, "made_with": {"strategy": "auto"}}
            (state / STATE_FILE).write_text(sealed(said, state / "tensors"))
        first, last = run.states()
        damaged = [last] if draw.random() < 0.7 else [first, last]
        changes = [_change(draw, state) for state in damaged]
        yield Broken(f"{changes} in {run.root.name}", partial(_go_on, run, damaged), "", is_certain=False)
        shutil.rmtree(run.root, ignore_errors=True)


def _change(draw: random.Random, state: Path) -> str:
    path = draw.choice(sorted(each for each in state.rglob("*") if each.is_file()))
    change = draw.choice((*CHANGES, "another file of the state"))
    if change == "another file of the state":
        tensors = state / "tensors"
        (tensors / "one.safetensors").rename(path := tensors / "other")
        (tensors / "two.safetensors").rename(tensors / "one.safetensors")
        path.rename(tensors / "two.safetensors")
        return change
    content = damaged_content(draw, path.read_bytes(), change)
    if content is None:
        path.unlink()
    else:
        path.write_bytes(content)
    return f"{change} in {path.name}"


def _go_on(run: RunFolder, damaged: list[Path]) -> None:
    told = list(put_damaged_aside(run))
    assert len(told) == len(damaged), told
    for said, state in zip(told, reversed(damaged), strict=True):
        assert str(state) in said, (said, state)
        assert "[Errno" not in said, said
    left = run.saved_state()
    assert (left is None) == (len(damaged) == len(_STEPS))
    if left is not None:
        assert read_sealed(left)["step"] == _STEPS[0]
