"""Runs the soak, the long proofs that CI has no time for, part by part: `make soak`, or `make soak PART=strategies`.

What has passed is kept in .soak/COMMIT, so that a soak that was stopped goes on where it was. It ends with a line for
each part; once every part is through, `--page FILE` writes them as a page.
"""

import argparse
import datetime
import json
import subprocess
import sys
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.costs import cost_of

ROOT = Path(__file__).resolve().parents[1]
PARTS = {
    "strategies": ("trainer/devices", "trainer/training", "models/sharding"),
    "kills": ("trainer/launch", "trainer/experiment"),
    "memory": ("trainer/plan", "trainer/volume_cache"),
    "precision": ("trainer/precision", "models/tuning"),
    "commands": ("trainer", "api", "bench", "faults", "website"),
    "twins": ("contracts", "models"),
    "simulations": ("eval",),
    "benchmarks": ("benchmarks", "data"),
}
"""The parts and their folders below tests; a folder within one of another part belongs to its own part alone."""
ENDED_WELL = ("passed", "skipped")


def in_suites(cases: Iterable[Any], *, plain: Collection[Any] = (), slow: Collection[Any] = ()) -> list[Any]:
    """Returns the cases as parameters: `make test` has some, `make test-slow` others, and `make soak` the rest."""

    def marks(case: Any) -> tuple[pytest.MarkDecorator, ...]:
        if case in plain:
            return ()
        return (pytest.mark.slow if case in slow else pytest.mark.soak,)

    return [pytest.param(*(case if isinstance(case, tuple) else (case,)), marks=marks(case)) for case in cases]


def sample_and_all(sample: int, all_of_it: int) -> list[Any]:
    """Returns the two lengths of a long loop as parameters: a sample in `make test-slow`, and all of it in the soak."""
    return in_suites((sample, all_of_it), slow=(sample,))


class Recorder:
    """Appends how each test ended to a file, as one line of JSON; for the process of pytest that the workers tell."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._outcomes: dict[str, str] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        outcome = self._outcomes.setdefault(report.nodeid, "passed")
        if outcome == "passed":
            self._outcomes[report.nodeid] = report.outcome
        if report.when == "teardown":
            row = {"test": report.nodeid, "outcome": self._outcomes[report.nodeid], "cpu_s": round(cost_of(report), 1)}
            with self._file.open("a", encoding="utf-8") as file:
                file.write(json.dumps(row) + "\n")


def rows_of(file: Path) -> list[dict[str, Any]]:
    """Returns what is kept of a part: one row for each test, the last that it ended with."""
    lines = file.read_text("utf-8").splitlines() if file.exists() else []
    return list({row["test"]: row for row in map(json.loads, lines)}.values())


def arguments_of(part: str, rows: Sequence[dict[str, Any]]) -> list[str]:
    """Returns pytest's arguments for the tests of a part that have not ended well before."""
    others = [f"tests/{each}" for name, folders in PARTS.items() if name != part for each in folders]
    mine = [f"tests/{each}" for each in PARTS[part]]
    apart = [f"--ignore={each}" for each in others if any(each.startswith(f"{folder}/") for folder in mine)]
    ended = [f"--deselect={row['test']}" for row in rows if row["outcome"] in ENDED_WELL]
    return ["-n", "2", "--dist", "loadfile", "-m", "soak", "-q", "--disable-warnings", *mine, *apart, *ended]


def summary(part: str, rows: Sequence[dict[str, Any]]) -> str:
    """Returns the line that sums up a part, as the row of a table in Markdown."""
    count = Counter(row["outcome"] for row in rows)
    spent = sum(row["cpu_s"] for row in rows)
    return f"| {part} | {len(rows)} | {count['passed']} | {count['skipped']} | {count['failed']} | {spent:.0f} |"


def main() -> int:
    """Runs the parts and returns 1 if a test failed, else 0."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--part", choices=PARTS, help="run this part alone")
    parser.add_argument("--page", type=Path, help="write the summary of all parts into this file")
    options = parser.parse_args()
    commit = _git("rev-parse", "--short=8", "HEAD") + ("-changed" if _git("status", "--porcelain") else "")
    folder = ROOT / ".soak" / commit
    folder.mkdir(parents=True, exist_ok=True)
    chosen = [options.part] if options.part else list(PARTS)
    files = {part: folder / f"{part}.jsonl" for part in chosen}
    for part, file in files.items():
        print(f"soak, {part}", flush=True)
        status = pytest.main(arguments_of(part, rows_of(file)), plugins=[Recorder(file)])
        if status == pytest.ExitCode.INTERRUPTED:
            return 130
    lines = [summary(part, rows_of(file)) for part, file in files.items()]
    table = ["| part | tests | passed | skipped | failed | CPU s |", "|---|---|---|---|---|---|", *lines]
    print(f"\ncommit {commit}", *table, sep="\n")
    if options.page and not options.part:
        _write(options.page, commit, table)
    return int(any(row["outcome"] == "failed" for file in files.values() for row in rows_of(file)))


def _write(page: Path, commit: str, table: Sequence[str]) -> None:
    today = datetime.datetime.now(datetime.UTC).date()
    head = ["# The soak", "", f"`make soak` of commit {commit}, ended on {today}, on two cores.", ""]
    page.write_text("\n".join([*head, *table]) + "\n", "utf-8")


def _git(*words: str) -> str:
    done = subprocess.run(["git", "-C", str(ROOT), *words], capture_output=True, text=True, check=True)
    return done.stdout.strip()


if __name__ == "__main__":
    sys.exit(main())
