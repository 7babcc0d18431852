"""Times preparing simulated CTs in two processes against one; both have to give the same folder, byte for byte.

Each time is the median of three runs, in turns.
"""

import hashlib
import tempfile
from pathlib import Path
from statistics import median

from bench.measuring.measured import Measured, TwoWays, timed
from bench.measuring.subjects import first_simulated
from medtune.benchmarks import find_source
from medtune.data.prepared.work.processes import usable_cores
from medtune.data.prepared.write import prepare
from medtune.data.raw.source import Source

NUM_SCANS, PROCESSES, ROUNDS, TARGET = 40, 2, 3, 1.8


def bench(subject: str | None) -> Measured:
    """Returns the times for `subject` simulated CTs, 40 if it is None."""
    if subject is not None and (not subject.isdigit() or int(subject) < 6):
        raise ValueError(f"bench prepare takes a number of CTs, at least 6, not {subject!r}")
    return measured(NUM_SCANS if subject is None else int(subject))


def measured(num_scans: int, *, other_seed: int = 0) -> Measured:
    """Returns the times of both ways, medians of `ROUNDS` runs in turns.

    Args:
        other_seed: The seed of the way with several processes; another one than 0 is a control that must fail.
    """
    asked = first_simulated("volume")
    source = find_source(asked.simulation.source)
    if source.write_settings is None:
        raise ValueError(f"{asked.name} names {source.name!r} as its simulation, which has no `write_settings`")
    with tempfile.TemporaryDirectory() as folder:
        raw, one, two = (Path(folder) / name for name in ("raw", "one", "two"))
        # What is imported, the patients' key and the server process are there before either way is timed.
        source.write_settings(raw, 6)
        for processes in (1, PROCESSES):
            prepare(source, benchmark=asked.name, root=raw, out=Path(folder) / "warm", processes=processes)
        source.write_settings(raw, num_scans)
        quick_s, plain_s = [], []
        for _ in range(ROUNDS):
            quick_s.append(_seconds(source, asked.name, raw, two, processes=PROCESSES, seed=other_seed))
            plain_s.append(_seconds(source, asked.name, raw, one, processes=1, seed=0))
        is_same = folder_digest(one) == folder_digest(two)
    ways = TwoWays(
        title=f"preparing {num_scans} simulated CTs",
        quick=f"{PROCESSES} processes",
        plain="one process",
        quick_s=median(quick_s),
        plain_s=median(plain_s),
        apart=0.0 if is_same else float("inf"),
        tolerance=0.0,
        target=TARGET,
    )
    return Measured(f"{source.title}, {usable_cores()} cores", (ways,))


def _seconds(source: Source, benchmark: str, raw: Path, out: Path, *, processes: int, seed: int) -> float:
    return timed(lambda: prepare(source, benchmark=benchmark, root=raw, out=out, processes=processes, seed=seed))[1]


def folder_digest(folder: Path) -> str:
    """Returns the SHA-256 over the names and bytes of all files in a folder, hex."""
    whole = hashlib.sha256()
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            whole.update(f"{path.relative_to(folder)} {path.stat().st_size}\n".encode())
            whole.update(path.read_bytes())
    return whole.hexdigest()
