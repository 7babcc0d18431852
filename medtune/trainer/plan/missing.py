"""Says what memory a run lacks, and the change that makes it fit."""

from medtune.models.assemble import ZooEntry
from medtune.trainer.plan.changes import change_that_fits
from medtune.trainer.plan.devices import GB, Devices
from medtune.trainer.plan.plan import LARGE, Plan, Planner
from medtune.trainer.recipe.schema import Recipe


def missing_memory(plan: Plan, recipe: Recipe, entry: ZooEntry, devices: Devices, planner: Planner) -> str | None:
    """Returns a message that says how much memory is missing and what makes the run fit; None if it fits.

    Args:
        plan: The plan of the recipe.
        recipe: The recipe, with the numbers of machines and devices that were planned.
        entry: The model's entry.
        devices: The devices of the run.
        planner: Plans the changes that are tried.
    """
    peak = plan.peak
    wanted = f"GPU memory: at least {peak.total / GB:.0f} GB per device ({peak.name}; most of it {peak.largest})"
    if not devices.is_gpu and plan.parameters > LARGE:
        return f"{wanted}; there is no GPU here. Name the machine that will run it: --devices 1xH100-80GB"
    if plan.fits(devices):
        return None
    change = change_that_fits(recipe, entry, devices, planner)
    advice = "No single change of the recipe makes it fit: take larger devices" if change is None else f"Set {change}"
    return f"{wanted}; {devices.name} has {devices.memory_gb:.0f} GB. {advice}"
