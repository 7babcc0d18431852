"""Opens a prepared folder for a recipe's model, and refuses questions that the model does not take."""

from dataclasses import replace
from pathlib import Path

from medtune.data.prepared.read import Prepared
from medtune.eval.benchmark import Benchmark
from medtune.models.assemble import CheckpointEntry, ZooEntry, any_entry
from medtune.trainer.experiment.prepared_data import open_with_prompts
from medtune.trainer.recipe.schema import ModelBlock


def open_for_model(
    root: Path, benchmark_name: str, model: ModelBlock, *, named_by: str = "data.benchmark is"
) -> tuple[Prepared, Benchmark]:
    """Returns the opened folder, and the benchmark with the prompts that the folder was prepared with.

    For a model that looks at one organ at a time, each organ of a volume becomes a media group of its own.

    Args:
        benchmark_name: The benchmark for which the folder must have been prepared.
        model: The block `model` of the recipe.
        named_by: The words before the benchmark's name in an error message, which tell the field that names it.
    """
    prepared, benchmark = open_with_prompts(root, benchmark_name, model, named_by=named_by)
    entry = any_entry(model.name)
    refuse_conversations(prepared, model)
    by_organ = isinstance(entry, ZooEntry) and entry.by_organ and model.crop_organs is None
    return replace(prepared, by_organ=by_organ), benchmark


def refuse_conversations(prepared: Prepared, model: ModelBlock) -> None:
    """Refuses a folder with questions about several items, or with earlier turns, for a model that takes none."""
    entry = any_entry(model.name)
    if isinstance(entry, CheckpointEntry) and model.weights is not None:
        entry = entry.of(model.weights)
    if not isinstance(entry, ZooEntry):
        return
    one_item = entry.one_question or (entry.family is not None and _one_item(entry.family))
    if one_item and prepared.most_items > 1:
        raise ValueError(
            f"{prepared.root} shows up to {prepared.most_items} media items together, and {model.name} "
            f"({entry.family or entry.title}) is shown one at a time; choose another model.name, or prepare the folder "
            "without such questions"
        )
    if entry.one_question and prepared.has_turns:
        raise ValueError(
            f"{prepared.root} holds questions with earlier turns, and {model.name} ({entry.title}) is asked one "
            "question by itself; choose another model.name, or prepare the folder without such questions"
        )


def _one_item(family: str) -> bool:
    # A model of no family needs no module of transformers.
    from medtune.models.transformers_vlm.families import find_family

    return find_family(family).one_item
