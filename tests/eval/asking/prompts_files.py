"""Writes the YAML files of official prompts that a user writes."""

from collections.abc import Mapping
from pathlib import Path

import yaml


def prompts_file(file: Path, templates: Mapping[str, str]) -> Path:
    """Writes the templates and returns the file."""
    file.write_text(yaml.safe_dump(dict(templates), allow_unicode=True), "utf-8")
    return file
