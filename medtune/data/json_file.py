"""Reads a JSON file of a release, of settings or of prompts, with one message for whatever is wrong with it."""

import json
from pathlib import Path
from typing import Any, TypeVar

_Held = TypeVar("_Held", list[Any], dict[str, Any])


def json_file(path: Path, kind: type[_Held], wanted: str, *, todo: str = "Take it from the release again.") -> _Held:
    """Returns the list or object that a file holds; `wanted` says in words what that is, `todo` what to do else."""
    try:
        held = json.loads(path.read_text("utf-8-sig"))
    except FileNotFoundError:
        raise FileNotFoundError(f"{path}: this file is missing; wanted {wanted}. {todo}") from None
    except ValueError as error:
        raise ValueError(f"{path}: broken JSON, or no UTF-8 text ({error}); wanted {wanted}. {todo}") from None
    if not isinstance(held, kind):
        raise ValueError(f"{path}: wanted {wanted}, got {type(held).__name__}. {todo}")
    return held
