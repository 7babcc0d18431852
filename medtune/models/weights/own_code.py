"""Refuses checkpoints that want to run code of their own, which medtune never does."""

import json
from pathlib import Path

import transformers

SETTING = "trust_remote_code"


def refuse_own_code(folder: Path, said: str, error: Exception) -> None:
    """Explains an error of transformers if it came from a checkpoint's wish to run code; otherwise does nothing.

    Args:
        folder: The folder with the checkpoint's files.
        said: The checkpoint in words, for the message.
        error: The error that transformers raised under trust_remote_code=False.
    """
    if SETTING not in str(error):
        return
    wanting = sorted(path.name for path in folder.glob("*.json") if _names_code(path))
    raise ValueError(
        f"{said}: it wants to run code of its own (auto_map in {', '.join(wanting) or 'its files'}), which medtune "
        f"never does, because code can do anything on this machine. Take the checkpoint in a form that transformers "
        f"{transformers.__version__} reads by itself (often an -hf repository of the same authors), or convert it"
    ) from error


def _names_code(path: Path) -> bool:
    try:
        said = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError):
        return False
    return isinstance(said, dict) and "auto_map" in said
