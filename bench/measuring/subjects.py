"""Finds the benchmark that a bench measures: the one that the user names, or the first that offers the needed data."""

from typing import NamedTuple

from bench.measuring.workload import MadeUpRelease, Simulation, workload
from medtune.benchmarks import find_benchmark, names
from medtune.data.types import MediaKind
from medtune.eval.benchmark import Benchmark


class Simulated(NamedTuple):
    """A benchmark whose questions can be simulated."""

    name: str
    benchmark: Benchmark
    simulation: Simulation


class Released(NamedTuple):
    """A benchmark whose release can be made up at its full size."""

    name: str
    benchmark: Benchmark
    release: MadeUpRelease


def first_simulated(kind: MediaKind) -> Simulated:
    """Returns the first benchmark, by name, that simulates media of that kind."""
    for name in names():
        benchmark = find_benchmark(name)
        simulation = workload(name).simulation
        if simulation is not None and simulation.kind == kind:
            return Simulated(name, benchmark, simulation)
    raise ValueError(f"no benchmark simulates media of the kind {kind!r}; add one to WORKLOADS")


def released(wanted: str | None) -> Released:
    """Returns a benchmark whose release can be made up: the one named `wanted`, or the first one if that is None."""
    for name in [wanted] if wanted is not None else names():
        benchmark = find_benchmark(name)
        release = workload(name).release
        if release is not None:
            return Released(name, benchmark, release)
    raise ValueError(f"{wanted or 'the package'} offers no made-up release: WORKLOADS has no `release` for it")
