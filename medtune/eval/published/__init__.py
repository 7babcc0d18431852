"""The papers' printed numbers, as package data: one JSON file per benchmark, with its source."""

from __future__ import annotations

import json
from importlib.resources import files
from typing import Any


def published(name: str) -> dict[str, Any]:
    """Returns the printed numbers of a benchmark, e.g. "u2_bench".

    Raises:
        FileNotFoundError: There are none of that name.
    """
    found: dict[str, Any] = json.loads((files(__name__) / f"{name}.json").read_text("utf-8"))
    return found
