"""Knows the sets that are for evaluation alone: how to train on one, and which of them weights learnt from."""

from __future__ import annotations

from medtune.benchmarks import find_source
from medtune.data.prepared.read import Prepared
from medtune.eval.data_label import recorded_label
from medtune.models.weights.checkpoint import read_about
from medtune.models.weights.export import is_exported, read_exported
from medtune.trainer.recipe.schema import ModelBlock


def whole_test(prepared: Prepared) -> str | None:
    """Returns why a folder is all test and how to divide it; None where its source is not for evaluation alone.

    Only `medtune prepare` divides a set: the folder then holds the splits and says how they were made.
    """
    made = prepared.manifest
    if made.unofficial_split is not None or not find_source(made.source).test_only:
        return None
    return (
        f"{made.benchmark} is for evaluation alone, so that all of it is test. To train on it nevertheless, divide it: "
        f"medtune prepare {made.benchmark} --source {made.source} --from ... --out ... --unofficial-split patient; "
        "every output then says so"
    )


def unofficial_before(model: ModelBlock) -> list[str]:
    """Returns the sets for evaluation alone that the recipe's checkpoint and exported weights learnt from.

    Each element has the form of `DataLabel.unofficial_training`.

    Raises:
        FileNotFoundError: There is no file at model.checkpoint.
        ValueError: It is no safetensors file.
    """
    found = []
    if model.weights is not None and is_exported(model.weights):
        found.append(recorded_label(read_exported(model.weights)))
    if model.checkpoint is not None:
        found.append(recorded_label(read_about(model.checkpoint)))
    return [label.unofficial_training for label in found]
