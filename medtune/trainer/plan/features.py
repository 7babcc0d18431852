"""Says which features of media items a run keeps, what they take, and what they save."""

from collections.abc import Iterator

from medtune.data.types import MediaRef
from medtune.models.contract import Model
from medtune.models.features.kept_features import drops
from medtune.trainer.experiment.open_data import OpenedData
from medtune.trainer.experiment.runnable import feature_files
from medtune.trainer.plan.devices import GB
from medtune.trainer.plan.plan import Plan
from medtune.trainer.recipe.schema import Recipe, Stage
from medtune.trainer.training.mixture import stage_mixture
from medtune.trainer.training.stages import with_counted_epochs
from medtune.trainer.volume_cache import size_said


def features_said(recipe: Recipe, model: Model, plan: Plan, data: OpenedData | None) -> list[str]:
    """Returns lines of text: whether features are kept between phases and in training, their size and the gain."""
    if why := why_not_kept(recipe, model):
        return [f"no picture's features are kept: {why}"]
    parts = " and ".join(model.kept_parts)
    files = feature_files(recipe)
    where = "in memory" if files is None else f"in memory and in {files.folder}"
    lines = [f"what {parts} make of a picture is kept {where} and named by weights, pixels and type"]
    items = 0 if data is None else len(set(_media(data)))
    room = recipe.data.features_gb * GB
    if plan.feature_bytes:
        whole = items * plan.feature_bytes
        holds = "all" if whole <= room else f"{room / whole:.0%} of them"
        known = f"; {items:,} pictures take {size_said(whole)}, of which" if items else ";"
        lines.append(
            f"{size_said(plan.feature_bytes)} each{known} data.features_gb {recipe.data.features_gb:g} for each device "
            f"holds {holds if items else f'{int(room // plan.feature_bytes):,}'}"
            + ("" if files is None else "; the folder grows to all of them")
        )
    else:
        lines.append("their size is not counted: that takes weights, data and a machine to plan for (--devices)")
    for stage in recipe.stages:
        named = f"stage {stage.name}: " if len(recipe.stages) > 1 else ""
        lines.append(named + _in_training(recipe, stage, model, plan, data))
    return lines


def why_not_kept(recipe: Recipe, model: Model) -> str | None:
    """Returns the reason why a run keeps nothing in any phase; None where it keeps something."""
    if not recipe.data.features_gb and recipe.data.features_dir is None:
        return "data.features_gb is 0"
    if not model.kept_parts:
        return "this model reads pictures within its own forward"
    if recipe.train.divides_weights and recipe.train.world_size > 1:
        return f"train.strategy {recipe.train.strategy} divides the weights, which all ranks gather together"
    return None


def why_not_in_training(recipe: Recipe, stage: Stage, model: Model, data: OpenedData | None) -> str | None:
    """Returns the reason why the steps of a stage make features anew; None where they take what is kept."""
    if recipe.data.augment:
        return f"data.augment ({', '.join(recipe.data.augment)}) changes the pictures"
    how = stage.tuning.parts()
    if learning := [part for part in model.kept_parts if how[part].mode != "frozen"]:
        return f"{' and '.join(learning)} learn{'s' if len(learning) == 1 else ''}"
    if drops(model):
        return f"{' and '.join(model.kept_parts)} draw dropout"
    if data is None or recipe.train.group_questions is not None:
        return None
    counted = with_counted_epochs(recipe, [each.prepared for each in data.training_sets], limit=None)
    steps = counted.stages[recipe.stages.index(stage)].steps
    mixture = stage_mixture(recipe, stage, data.training_sets, limit=None)
    groups = sum(len(member.groups) for member in mixture.members)
    if steps * stage.batch_size <= groups and recipe.data.features_dir is None:
        return f"{steps} steps of {stage.batch_size} groups show none of {groups:,} twice"
    return None


def _in_training(recipe: Recipe, stage: Stage, model: Model, plan: Plan, data: OpenedData | None) -> str:
    if why := why_not_in_training(recipe, stage, model, data):
        return f"not in training, because {why}; phases and validations share them"
    if plan.encoding_share is None:
        return "from the second epoch on training takes them; the gain is not counted either"
    return (
        f"from the second epoch on a step makes {1 / (1 - plan.encoding_share):.2f} times fewer products "
        f"({plan.encoding_share:.0%} are theirs); the phases share them too"
    )


def _media(data: OpenedData) -> Iterator[MediaRef]:
    for each in data.training_sets:
        for group in each.prepared.groups("train"):
            yield from group.media
    for split in dict.fromkeys(("val", data.recipe.eval.split)):
        for group in data.prepared.groups(split):
            yield from group.media
