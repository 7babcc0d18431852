"""Finds data sets that are meant for evaluation only, in a recipe's data and in the training of its weights."""

from medtune.benchmarks import find_source
from medtune.data.prepared.read import Prepared
from medtune.eval.data_label import recorded_label
from medtune.trainer.recipe.schema import ModelBlock
from medtune.trainer.seen.weights_facts import facts_before


def whole_test(prepared: Prepared) -> str | None:
    """Returns a message that says why a folder holds only a test split and how to divide it.

    Returns None if its source is not for evaluation only, or if the folder was divided already.

    Only `medtune prepare` divides a data set. The folder then holds the splits and records how they were made.
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
    """Returns the evaluation-only data sets that the recipe's checkpoint, adapter and exported weights were trained on.

    Each element has the form of `DataLabel.unofficial_training`.

    Raises:
        AssetError: The adapter cannot be downloaded.
    """
    return [recorded_label(facts).unofficial_training for facts in facts_before(model)]
