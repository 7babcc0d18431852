"""Writes a cache of the Hugging Face hub by hand, in the layout that huggingface_hub reads."""

import shutil
from collections.abc import Mapping
from pathlib import Path

REPOSITORY = "nobody/tiny-vlm"
FIRST, SECOND = "a" * 40, "b" * 40
"""Commits of the repository."""


def write_cache(
    cache: Path, revisions: Mapping[str, Path], *, refs: Mapping[str, str], where: str = REPOSITORY
) -> None:
    """Writes a repository with the given commits (commit -> folder with its files) and branches (name -> commit)."""
    root = cache / f"models--{where.replace('/', '--')}"
    for commit, folder in revisions.items():
        shutil.copytree(folder, root / "snapshots" / commit)
    for name, commit in refs.items():
        (root / "refs" / name).parent.mkdir(parents=True, exist_ok=True)
        (root / "refs" / name).write_text(commit)
