"""Prints a plan as a table, as it stands in the headers of the recipes."""

from medtune.trainer.plan.devices import GB, Devices
from medtune.trainer.plan.plan import Phase, Plan, Sizes
from medtune.trainer.recipe.schema import Recipe

_SHOWN_GB = 0.05
_MOST_TERMS = 4


def plan_table(plan: Plan, devices: Devices, recipe: Recipe, sizes: Sizes) -> str:
    """Returns the plan as lines of text: a line for each phase, the host, the disk, and what is not known."""
    where = "rows of" if sizes.is_measured else "rows of an assumed"
    lines = [
        f"plan       {devices} with {devices.memory_gb:.0f} GB, {recipe.train.strategy}, {recipe.train.precision}, "
        f"{where} {sizes.row_tokens} tokens; GB a device"
    ]
    for phase in plan.phases:
        judged = "fits" if phase.total <= devices.memory_gb * GB else "does not fit"
        lines.append(f"  {phase.name:<10} {phase.total / GB:6.1f}  {judged}: {_terms(phase)}")
    host = ", ".join(f"{name} {size / GB:.1f}" for name, size in plan.host.items() if size >= _SHOWN_GB * GB)
    disk = ", ".join(f"{name} {size / GB:.1f}" for name, size in plan.disk.items() if size >= _SHOWN_GB * GB)
    lines.append(f"  host       {sum(plan.host.values()) / GB:6.1f}  a machine: {host or 'less than 0.1 each'}")
    lines.append(f"  disk       {sum(plan.disk.values()) / GB:6.1f}  {disk or 'less than 0.1 each'}")
    export = ", ".join(f"{name} {size / GB:.1f}" for name, size in plan.export.items())
    lines.append(f"  export             medtune export afterwards, wherever it writes: {export}")
    lines += [f"  not known  {each}" for each in plan.unknown]
    return "\n".join(lines)


def _terms(phase: Phase) -> str:
    shown = sorted(((size, name) for name, size in phase.terms.items() if size >= _SHOWN_GB * GB), reverse=True)
    if len(shown) > _MOST_TERMS:
        shown = [*shown[:_MOST_TERMS], (sum(size for size, _ in shown[_MOST_TERMS:]), "other")]
    return ", ".join(f"{name} {size / GB:.1f}" for size, name in shown) or "less than 0.1 each"
