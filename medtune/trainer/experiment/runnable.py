"""Refuses what a recipe's model cannot learn, before a run begins; `validate` and every run make the same checks.

The modules of the model are enough for that. They have no weights, so that the checks take no memory and no download.
"""

import torch

from medtune.models.assemble import zoo_entry
from medtune.models.contract import Model
from medtune.models.tuning.apply import adapt, set_learning
from medtune.models.tuning.quantize import quantize_language, resolved
from medtune.models.tuning.starting_weights import check_starts
from medtune.models.weights.export import check_loading, is_exported
from medtune.trainer.devices.ranks import device_of_rank
from medtune.trainer.experiment.open_data import cannot_divide
from medtune.trainer.losses import find_loss
from medtune.trainer.recipe.schema import Recipe


def adapted_as_stages_say(recipe: Recipe, model: Model) -> tuple[str, ...]:
    """Adds the adapters of all stages to a model, which may be a skeleton; refuses what could not learn in one of them.

    Returns:
        Sentences about what the tuning leaves out.
    """
    tunings = [stage.tuning for stage in recipe.stages]
    notes = adapt(model, tunings, seed=recipe.train.seed)
    check_starts(model, tunings)
    for tuning in tunings:
        set_learning(model, tuning)
    return notes


def refuse_unfit(recipe: Recipe, *, training: bool) -> None:
    """Refuses the fields of a recipe that its model does not take, and a tuning that does not fit it."""
    if recipe.model.endpoint is not None:
        return
    if training:
        find_loss(recipe.train.loss)
    entry = zoo_entry(recipe.model.name, recipe.model.weights)
    check_loading(recipe.model.name, entry, recipe.model)
    if not training or (recipe.model.weights is not None and is_exported(recipe.model.weights)):
        return
    # What the checks draw must not change what the run draws.
    with torch.random.fork_rng(devices=[]):
        model = entry.skeleton(recipe.model)
        if recipe.model.language_bits is not None:
            quantize_language(model, precision="32-true", device=torch.device("meta"))
        adapted_as_stages_say(recipe, model)
    if refused := cannot_divide(model, recipe):
        raise ValueError(refused)


def wrong_precision(recipe: Recipe) -> str | None:
    """Returns why the device of this machine cannot compute as train.precision says; None if it can."""
    try:
        resolved(recipe.train.precision, device_of_rank(0))
    except ValueError as error:
        return f"precision: {error}"
    return None
