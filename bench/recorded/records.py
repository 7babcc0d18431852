"""Reads the records in docs/bench, and says of each whether the code that it measured has changed since, and how long.

A record may lag behind: a small change of measured code does not ask for all benches again. It counts as old from
`DAYS` on between its date and the last commit that changed what it measured.
"""

import json
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

from bench.recorded.code import ROOT, changed

FOLDER = ROOT / "docs" / "bench"
DAYS = 14
"""How long the code may have changed after a record (our own choice)."""
ELSEWHERE = ("full_size",)
"""Benches that need a GPU: their records say what was measured when one was lent."""


@dataclass(frozen=True, slots=True)
class Record:
    """What a file of docs/bench says."""

    name: str  # The bench.
    file: Path
    day: date
    machine: Mapping[str, Any]
    code: Mapping[str, str]  # The files that were measured, each with a hash; none in a record before 2026-11-30.
    subject: str  # What was measured, and under which conditions.
    note: str  # What is known to be wrong with the figures; "" if nothing is.
    ways: Sequence[Mapping[str, Any]]
    limits: Sequence[Mapping[str, Any]]
    ratios: Mapping[str, float]

    def changed(self) -> list[str]:
        """Returns the measured files that are not as they were."""
        return changed(self.code, self.name)

    def where(self) -> str:
        """Returns the devices that it was measured on, in words."""
        return ", ".join(self.machine["gpus"]) or f"{self.machine['processor']}, {self.machine['cores']} cores"

    def lag(self) -> int:
        """Returns the days from this record to the last commit that changed what it measured; 0 if nothing has."""
        since = self.changed()
        return max(0, (last_change(since) - self.day).days) if since else 0


def records(folder: Path = FOLDER) -> Iterator[Record]:
    """Yields the records of a folder, by their names."""
    for file in sorted(folder.glob("*.json")):
        read = json.loads(file.read_text("utf-8"))
        yield Record(
            name=read["bench"],
            file=file,
            day=date.fromisoformat(read["date"]),
            machine=read["machine"],
            code=read.get("code", {}),
            subject=read["subject"],
            note=read.get("note", ""),
            ways=read["ways"],
            limits=read["limits"],
            ratios=read["ratios"],
        )


def last_change(files: list[str]) -> date:
    """Returns the day of the last commit that changed one of the files."""
    asked = ["git", "-C", str(ROOT), "log", "-1", "--format=%cs", "--", *files]
    said = subprocess.run(asked, capture_output=True, text=True, check=True).stdout.strip()
    if not said:
        raise ValueError(f"no commit has changed {', '.join(files)}")
    return date.fromisoformat(said)


def has_history() -> bool:
    """Returns whether this is a clone with its whole history."""
    asked = ["git", "-C", str(ROOT), "rev-parse", "--is-shallow-repository"]
    done = subprocess.run(asked, capture_output=True, text=True, check=False)
    return done.returncode == 0 and done.stdout.strip() == "false"


def lines(folder: Path = FOLDER) -> list[str]:
    """Returns a line for each record: its date, its machine, and what has changed since."""
    said = []
    for record in records(folder):
        since = record.changed()
        age = "as measured"
        if since:
            age = f"{len(since)} of {len(record.code) or 'its'} files changed since, the last {record.lag()} days later"
        said.append(f"{record.file.stem:26} {record.day}  {record.where()}: {age}")
    return said
