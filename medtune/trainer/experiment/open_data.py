"""Opens the data of a recipe: the prepared folder, its benchmark and the training sets, and checks that they fit."""

from collections.abc import Sequence
from typing import NamedTuple

from medtune.data.prepared.read import Prepared
from medtune.data.types import Split
from medtune.eval.asking.conditions import CONDITIONS, check_conditions
from medtune.eval.benchmark import Benchmark
from medtune.trainer.experiment.evaluation_only import whole_test
from medtune.trainer.experiment.for_model import open_for_model
from medtune.trainer.recipe.published_protocol import as_published
from medtune.trainer.recipe.readings import primary_parser, with_readings
from medtune.trainer.recipe.schema import Recipe
from medtune.trainer.recipe.scorable import check_scored
from medtune.trainer.training.mixture import TrainingSet, open_training_sets
from medtune.trainer.training.validation.watched import check_early_stopping


class OpenedData(NamedTuple):
    """The opened data of a recipe.

    Attributes:
        recipe: The recipe, with the benchmark's published protocol filled in if it asks for that, and with readings
            that fit the questions.
        prepared: The prepared folder that is evaluated on.
        benchmark: The benchmark with the prompts that the folder was prepared with.
        training_sets: The prepared folders that the model is trained on; empty if nothing is trained.
    """

    recipe: Recipe
    prepared: Prepared
    benchmark: Benchmark
    training_sets: Sequence[TrainingSet]


def open_data(recipe: Recipe, *, training: bool, limit: int | None = None) -> OpenedData:
    """Opens the prepared folder that a recipe evaluates on and, if `training` is set, its training sets.

    No model is loaded.

    Args:
        recipe: The recipe.
        training: Whether the model is trained.
        limit: About how many questions of each split are used; None uses all.
    """
    prepared, benchmark = open_for_model(recipe.data.root, recipe.data.benchmark, recipe.model)
    asked = prepared.questions(recipe.eval.split)
    benchmark = benchmark.for_part(asked)
    recipe = with_readings(as_published(recipe, benchmark), asked)
    check_fit(recipe, prepared, benchmark, training=training)
    parser = primary_parser(recipe, benchmark)
    check_scored(recipe, prepared, benchmark, parser=parser, training=training, limit=limit)
    if training:
        check_early_stopping(recipe, benchmark)
    training_sets = open_training_sets(recipe, prepared, benchmark) if training else ()
    return OpenedData(recipe, prepared, benchmark, training_sets)


def check_fit(recipe: Recipe, prepared: Prepared, benchmark: Benchmark, *, training: bool) -> None:
    """Refuses a recipe whose settings do not fit its prepared folder and benchmark.

    Checked are the answer format, the parser, the conditions, and that no needed split is empty. Training needs the
    splits train and val; with a mixture, train comes from the mixture.
    """
    official = benchmark.official if prepared.templates is not None else None
    if official is not None and official.answer_format != recipe.model.answer_format:
        raise ValueError(
            f"{prepared.root} holds {official.of} prompts, which ask for an answer as {official.answer_format}; "
            f"model.answer_format is {recipe.model.answer_format}"
        )
    known = [*benchmark.parsers, "likelihood", "likelihood_per_token"]
    if primary_parser(recipe, benchmark) not in known:
        raise ValueError(f"eval.parser is {recipe.eval.parser!r}; there are: {', '.join(known)}")
    learnt: tuple[Split, ...] = ("val",) if recipe.data.mixture else ("train", "val")
    needed: tuple[Split, ...] = (*learnt, recipe.eval.split) if training else (recipe.eval.split,)
    for split in needed:
        if prepared.num_questions(split) == 0:
            why = whole_test(prepared) or "Prepare the folder with more patients"
            otherwise = "To evaluate only, use `medtune eval`" if training else "Or choose another eval.split"
            raise ValueError(f"{prepared.root}: the split {split!r} is empty. {why}. {otherwise}")
    if set(recipe.eval.conditions) - set(CONDITIONS):
        check_conditions(prepared.groups(recipe.eval.split), benchmark, recipe.eval.conditions)
