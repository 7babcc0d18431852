"""Prints the hours of a run as a table."""

from collections.abc import Mapping

from medtune.trainer.hours.pieces import Cost
from medtune.trainer.hours.probe import Hours
from medtune.trainer.plan.devices import Devices

_MINUTE_S, _HOUR_S = 60, 3600


def hours_table(hours: Hours, here: Devices) -> str:
    """Returns the hours as lines of text: the phases with what was counted and measured, and what is not in them.

    Args:
        hours: The hours.
        here: The device on which they were measured.
    """
    train = hours.recipe.train
    world = train.world_size
    counted = "the run" if world == 1 else f"each of {world} devices like it"
    lines = [
        f"hours      measured on 1 x {here.name}, one process, {_strategy(train.strategy)}, {train.precision}; counted "
        f"for {counted}; with 95 % intervals"
    ]
    for row in hours.rows:
        lines.append(f"  {row.name:<12} {_stated(row.cost):<24} {_counts(row.counts)}")
        lines.append(f"  {'':<12} {'':<24} measured: {row.measured}")
    least = " at least" if world > 1 else ""
    lines.append(f"  {'total':<12} {_stated(hours.total)}{least}")
    lines += [f"  not counted  {each}" for each in hours.not_counted]
    return "\n".join(lines)


def _strategy(name: str) -> str:
    divides = name == "fsdp" or name.startswith("deepspeed_stage_3")
    return f"{name}, whose weights were divided among one device" if divides else name


def _stated(cost: Cost) -> str:
    if not cost.half_s:
        return _long(cost.seconds)
    return (
        f"{_long(cost.seconds)} ({_long(max(0.0, cost.seconds - cost.half_s))} to {_long(cost.seconds + cost.half_s)})"
    )


def _long(seconds: float) -> str:
    """Returns a time in the unit in which it reads best.

    Example:
        >>> _long(5.04), _long(90), _long(9000), _long(400_000)
        ('5.0 s', '1.5 min', '2.5 h', '111 h')
    """
    for unit_s, unit in ((_HOUR_S, "h"), (_MINUTE_S, "min")):
        if seconds >= unit_s:
            number = seconds / unit_s
            return f"{number:.1f} {unit}" if number < 100 else f"{number:.0f} {unit}"
    return f"{seconds:.1f} s"


def _counts(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{number:,} {what}" for what, number in counts.items() if number)
