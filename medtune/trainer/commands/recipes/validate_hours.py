"""The part of `medtune validate --probe` that states the hours of a run, or says why it cannot."""

import shutil
import tempfile
from dataclasses import replace
from pathlib import Path

from medtune.trainer.experiment.open_data import OpenedData
from medtune.trainer.hours.kind import is_same_kind
from medtune.trainer.hours.probe import LEAST_SIZE, probe
from medtune.trainer.hours.table import hours_table
from medtune.trainer.launch.started import ALONE, how_started
from medtune.trainer.launch.stop import stop_signals
from medtune.trainer.plan.devices import GB, Devices, on_devices, this_machine
from medtune.trainer.plan.plan import LARGE, Plan, Planner
from medtune.trainer.recipe.schema import Recipe

_CACHE = "cache of volumes"


def refuse_probe(recipe: Recipe, *, weights: bool, size: int) -> None:
    """Refuses a probe that could not run, before anything is loaded."""
    if size < LEAST_SIZE:
        raise ValueError(f"--probe-size is {size}; it takes at least {LEAST_SIZE}, or nothing shows how far times vary")
    if recipe.model.endpoint is not None:
        raise ValueError(
            "--probe measures a model in this process; this one is behind an endpoint, whose speed is the server's own "
            "and depends on who else asks it. `medtune eval --limit 20` with the recipe shows it"
        )
    if not weights:
        raise ValueError("--probe runs the model, so that it needs the weights: leave out --no-weights")
    if how_started() != ALONE:
        raise ValueError("--probe measures with one process; start the command once, without torchrun or srun")


def show_hours(recipe: Recipe, data: OpenedData, planner: Planner, *, named: Devices | None, size: int) -> str | None:
    """Probes a recipe and prints its hours; returns what is missing for that, or None.

    Args:
        recipe: The recipe with its own numbers of machines and devices.
        data: The opened data.
        planner: Plans the memory of the probe.
        named: The devices of the run that the user has named; None for those of this machine.
        size: The size of the probe.
    """
    here = this_machine()
    one = replace(here, count=1, nodes=1)
    wanted = planner.plan(on_devices(data.recipe, one), one)
    if lack := _lack(wanted, one):
        return lack
    counted = recipe
    if named is not None and is_same_kind(named, here):
        counted = on_devices(recipe, named)
    train = replace(data.recipe.train, nodes=counted.train.nodes, devices=counted.train.devices)
    print(f"\nprobing    on 1 x {here.name}: nothing is kept of what is trained and answered", flush=True)
    with stop_signals():
        hours = probe(data._replace(recipe=replace(data.recipe, train=train)), size=size)
    print(f"\n{hours_table(hours, here)}")
    if named is not None and not is_same_kind(named, here):
        print(
            f"  {named} are another kind of device: these hours hold for {here.name} and are not converted. Run this "
            f"command on a machine with such a device"
        )
    return None


def _lack(wanted: Plan, one: Devices) -> str | None:
    if not one.is_gpu and wanted.parameters > LARGE:
        return (
            f"hours: {wanted.parameters / 1e9:.1f} billion parameters and no GPU here; run --probe on a machine of the "
            "kind that will run the recipe"
        )
    if not wanted.fits(one):
        return (
            f"hours: the probe runs in one process, which needs {wanted.peak.total / GB:.0f} GB ({wanted.peak.name}); "
            f"{one.name} has {one.memory_gb:.0f} GB"
        )
    folder = Path(tempfile.gettempdir())
    written = sum(size for what, size in wanted.disk.items() if what != _CACHE)
    if (free := shutil.disk_usage(folder).free) < written:
        return (
            f"hours: the probe writes trained weights and a state of up to {written / GB:.1f} GB into {folder}, and "
            f"deletes them; {free / GB:.1f} GB are free there. Name another folder with the variable TMPDIR"
        )
    return None
