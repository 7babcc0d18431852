"""Says what memory a run lacks, and the change that makes it fit."""

from collections.abc import Iterator
from dataclasses import replace
from heapq import nlargest, nsmallest

from medtune.data.types import MediaGroup
from medtune.models.assemble import ZooEntry
from medtune.models.contract import Assembled, Model
from medtune.models.sequence.tree import grow
from medtune.models.tuning.quantize import NARROW
from medtune.models.weights.export import check_loading
from medtune.trainer.experiment.open_data import OpenedData, cannot_divide
from medtune.trainer.plan.devices import GB, Devices, on_devices
from medtune.trainer.plan.plan import LARGE, MemoryPhase, Plan, Planner, Sizes
from medtune.trainer.recipe.check import check_recipe
from medtune.trainer.recipe.schema import Recipe, StrategyName
from medtune.trainer.replies.check import replies_at_once
from medtune.trainer.training.batches import stage_batches
from medtune.trainer.training.mixture import stage_mixture

_SHOWN_GB = 0.05
_MOST_TERMS = 4
_LONGEST = 20
"""The number of groups, those with the longest texts, whose rows are laid out; also of those with the shortest."""


def change_that_fits(recipe: Recipe, entry: ZooEntry, devices: Devices, planner: Planner) -> str | None:
    """Returns the first change with which every phase fits, as `--set` takes it; None if no single one suffices.

    A strategy comes with an optimizer that it can divide. A change of precision or batch comes before one that takes
    more time, and more devices come last. What is offloaded is named with the memory that a machine then needs.
    """
    model = entry.skeleton(recipe.model)
    for said, changed, machine in _changes(recipe, devices):
        if not is_accepted(changed, entry, model):
            continue
        if planner.least(changed, machine) > machine.memory_gb * GB:
            continue
        if (plan := planner.plan(changed, machine)).fits(machine):
            host = f" (a machine then needs {sum(plan.host.values()) / GB:.0f} GB of its own memory)"
            return said + host * changed.train.offloads
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
        yield ("train.precision=bf16-mixed", replace(recipe, train=replace(train, precision="bf16-mixed")), devices)
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
        for name in _strategies(recipe):
            changed = _with(recipe, name)
            yield _changed_fields(recipe, changed), changed, devices
    for count in (2, 4, 8):
        if count > devices.count:
            more = replace(devices, count=count)
            for name in (train.strategy, *_strategies(recipe)):
                changed = _with(recipe, name)
                yield (
                    f"train.devices={count} {_changed_fields(recipe, changed)}".rstrip(),
                    on_devices(changed, more),
                    more,
                )


def _strategies(recipe: Recipe) -> tuple[StrategyName, ...]:
    known: tuple[StrategyName, ...] = (
        "deepspeed_stage_2",
        "fsdp",
        "deepspeed_stage_2_offload",
        "deepspeed_stage_3_offload",
    )
    return tuple(name for name in known if name != recipe.train.strategy)


def _with(recipe: Recipe, strategy: StrategyName) -> Recipe:
    train = replace(recipe.train, strategy=strategy)
    if train.optimizer == "adamw_8bit" and (strategy == "fsdp" or train.offloads):
        # bitsandbytes cannot update such weights.
        train = replace(train, optimizer="adamw")
    return replace(recipe, train=train)


def _changed_fields(recipe: Recipe, changed: Recipe) -> str:
    fields = ("strategy", "optimizer")
    pairs = ((name, getattr(recipe.train, name), getattr(changed.train, name)) for name in fields)
    return " ".join(f"train.{name}={new}" for name, old, new in pairs if old != new)


