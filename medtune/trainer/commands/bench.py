"""`medtune bench`: two ways to the same result in one run, whether they agree, how much faster the quick one is."""

from __future__ import annotations

import json
import os
import platform
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path
from typing import TypeVar, cast

from medtune import __version__
from medtune.data import catalog
from medtune.eval.predictions.files import replace_file

PARITY_FAILED, UNDER_TARGET = 1, 2
MAX_S = 600.0
"""No bench may take longer on two cores."""
_GIB = 2**30
GB = 1e9

Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class TwoWays:
    """Two ways to the same result.

    Attributes:
        title: What both do.
        quick: What the one way is.
        plain: What the other one is.
        apart: The largest difference between what they give.
        tolerance: The largest one that still counts as the same.
        target: How many times as long the plain way has to take at least.
    """

    title: str
    quick: str
    plain: str
    quick_s: float
    plain_s: float
    apart: float
    tolerance: float
    target: float

    @property
    def ratio(self) -> float:
        """How many times as long the plain way takes."""
        return self.plain_s / self.quick_s

    @property
    def agree(self) -> bool:
        """Whether both give the same; what is no number does not."""
        return self.apart <= self.tolerance


@dataclass(frozen=True, slots=True)
class Limit:
    """A figure that may not be exceeded."""

    title: str
    value: float
    at_most: float
    unit: str

    @property
    def kept(self) -> bool:
        """Whether it is not exceeded."""
        return self.value <= self.at_most


@dataclass(frozen=True, slots=True)
class Measured:
    """What a bench found.

    Attributes:
        subject: What it ran on.
        ways: At least one pair.
        limits: Targets in seconds or GB, which the machine decides too.
    """

    subject: str
    ways: tuple[TwoWays, ...]
    limits: tuple[Limit, ...] = ()


Bench = Callable[[str | None], Measured]
"""What a file in `benches` defines as `bench`: takes what to run on, by default what its first lines say."""


def run_bench(name: str, *, subject: str | None, target: bool, record: Path | None) -> int:
    """Runs one bench, prints what it found, and returns 1 where the ways disagree, 2 where a target is missed, else 0.

    Args:
        name: Of a file in `benches`.
        subject: What to run on; None for the bench's default.
        target: Whether a missed target counts.
        record: Folder for a JSON file of the figures with machine and date; nothing is written where the ways disagree.

    Raises:
        ValueError: There is no such bench, or it does not take the subject.
    """
    bench = cast("Bench", catalog.load(catalog.BENCHES, name))
    busy = os.getloadavg()[0]
    measured, total_s = timed(lambda: bench(subject))
    limits = (*measured.limits, Limit("the whole bench", total_s, MAX_S, "s"))
    measured = Measured(measured.subject, measured.ways, limits)
    print(f"{name}, {measured.subject}")
    for line in lines(measured):
        print(line)
    status = exit_status(measured, target=target)
    if record is not None and status != PARITY_FAILED:
        path = record / f"{name}{f'-{subject}' if subject else ''}.json"
        record.mkdir(parents=True, exist_ok=True)
        replace_file(path, [json.dumps(figures(name, measured, load_before=busy), indent=1).encode() + b"\n"])
        print(f"recorded: {path}")
    return status


def exit_status(measured: Measured, *, target: bool) -> int:
    """Returns the exit status.

    Example:
        >>> slow = TwoWays("t", "a", "b", quick_s=1.0, plain_s=1.5, apart=0.0, tolerance=0.0, target=2.0)
        >>> exit_status(Measured("s", (slow,)), target=True), exit_status(Measured("s", (slow,)), target=False)
        (2, 0)
    """
    if not all(each.agree for each in measured.ways):
        return PARITY_FAILED
    reached = all(each.ratio >= each.target for each in measured.ways) and all(each.kept for each in measured.limits)
    return 0 if reached or not target else UNDER_TARGET


def lines(measured: Measured) -> list[str]:
    """Returns the figures in words."""
    found = []
    for each in measured.ways:
        same = "the same" if each.agree else "NOT THE SAME"
        reached = "" if each.ratio >= each.target else ", MISSED"
        found += [
            f"  {each.title}: {each.ratio:.2f} times as fast (target {each.target:g}{reached})",
            f"    {each.quick}: {each.quick_s:.3f} s; {each.plain}: {each.plain_s:.3f} s",
            f"    {same}: {each.apart:.1e} apart, {each.tolerance:.0e} allowed",
        ]
    for limit in measured.limits:
        exceeded = "" if limit.kept else ", EXCEEDED"
        found.append(f"  {limit.title}: {limit.value:.2f} {limit.unit} (limit {limit.at_most:g}{exceeded})")
    return found


def figures(name: str, measured: Measured, *, load_before: float) -> dict[str, object]:
    """Returns what is recorded: the figures, and the machine and day that they are of."""
    return {
        "bench": name,
        "date": datetime.now().astimezone().date().isoformat(),
        "medtune": __version__,
        "machine": {
            "processor": _processor(),
            "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
            "threads": os.environ.get("OMP_NUM_THREADS"),
            "gpus": _gpus(),
            "memory_gib": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / _GIB, 1),
            "system": platform.system(),
            "python": platform.python_version(),
            "load_before": round(load_before, 2),
        },
        **asdict(measured),
        "ratios": {each.title: round(each.ratio, 3) for each in measured.ways},
    }


def timed(work: Callable[[], Result]) -> tuple[Result, float]:
    """Returns what the work returns, and the seconds that it took."""
    start = time.perf_counter()
    result = work()
    return result, time.perf_counter() - start


def peak_memory_gb() -> float:
    """Returns the most memory that this process held so far, GB."""
    import resource

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    # Bytes on macOS, kilobytes elsewhere.
    return peak / (1e9 if sys.platform == "darwin" else 1e6)


def refuse_subject(name: str, subject: str | None) -> None:
    """Refuses a subject where a bench has none.

    Raises:
        ValueError: There is one.
    """
    if subject is not None:
        raise ValueError(f"the bench {name!r} runs on one thing alone; leave {subject!r} out")


def _gpus() -> list[str]:
    import torch

    return [torch.cuda.get_device_name(number) for number in range(torch.cuda.device_count())]


def _processor() -> str:
    cpuinfo = Path("/proc/cpuinfo")
    found = cpuinfo.read_text("utf-8").splitlines() if cpuinfo.is_file() else []
    models = [line.partition(":")[2].strip() for line in found if line.startswith("model name")]
    return models[0] if models else platform.processor() or platform.machine()
