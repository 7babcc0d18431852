"""JSON of a run folder, checked field by field: a broken file is named, with its field and what to do."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

AGAIN = "Was the file edited or cut off? Copy the run folder again, or run again."


@dataclass(frozen=True, slots=True)
class Node:
    """A value somewhere in a JSON file.

    Attributes:
        where: File and field, for messages.
    """

    value: object
    where: str

    def __getitem__(self, name: str) -> Node:
        """Returns a field of an object; None stands for one that is not there."""
        return Node(self._object().get(name), f"{self.where}, field {name!r}")

    def fields(self) -> Iterator[tuple[str, Node]]:
        """Yields the fields of an object; nothing for null."""
        for name in self._object() if self.value is not None else ():
            yield name, self[name]

    def items(self) -> list[Node]:
        """Returns the items of a list; nothing for null."""
        found = [] if self.value is None else self.value
        if not isinstance(found, list):
            raise self.error("a list")
        return [Node(item, f"{self.where}, item {number}") for number, item in enumerate(found, start=1)]

    def text(self) -> str:
        """Returns a string."""
        if not isinstance(self.value, str):
            raise self.error("a string")
        return self.value

    def number(self) -> float:
        """Returns a finite number."""
        if isinstance(self.value, bool) or not isinstance(self.value, int | float) or not math.isfinite(self.value):
            raise self.error("a number")
        return float(self.value)

    def count(self) -> int:
        """Returns a whole number of 0 or more."""
        if isinstance(self.value, bool) or not isinstance(self.value, int) or self.value < 0:
            raise self.error("a whole number of 0 or more")
        return self.value

    def truth(self) -> bool:
        """Returns true or false."""
        if not isinstance(self.value, bool):
            raise self.error("true or false")
        return self.value

    def text_or(self, other: str) -> str:
        """Returns a string, or `other` for null."""
        return other if self.value is None else self.text()

    def maybe_number(self) -> float | None:
        """Returns a finite number, or None for null."""
        return None if self.value is None else self.number()

    def maybe_pair(self) -> tuple[float, float] | None:
        """Returns two numbers, or None for null."""
        if self.value is None:
            return None
        numbers = [item.number() for item in self.items()]
        if len(numbers) != 2:
            raise self.error("two numbers")
        return numbers[0], numbers[1]

    def error(self, wanted: str) -> ValueError:
        """Returns what to raise where the value is none of those."""
        return ValueError(f"{self.where}: wanted {wanted}, got {self.value!r:.60}. {AGAIN}")

    def _object(self) -> dict[str, object]:
        if not isinstance(self.value, dict):
            raise self.error("an object")
        return self.value


def read_json(path: Path) -> Node:
    """Returns what a JSON file holds.

    Raises:
        FileNotFoundError: There is no such file.
        ValueError: It is not JSON.
    """
    return parse_json(path.read_bytes(), where=str(path))


def read_json_lines(path: Path) -> Iterator[Node]:
    """Yields the lines of a file of JSON lines.

    Raises:
        FileNotFoundError: There is no such file.
        ValueError: A line is not JSON.
    """
    for number, line in enumerate(path.read_bytes().split(b"\n"), start=1):
        if line.strip():
            yield parse_json(line, where=f"{path}, line {number}")


def parse_json(content: bytes, *, where: str) -> Node:
    """Returns the value of a JSON text.

    Raises:
        ValueError: It is none.
    """
    try:
        return Node(json.loads(content), where)
    except (UnicodeDecodeError, json.JSONDecodeError, RecursionError) as error:
        raise ValueError(f"{where}: not valid JSON ({error}). {AGAIN}") from error