def missing_memory(plan: Plan, recipe: Recipe, entry: ZooEntry, devices: Devices, planner: Planner) -> str | None:
    """Returns a message that says how much memory is missing and what makes the run fit; None if it fits.

    Args:
        recipe: The recipe, with the numbers of machines and devices that were planned.
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


def plan_table(plan: Plan, devices: Devices, recipe: Recipe, sizes: Sizes) -> str:
    """Returns the plan as lines of text: a line for each phase, the host, the disk, and what is not known."""
    where = "rows of" if sizes.is_measured else "rows of an assumed"
    lines = [
        f"plan       {devices} with {devices.memory_gb:.0f} GB, {recipe.train.strategy}, {recipe.train.precision}, "
        f"{where} {sizes.row_tokens} tokens; GB a device"
    ]
    fits = "may fit" if plan.unknown else "fits"
    for phase in plan.phases:
        judged = fits if phase.total <= devices.memory_gb * GB else "does not fit"
        lines.append(f"  {phase.name:<10} {phase.total / GB:6.1f}  {judged}: {_terms(phase)}")
    host = ", ".join(f"{name} {size / GB:.1f}" for name, size in plan.host.items() if size >= _SHOWN_GB * GB)
    disk = ", ".join(f"{name} {size / GB:.1f}" for name, size in plan.disk.items() if size >= _SHOWN_GB * GB)
    lines.append(f"  host       {sum(plan.host.values()) / GB:6.1f}  a machine: {host or 'less than 0.1 each'}")
    lines.append(f"  disk       {sum(plan.disk.values()) / GB:6.1f}  {disk or 'less than 0.1 each'}")
    export = ", ".join(f"{name} {size / GB:.1f}" for name, size in plan.export.items())
    lines.append(f"  export             medtune export afterwards, wherever it writes: {export}")
    lines += [f"  not known  {each}" for each in plan.unknown]
    return "\n".join(lines)


def _terms(phase: MemoryPhase) -> str:
    shown = sorted(((size, name) for name, size in phase.terms.items() if size >= _SHOWN_GB * GB), reverse=True)
    if len(shown) > _MOST_TERMS:
        shown = [*shown[:_MOST_TERMS], (sum(size for size, _ in shown[_MOST_TERMS:]), "other")]
    return ", ".join(f"{name} {size / GB:.1f}" for size, name in shown) or "less than 0.1 each"


def sizes_of(data: OpenedData, assembled: Assembled) -> Sizes:
    """Returns the largest row of the training, counted on the groups with the longest texts and the most media."""
    recipe = data.recipe
    tokens, targets, rows = 1, 1, 1
    least: int | None = None
    for stage in recipe.stages:
        mixture = stage_mixture(recipe, stage, data.training_sets, limit=None)
        batches = stage_batches(mixture, stage, assembled, world_size=recipe.train.world_size)
        draws = [(mixture.group(draw), draw) for draw in batches.first_epoch()]
        longest = nlargest(_LONGEST, draws, key=lambda each: _size(each[0]))
        most = nlargest(_LONGEST, draws, key=lambda each: len(each[0].media))
        if stage.micro_batch_tokens is not None:
            shortest = nsmallest(_LONGEST, draws, key=lambda each: (len(each[0].media), _size(each[0])))
            least = min(
                [sum(batches.sequences.lengths(draw)) for _, draw in shortest] + ([] if least is None else [least])
            )
        replies, longest_reply = replies_at_once(stage)
        for _, draw in (*longest, *most):
            layouts = batches.sequences.layouts(draw)
            if assembled.model.plain_because is None:
                tree = grow(layouts, range(len(layouts)))
                # Draws stand behind the prompts as the answers do.
                drawn = len(layouts) * replies * longest_reply
                tokens, targets = max(tokens, len(tree.ids) + drawn), max(targets, len(tree.targets) + drawn)
            else:
                tokens = max(tokens, *(len(layout.ids) + longest_reply for layout in layouts))
                targets = max(targets, *(layout.num_targets + longest_reply for layout in layouts))
                rows = max(rows, len(layouts) * max(1, replies))
    return Sizes(tokens, targets, rows, least, is_measured=True)


def _size(group: MediaGroup) -> int:
    return sum(len(question.text) + len(question.answer) for question in group.questions)
