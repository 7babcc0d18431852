"""Reads recorded metric values and compares numbers with them.

Two sets of recorded values exist, and a file of one set may hold keys that the other lacks. What a file lacks is not
demanded: it equals everything. That would hide a misspelt key, so reads are noted, and `test_golden_files` fails if a
file holds a key that no test has read.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NoReturn

import pytest

from tests.golden.files import golden_file

NOTED_IN = "MEDTUNE_GOLDEN_READS"
"""Environment variable with the path of a file to which the paths of all keys that are read are appended."""


def recorded(name: str, folder: str = "metrics") -> dict[str, Any]:
    """Returns a file of recorded metric values; skips the test, or fails it where they are required."""
    said = json.loads(golden_file(f"{folder}/{name}").read_text("utf-8"))
    found: dict[str, Any] = Record(said, (name,))
    return found


class Record(dict[str, Any]):
    """A recorded object that notes which of its keys are read, and whose missing keys are `Absent`."""

    def __init__(self, values: dict[str, Any], path: tuple[str, ...]) -> None:
        super().__init__({key: _wrapped(value, (*path, key)) for key, value in values.items()})
        self._path = path

    def __getitem__(self, key: str) -> Any:
        _note((*self._path, key))
        return super().__getitem__(key) if key in self else Absent((*self._path, key))

    def get(self, key: str, default: Any = None) -> Any:
        if key not in self:
            return default
        return self[key]

    def __contains__(self, key: object) -> bool:
        _note((*self._path, str(key)))
        return super().__contains__(key)

    def __iter__(self) -> Iterator[str]:
        for key in super().__iter__():
            _note((*self._path, key))
            yield key

    def items(self) -> Any:
        return [(key, self[key]) for key in self]

    def values(self) -> Any:
        return [self[key] for key in self]

    def __eq__(self, other: object) -> bool:
        _note((*self._path, "*"))
        if isinstance(other, dict) and any(isinstance(value, dict | list) for value in super().values()):
            # A file may lack a section; of counts and other plain values it records all.
            return all(key in other and other[key] == value for key, value in super().items())
        return super().__eq__(other)

    __hash__ = None


class Absent:
    """A value that a file does not record: it equals everything, and a test that loops over it is skipped."""

    def __init__(self, path: tuple[str, ...]) -> None:
        self._path = path

    def __eq__(self, other: object) -> bool:
        return True

    def __hash__(self) -> int:
        return hash(self._path)

    def __getitem__(self, key: object) -> Absent:
        return Absent((*self._path, str(key)))

    def __contains__(self, key: object) -> bool:
        return False

    def __float__(self) -> float:
        return self._nothing()

    def __iter__(self) -> Iterator[Any]:
        self._nothing()

    def get(self, key: str, default: Any = None) -> Any:
        return default

    def items(self) -> Any:
        return self._nothing()

    keys = values = items

    def _nothing(self) -> NoReturn:
        pytest.skip(f"not recorded: {'.'.join(self._path)}")


def _wrapped(value: Any, path: tuple[str, ...]) -> Any:
    if isinstance(value, dict):
        return Record(value, path)
    if isinstance(value, list):
        return [_wrapped(each, path) for each in value]
    return value


_noted: set[str] = set()


def _note(path: tuple[str, ...]) -> None:
    where = os.environ.get(NOTED_IN)
    if where is None:
        return
    line = json.dumps(path)
    if line not in _noted:
        _noted.add(line)
        with Path(where).open("a", encoding="utf-8") as file:
            file.write(line + "\n")


def close(found: float, wanted: float | str | Absent, *, tolerance: float = 1e-9) -> bool:
    """Returns whether two numbers agree to `tolerance`, absolute or relative; "nan" and "inf" agree with themselves."""
    if isinstance(wanted, Absent):
        return True
    number = float(wanted)
    if not math.isfinite(number):
        return math.isnan(found) if math.isnan(number) else found == number
    return math.isclose(found, number, rel_tol=tolerance, abs_tol=tolerance)


def rows(table: dict[str, Any]) -> list[dict[str, Any]]:
    """Returns the rows of a recorded {"columns", "table"} as dictionaries."""
    return [dict(zip(table["columns"], row, strict=True)) for row in table["table"]]


def near(value: object) -> object:
    """Returns an object that equals numbers within 1e-9 of the recorded value; for None it equals only None."""
    if isinstance(value, list):
        return [near(each) for each in value]
    return pytest.approx(value, abs=1e-9, rel=1e-9) if isinstance(value, int | float) else value
