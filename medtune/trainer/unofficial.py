"""What a run's weights learnt before it, of sets that are for evaluation alone."""

from __future__ import annotations

from medtune.eval.data_label import recorded_label
from medtune.models.checkpoint import read_about
from medtune.models.exported import is_exported, read_exported
from medtune.trainer.recipe import ModelBlock


def unofficial_before(model: ModelBlock) -> list[str]:
    """Returns what the recipe's checkpoint and exported folder say of it, each as `DataLabel.unofficial_training`.

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
