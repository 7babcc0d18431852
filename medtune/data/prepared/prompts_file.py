"""Writes and reads prompts.json, the official prompts that a prepared folder holds."""

import json
from collections.abc import Mapping
from pathlib import Path

from medtune.data.prepared.manifest import AGAIN, PROMPTS


def write_prompts(folder: Path, templates: Mapping[str, str]) -> None:
    """Writes prompts.json, which holds the official templates by scenario, verbatim."""
    text = json.dumps(dict(sorted(templates.items())), indent=1, ensure_ascii=False)
    (folder / PROMPTS).write_text(text + "\n", encoding="utf-8")


def read_prompts(folder: Path) -> Mapping[str, str] | None:
    """Returns the official templates of a prepared folder by scenario; None where it has none."""
    path = folder / PROMPTS
    if not path.is_file():
        return None
    try:
        found = json.loads(path.read_text("utf-8"))
    except ValueError as error:
        raise ValueError(f"{path}: these prompts are damaged ({type(error).__name__}). {AGAIN}") from error
    return {str(key): str(text) for key, text in found.items()}
