"""Opens the data of a recipe: what is asked, in whose words, and what is learnt, checked to fit each other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from medtune.data.prepared.folder import Prepared
from medtune.eval.benchmark import Benchmark
from medtune.trainer.experiment.check_fit import check_fit
from medtune.trainer.experiment.prepared_data import open_for_model
from medtune.trainer.recipe.published_protocol import as_published
from medtune.trainer.recipe.schema import Recipe
from medtune.trainer.training.mixture import TrainingSet, open_training_sets


class OpenedData(NamedTuple):
    """The data of a recipe.

    Attributes:
        recipe: The recipe, with the published protocol of the benchmark where it asks for that.
        prepared: The prepared folder that is evaluated on.
        benchmark: The benchmark in the words that the folder was prepared with.
        training_sets: The prepared folders that are learnt; empty where nothing is trained.
    """

    recipe: Recipe
    prepared: Prepared
    benchmark: Benchmark
    training_sets: Sequence[TrainingSet]


def open_data(recipe: Recipe, *, training: bool) -> OpenedData:
    """Opens what a recipe evaluates on and, for `training`, what it learns from; loads no model.

    Raises:
        FileNotFoundError: A prepared folder, or a media file in it, is missing.
        ValueError: A folder is damaged, does not fit the recipe, or would teach what is asked.
    """
    prepared, benchmark = open_for_model(recipe.data.root, recipe.data.benchmark, recipe.model)
    recipe = as_published(recipe, benchmark)
    check_fit(recipe, prepared, benchmark, training=training)
    training_sets = open_training_sets(recipe, prepared, benchmark) if training else ()
    return OpenedData(recipe, prepared, benchmark, training_sets)
