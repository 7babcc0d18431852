"""Times filling the cache of volumes in two processes against one; both have to give the same entries."""

import shutil
import tempfile
from pathlib import Path

from bench.measuring.measured import Measured, TwoWays, timed
from bench.measuring.subjects import first_simulated
from bench.prepare import folder_digest
from medtune.benchmarks import find_source
from medtune.data.prepared.work.processes import usable_cores
from medtune.data.prepared.write import prepare
from medtune.trainer.recipe.read import read_recipe
from medtune.trainer.volume_cache import fill, wanted

NUM_SCANS, PROCESSES, TARGET = 24, 2, 1.7
RECIPE, MODEL = "nano_ct_lora", "nano_radfm"


def bench(subject: str | None) -> Measured:
    """Returns the times for `subject` simulated CTs, 24 if it is None."""
    if subject is not None and (not subject.isdigit() or int(subject) < 6):
        raise ValueError(f"bench cache_fill takes a number of CTs, at least 6, not {subject!r}")
    return measured(NUM_SCANS if subject is None else int(subject))


def measured(num_scans: int, *, other_model: str = MODEL) -> Measured:
    """Returns the times of both ways.

    Args:
        other_model: The model of the way with several processes; another one than RadFM's twin is a control that must
            fail.
    """
    asked = first_simulated("volume")
    source = find_source(asked.simulation.source)
    if source.write_settings is None:
        raise ValueError(f"{asked.name} names {source.name!r} as its simulation, which has no `write_settings`")
    with tempfile.TemporaryDirectory() as folder:
        raw, root = Path(folder) / "raw", Path(folder) / "prepared"
        source.write_settings(raw, num_scans)
        prepare(source, benchmark=asked.name, root=raw, out=root)
        # What is imported and the server process are there before either way is timed.
        for processes in (1, PROCESSES):
            _fill(root, MODEL, processes=processes)
            _taken(root)
        _, quick_s = timed(lambda: _fill(root, other_model, processes=PROCESSES))
        quick = _taken(root)
        _, plain_s = timed(lambda: _fill(root, MODEL, processes=1))
        is_same = quick == _taken(root)
    ways = TwoWays(
        title=f"filling the cache with {num_scans} simulated CTs",
        quick=f"{PROCESSES} processes",
        plain="one process",
        quick_s=quick_s,
        plain_s=plain_s,
        apart=0.0 if is_same else float("inf"),
        tolerance=0.0,
        target=TARGET,
    )
    return Measured(f"{MODEL}, {source.title}, {usable_cores()} cores", (ways,))


def _fill(root: Path, model: str, *, processes: int) -> None:
    settings = [f"data.root={root}", f"model.name={model}", "model.vision=null", "model.projector=null"]
    recipe = read_recipe(RECIPE, settings)
    found = wanted(recipe)
    if found is None:
        raise TypeError(f"{model} reads no volumes")
    done = fill(recipe, found, processes=processes, say=lambda _: None)
    if done.broken:
        raise ValueError(f"{done.broken[0][0]}: {done.broken[0][1]}")


def _taken(root: Path) -> str:
    """Returns the digest of the cache, which is then removed."""
    digest = folder_digest(root / "cache")
    shutil.rmtree(root / "cache")
    return digest
