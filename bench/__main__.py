"""`python -m bench NAME`: times two implementations of the same computation, and checks that their results agree."""

import argparse
import json
import os
import platform
import sys
from collections.abc import Sequence
from dataclasses import asdict
from datetime import datetime
from importlib import import_module
from pathlib import Path
from typing import cast

from bench.measuring.measured import Bench, Limit, Measured, timed
from bench.recorded.code import code_of
from bench.recorded.pages import write_pages
from bench.recorded.records import lines as record_lines
from medtune.data.catalog import nearest
from medtune.data.files import replace_file
from medtune.version import __version__

PARITY_FAILED, UNDER_TARGET = 1, 2
RECORDS = "records"
MAX_S = 600.0
"""The longest time, in seconds, that a bench may take on two cores."""
_GIB = 2**30


def names() -> list[str]:
    """Returns the names of all benches: the modules beside this one, and the folders that define `bench`."""
    here = Path(__file__).parent
    found = [path.stem for path in here.glob("*.py") if not path.name.startswith("_")]
    folders = [path.parent.name for path in here.glob("*/__init__.py") if "\ndef bench(" in path.read_text("utf-8")]
    return sorted([*found, *folders])


def find(name: str) -> Bench:
    """Returns the bench of a name."""
    if name not in names():
        raise ValueError(f"bench: there is no {name!r}.{nearest(name, names())} There are: {', '.join(names())}")
    return cast("Bench", import_module(f"bench.{name}").bench)


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one bench; returns 1 if the results disagree or it is refused, 2 if a target is missed, else 0."""
    parser = argparse.ArgumentParser("python -m bench", description=__doc__)
    parser.add_argument(
        "name",
        metavar="NAME",
        help=f"The bench to run, one of {', '.join(names())}; or {RECORDS}, which runs none, writes the page "
        "docs/bench/README.md and README's table from the records there, and says how old each is.",
    )
    parser.add_argument(
        "subject",
        metavar="SUBJECT",
        nargs="?",
        help="The thing to run it on, for instance a benchmark or a model (default: the bench's own).",
    )
    parser.add_argument(
        "--no-target", action="store_true", help="Returns exit status 0, not 2, where a target is missed."
    )
    parser.add_argument(
        "--record",
        type=Path,
        metavar="DIR",
        help="The folder to write the figures, the machine and the date to, as NAME.json (default: they are only "
        "printed).",
    )
    options = parser.parse_args(arguments)
    if options.name == RECORDS:
        write_pages()
        print("\n".join(record_lines()))
        return 0
    try:
        return run_bench(options.name, subject=options.subject, target=not options.no_target, record=options.record)
    except (ValueError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return PARITY_FAILED


def run_bench(name: str, *, subject: str | None, target: bool, record: Path | None) -> int:
    """Runs one bench and prints its figures; returns 1 if the results disagree, 2 if a target is missed, else 0.

    Args:
        target: Whether a missed target changes the exit status.
        record: The folder for a JSON file with the figures, the machine and the date. The file is written only if the
            results agree; None writes nothing.
    """
    bench = find(name)
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
    """Returns 1 if two results disagree, 2 if a target is missed and `target` is set, else 0.

    >>> from bench.measuring.measured import TwoWays
    >>> slow = TwoWays("t", "a", "b", quick_s=1.0, plain_s=1.5, apart=0.0, tolerance=0.0, target=2.0)
    >>> exit_status(Measured("s", (slow,)), target=True), exit_status(Measured("s", (slow,)), target=False)
    (2, 0)
    """
    if not all(each.agree for each in measured.ways):
        return PARITY_FAILED
    reached = all(each.ratio >= each.target for each in measured.ways) and all(each.kept for each in measured.limits)
    return 0 if reached or not target else UNDER_TARGET


def lines(measured: Measured) -> list[str]:
    """Returns the lines that `python -m bench` prints."""
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
    """Returns the content of the recorded file: the figures, the machine and the date."""
    return {
        "bench": name,
        "date": datetime.now().astimezone().date().isoformat(),
        "medtune": __version__,
        "code": code_of(name),
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


def _gpus() -> list[str]:
    import torch

    return [torch.cuda.get_device_name(number) for number in range(torch.cuda.device_count())]


def _processor() -> str:
    cpuinfo = Path("/proc/cpuinfo")
    found = cpuinfo.read_text("utf-8").splitlines() if cpuinfo.is_file() else []
    models = [line.partition(":")[2].strip() for line in found if line.startswith("model name")]
    return models[0] if models else platform.processor() or platform.machine()


if __name__ == "__main__":
    sys.exit(main())
