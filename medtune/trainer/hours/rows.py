"""The rows of the table of hours: what was counted in a phase of a run, and what it takes."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from statistics import median

from medtune.trainer.hours.answering import AnsweringTimes, Audited
from medtune.trainer.hours.steps import StageTimes, of_one_device, warm_up_steps
from medtune.trainer.hours.work import Asking, Chosen, Cost, Pieces, num_further_states, num_validations, together
from medtune.trainer.recipe.schema import Recipe
from medtune.trainer.training.stages import PlannedStage


@dataclass(frozen=True, slots=True)
class Row:
    """What a phase of a run takes."""

    name: str
    cost: Cost  # Its seconds.
    counts: Mapping[str, int]  # What the run does in it, and one device of several.
    measured: str  # How much of it was measured, with the middle and the slowest.


def phase_row(
    name: str,
    asked: Asking,
    answered: AnsweringTimes,
    chosen: Chosen,
    *,
    loading_s: float,
    scoring_s: float,
    devices: int,
) -> Row:
    """Returns the row of an evaluation before or after training."""
    which = "all of them" if chosen.is_all else f"behind {len(chosen.warm_up)} others"
    texts = f"; {sum(answered.texts.units)} texts without media" if answered.texts.units else ""
    beside = f"loading {_seconds(loading_s)}, scoring {_seconds(scoring_s)}"
    return Row(
        name,
        together([Cost(loading_s + scoring_s), answered.all(asked)]),
        _counts(asked, devices=devices),
        f"{sum(answered.groups.units)} groups, {which}: {_spread(answered.groups)} a group{texts}; {beside}",
    )


def training_row(
    recipe: Recipe, planned: PlannedStage, times: StageTimes, *, from_files: float, freeing_s: float
) -> Row:
    """Returns the row of a stage's steps; a device reads `from_files` volumes from their files."""
    train, stage = recipe.train, planned.stage
    steps = times.all(stage.steps, from_files=from_files)
    states = num_further_states(planned, every_steps=recipe.eval.every_steps, saved_every=train.save_every_steps)
    if train.save_every_minutes is not None:
        states += int(steps.seconds / 60 / train.save_every_minutes)
    held_s = times.loading_s + freeing_s
    warm_up = 2 * warm_up_steps(recipe, of_one_device(stage, world_size=train.world_size))
    said = f"{len(times.measured.seconds)} steps behind {warm_up} others: {_spread(times.measured)}"
    return Row(
        _of("training", recipe, planned),
        together([Cost(held_s + states * times.validations[1].saving), steps]),
        {"steps": stage.steps, "groups a step": stage.batch_size, "further states": states},
        f"{said}; loading {_seconds(held_s)}",
    )


def validation_row(recipe: Recipe, planned: PlannedStage, times: StageTimes, asked: Asking, *, scoring_s: float) -> Row:
    """Returns the row of the validations of a stage: the first, and the others, which are like the second."""
    devices = recipe.train.world_size
    number = num_validations(planned, every_steps=recipe.eval.every_steps)
    groups = math.ceil(len(asked.plan) / devices)
    costs, shown = [], Pieces((), ())
    for each, often in zip(times.validations, (1, number - 1), strict=True):
        shown = Pieces(tuple(each.answering), tuple(each.groups), sum(each.groups) / len(asked.plan))
        costs.append(together([shown.all(groups), Cost(each.before + scoring_s + each.saving)]).times(often))
    said = (
        f"2 with {sum(shown.units)} of {len(asked.plan)} groups: {_spread(shown)} a group; scoring "
        f"{_seconds(scoring_s)}, saving {_seconds(times.validations[1].saving)}"
    )
    counts = {"validations": number, **_counts(asked, devices=devices)}
    return Row(_of("validations", recipe, planned), together(costs), counts, said)


def audit_row(audit: Audited) -> Row:
    said = f"{sum(audit.reading.units)} read and {sum(audit.encoding.units)} encoded: {_spread(audit.reading)} read"
    if audit.encoding.units:
        said += f", {_spread(audit.encoding)} encoded"
    return Row("audit", audit.cost, {"groups read": audit.num_read, "groups encoded": audit.num_encoded}, said)


def not_counted(recipe: Recipe) -> list[str]:
    """Returns what makes a run longer or shorter than its rows say, in words."""
    found = ["the start of the command and opening the data, downloads, fitting the audit's classifiers, the report"]
    if recipe.train.world_size > 1:
        found.append("what the devices exchange, and waiting for one another: one process was measured")
    if recipe.train.early_stopping is not None:
        found.append("train.early_stopping may end a stage earlier; all steps and validations are counted")
    if recipe.log.wandb != "disabled":
        found.append("sending to W&B")
    return found


def _of(what: str, recipe: Recipe, planned: PlannedStage) -> str:
    return f"{what}, {planned.stage.name}" if len(recipe.stages) > 1 else what


def _counts(asked: Asking, *, devices: int) -> dict[str, int]:
    shared = {"groups a device": len(asked.mine)} if devices > 1 else {}
    return {"questions": asked.questions, "answers": len(asked.requests), "groups": len(asked.plan), **shared}


def _spread(pieces: Pieces) -> str:
    rates = sorted(pieces.rates_s)
    if not rates:
        return "nothing"
    return f"{_seconds(median(rates))} in the middle, {_seconds(rates[-1])} the slowest"


def _seconds(seconds: float) -> str:
    return f"{seconds:.3g} s" if seconds < 100 else f"{seconds / 60:.3g} min"
