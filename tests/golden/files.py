"""Finds recorded values, collected inputs and the files beside the checkout, and says what a test does without them.

Recorded values stand in this folder, collected inputs in tests/cases. `MEDTUNE_GOLDEN` names the folder of another set,
`MEDTUNE_SHARED` the folder of what the repository may not hold; without it that is ../shared. A test that lacks its
file is skipped, or fails where `MEDTUNE_REQUIRE_SHARED=1`, as .ci/run sets it. At the end of a run `told_skips` counts
what was skipped for it.
"""

import os
from collections.abc import Iterable
from pathlib import Path
from typing import NoReturn

import pytest

COPY = Path(__file__).parent
REPOSITORY = COPY.parents[1]
COLLECTED = REPOSITORY / "tests" / "cases"
"""Small inputs of our own making that once failed."""

NOT_COPIED = {"metrics/rexsonovqa_published_scores.json"}
"""Recorded values that are read beside the checkout alone: scores of single items, by authors who gave no licence."""

RECORDED = "recorded values"
REAL = "files of real patients or of a release"
PUBLISHED = "the papers' own tables and prompts"
FACTS = "the facts that were dug out of public code"
ORIGINALS = "the originals of the copies"
KINDS = (REAL, PUBLISHED, FACTS, RECORDED, ORIGINALS)
"""What a test may lack, in the words of the reason with which it is skipped."""


def shared_folder() -> Path:
    """Returns the folder beside the checkout, whether it is there or not."""
    return Path(os.environ.get("MEDTUNE_SHARED") or REPOSITORY.parent / "shared")


def shared_part(name: str, kind: str) -> Path:
    """Returns a file or folder of `shared_folder`; without it the test is skipped or fails."""
    path = shared_folder() / name
    return path if path.exists() else missing(path, kind)


def golden_root() -> Path:
    """Returns the folder of recorded values."""
    return Path(os.environ.get("MEDTUNE_GOLDEN") or COPY)


def golden_file(name: str) -> Path:
    """Returns a file of recorded values by its path in the folder; without it the test is skipped or fails."""
    path = _golden_path(name)
    return path if path.is_file() else missing(path, RECORDED)


def golden_files(folder: str) -> list[Path]:
    """Returns the files of recorded values in a folder of the set, with those that are not copied, in order of name."""
    found = {path.name: path for path in (golden_root() / folder).glob("*.json")}
    beside = {Path(name).name: _golden_path(name) for name in NOT_COPIED if Path(name).parent == Path(folder)}
    found |= {name: path for name, path in beside.items() if path.is_file()}
    return [found[name] for name in sorted(found)]


def _golden_path(name: str) -> Path:
    path = golden_root() / name
    return shared_folder() / "golden" / name if name in NOT_COPIED and not path.is_file() else path


def missing(path: Path, kind: str) -> NoReturn:
    """Skips the test for want of a file, or fails it where all files are required."""
    if os.environ.get("MEDTUNE_REQUIRE_SHARED") == "1":
        pytest.fail(f"MEDTUNE_REQUIRE_SHARED=1, but there is no {path}")
    variable = "MEDTUNE_GOLDEN or MEDTUNE_SHARED" if kind == RECORDED else "MEDTUNE_SHARED"
    pytest.skip(f"needs {kind}: there is no {path} (set {variable})")


def told_skips(reasons: Iterable[str]) -> str:
    """Returns how many tests were skipped for want of each kind of file, from the reasons of skips; else nothing."""
    reasons = list(reasons)
    counts = {kind: sum(f"needs {kind}: " in reason for reason in reasons) for kind in KINDS}
    said = [f"{count} need {kind}" for kind, count in counts.items() if count]
    if not said:
        return ""
    return f"Skipped for want of files that the repository does not hold: {', '.join(said)} (set MEDTUNE_SHARED)."
