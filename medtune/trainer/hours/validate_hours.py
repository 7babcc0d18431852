"""The part of `medtune validate --probe` that states the hours of a run, or says why it cannot."""

import os
import re
import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from medtune.eval.asking.plan import plan_visits
from medtune.models.endpoint.messages import cost_text
from medtune.models.endpoint.replies import num_requests, total_tokens
from medtune.models.endpoint.settings import Endpoint
from medtune.trainer.experiment.open_data import OpenedData
from medtune.trainer.hours.probe import LEAST_SIZE, Hours, probe
from medtune.trainer.hours.work import Cost
from medtune.trainer.launch.started import ALONE, how_started
from medtune.trainer.launch.stop import stop_signals
from medtune.trainer.plan.devices import GB, Devices, on_devices, this_machine
from medtune.trainer.plan.plan import LARGE, Plan, Planner
from medtune.trainer.recipe.schema import Recipe

_SAME_MEMORY = 0.12
"""How far the memory that a driver states may be from the round number in a device's name, as a share.

Source: torch counts 85.0e9 bytes on an A100 of 80 GB, 42.4e9 on one of 40 GB and 51.0e9 on an A6000 of 48 GB.
"""


def is_same_kind(named: Devices, here: Devices) -> bool:
    """Returns whether named devices are like the one here: the same name in the driver's words, and as much memory.

    >>> a100 = Devices(1, "NVIDIA A100-SXM4-80GB", 85.0)
    >>> is_same_kind(Devices(8, "A100", 80.0), a100), is_same_kind(Devices(8, "A100", 40.0), a100)
    (True, False)
    >>> is_same_kind(Devices(4, "A6000", 48.0), Devices(1, "NVIDIA RTX A6000", 51.0))
    True
    >>> is_same_kind(Devices(1, "A10", 80.0), a100), is_same_kind(Devices(1, "CPU", 25.0), Devices(1, "CPU", 25.0))
    (False, True)
    """
    words, said = (re.findall(r"[a-z0-9]+", devices.name.lower()) for devices in (named, here))
    alike = abs(named.memory_gb - here.memory_gb) <= _SAME_MEMORY * named.memory_gb
    return bool(words) and set(words) <= set(said) and alike


_MINUTE_S, _HOUR_S = 60, 3600


def hours_table(hours: Hours, here: Devices) -> str:
    """Returns the phases with what was counted and measured `here`, and what is not in them, as lines of text."""
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
    """Probes a recipe with its own numbers of devices and prints its hours; returns what is missing, or None."""
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


def show_served(endpoint: Endpoint, data: OpenedData | None) -> str | None:
    """Prints number and cost of the requests of `medtune eval`, sending none; returns what is missing, or None."""
    print(f"model      {endpoint.model}, behind {endpoint.base_url}; it can be evaluated, not trained")
    likelihood = "from prompt_logprobs" if endpoint.prompt_logprobs else "n/a"
    print(f"readings   generation; log-likelihood {likelihood}")
    if data is not None:
        recipe = data.recipe
        plan = plan_visits(
            data.prepared.groups(recipe.eval.split),
            data.benchmark,
            answer_format=recipe.model.answer_format,
            readings=recipe.eval.known_readings,
            conditions=recipe.eval.conditions,
            seed=recipe.train.seed,
            repeats=recipe.eval.draws(recipe.eval.conditions),
        )
        asked = [(visit.shown, request) for visits in plan for visit in visits for request in visit.requests]
        tokens = total_tokens(endpoint, asked, max_new_tokens=recipe.eval.max_new_tokens)
        print(f"cost       {cost_text(endpoint, tokens, number=sum(num_requests(each) for _, each in asked))}")
        print(f"privacy    the images and questions of the split {recipe.eval.split} are sent to that server")
    if endpoint.key_env is not None and not os.environ.get(endpoint.key_env):
        return f"key: the environment variable {endpoint.key_env} is not set; export it before `medtune eval`"
    return None
