"""Finds the one change of a recipe with which it fits, by planning each change that the recipe and its model accept."""

from collections.abc import Iterator
from dataclasses import replace

from medtune.models.assemble import ZooEntry
from medtune.models.contract import Model
from medtune.models.tuning.precision import NARROW
from medtune.models.weights.export import check_loading
from medtune.trainer.experiment.missing_inputs import cannot_divide
from medtune.trainer.plan.devices import GB, Devices, on_devices
from medtune.trainer.plan.plan import Planner
from medtune.trainer.recipe.check import check_recipe
from medtune.trainer.recipe.schema import Recipe, StrategyName


def change_that_fits(recipe: Recipe, entry: ZooEntry, devices: Devices, planner: Planner) -> str | None:
    """Returns the first change with which every phase fits, as `--set` takes it; None if no single one suffices.

    A change of precision or batch comes before one that takes more time, and more devices come last.
    """
    model = entry.skeleton(recipe.model)
    for said, changed, machine in _changes(recipe, devices):
        if not is_accepted(changed, entry, model):
            continue
        if planner.least(changed, machine) <= machine.memory_gb * GB and planner.plan(changed, machine).fits(machine):
            return said
    return None


def is_accepted(recipe: Recipe, entry: ZooEntry, model: Model) -> bool:
    """Returns whether a run would take the recipe, as far as its fields and the model's entry say."""
    if cannot_divide(model, recipe):
        return False
    try:
        check_recipe(recipe)
        check_loading(recipe.model.name, entry, recipe.model)
    except ValueError:
        return False
    return True


def _changes(recipe: Recipe, devices: Devices) -> Iterator[tuple[str, Recipe, Devices]]:
    train, evaluation = recipe.train, recipe.eval
    if train.precision not in NARROW:
        yield (
            "train.precision=bf16-mixed",
            replace(recipe, train=replace(train, precision="bf16-mixed")),
            devices,
        )
    if not train.gradient_checkpointing:
        changed = replace(recipe, train=replace(train, gradient_checkpointing=True))
        yield "train.gradient_checkpointing=true", changed, devices
    tokens = train.micro_batch_tokens
    if not train.stages and tokens is not None:
        for smaller in (tokens // 2, tokens // 4):
            if smaller:
                changed = replace(recipe, train=replace(train, micro_batch_tokens=smaller))
                yield f"train.micro_batch_tokens={smaller}", changed, devices
    elif not train.stages and train.micro_batch_size > 1:
        yield "train.micro_batch_size=1", replace(recipe, train=replace(train, micro_batch_size=1)), devices
    if train.group_questions != 1:
        yield "train.group_questions=1", replace(recipe, train=replace(train, group_questions=1)), devices
    if evaluation.batch_tokens > 1024:
        yield "eval.batch_tokens=1024", replace(recipe, eval=replace(evaluation, batch_tokens=1024)), devices
    if evaluation.batch_size > 1:
        yield "eval.batch_size=1", replace(recipe, eval=replace(evaluation, batch_size=1)), devices
    if recipe.model.language_bits is None:
        yield "model.language_bits=4", replace(recipe, model=replace(recipe.model, language_bits=4)), devices
    if train.world_size > 1:
        yield from ((f"train.strategy={name}", _with(recipe, name), devices) for name in _strategies(recipe))
    for count in (2, 4, 8):
        if count > devices.count:
            more = replace(devices, count=count)
            for name in (train.strategy, *_strategies(recipe)):
                said = f"train.devices={count}" + ("" if name == train.strategy else f" train.strategy={name}")
                yield said, on_devices(_with(recipe, name), more), more


def _strategies(recipe: Recipe) -> tuple[StrategyName, ...]:
    known: tuple[StrategyName, ...] = (
        "deepspeed_stage_2",
        "fsdp",
        "deepspeed_stage_2_offload",
        "deepspeed_stage_3_offload",
    )
    return tuple(name for name in known if name != recipe.train.strategy)


def _with(recipe: Recipe, strategy: StrategyName) -> Recipe:
    return replace(recipe, train=replace(recipe.train, strategy=strategy))
