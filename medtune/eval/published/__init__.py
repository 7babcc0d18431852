"""The papers' own numbers, one JSON file per benchmark, each with its source; no sentence of a paper is among them."""

from __future__ import annotations

import json
from importlib import resources
from typing import Any


def published(name: str) -> dict[str, Any]:
    """Returns the published numbers of a benchmark, by the name of its module.

    Raises:
        FileNotFoundError: There are none.
    """
    found: dict[str, Any] = json.loads(resources.files(__name__).joinpath(f"{name}.json").read_text("utf-8"))
    return found
