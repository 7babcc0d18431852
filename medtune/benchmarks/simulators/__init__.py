"""Simulators of medical images that the simulated sources of several benchmarks use, and their settings.

The settings of a simulation, the number of patients and its switches, are a small JSON file.
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TypeVar

import numpy as np

from medtune.data.catalog import nearest
from medtune.data.files import json_file

_Label = TypeVar("_Label")
_WANTED = 'an object like {"num_patients": 24}, with a whole number of at least 1'


def settings(
    root: Path | None, name: str, *, default: int, switches: tuple[str, ...] = ()
) -> tuple[int, frozenset[str]]:
    """Returns the number of patients and the switches that are on, by the settings file of that name in a folder."""
    if root is None:
        return default, frozenset()
    file = root / name
    if not file.is_file():
        raise FileNotFoundError(f"{file}: there is no such file. Write it, or give no folder: the default then holds.")
    stated = json_file(file, dict, _WANTED, todo="Correct it.")
    known = ["num_patients", *switches]
    for name in stated:
        if name not in known:
            raise ValueError(f"{file}: unknown setting {name!r}.{nearest(name, known)} Wanted {_WANTED}.")
    count = stated.get("num_patients", default)
    if type(count) is not int or count < 1:
        raise ValueError(f"{file}: num_patients is {count!r}, wanted {_WANTED}.")
    for name in switches:
        if not isinstance(stated.get(name, False), bool):
            raise ValueError(f"{file}: {name} is {stated[name]!r}, wanted true or false.")
    return count, frozenset(name for name in switches if stated.get(name))


def write_num_patients(name: str, folder: Path, count: int) -> None:
    """Writes a settings file, and creates its folder if that is missing."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(json.dumps({"num_patients": count}) + "\n", "utf-8")


def in_equal_shares(labels: Sequence[_Label], count: int, rng: np.random.Generator) -> list[_Label]:
    """Returns `count` labels in random order; the numbers of any two different labels differ by at most one."""
    order = np.resize(rng.permutation(len(labels)), count)
    return [labels[i] for i in rng.permutation(order)]
