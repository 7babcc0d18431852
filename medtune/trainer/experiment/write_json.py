"""Writes the JSON files of a run and of its comparisons."""

import json
from pathlib import Path

from medtune.eval.predictions.files import replace_file


def write_json(path: Path, content: object) -> None:
    """Writes a JSON file under a temporary name and renames it, so that no partial file is ever left."""
    replace_file(path, [json.dumps(content, indent=1).encode() + b"\n"])
