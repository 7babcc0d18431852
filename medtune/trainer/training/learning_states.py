"""Which parameters a saved state of the module holds: those that learn."""

from collections.abc import Collection
from typing import Any

from torch import nn

from medtune.models.weights.checkpoint import trainable_names


def keep_what_learns(module: nn.Module, state: dict[str, Any], prefix: str, _: object) -> None:
    """Keeps only the parameters that learn in a saved state; the others are loaded as the recipe says."""
    learning = {f"{prefix}{name}" for name in trainable_names(module)}
    for name in [name for name in state if name.startswith(prefix) and name not in learning]:
        del state[name]


def expect_what_learns(module: nn.Module, keys: Any) -> None:
    """Lets a saved state miss what does not learn."""
    learning = tuple(trainable_names(module))
    keys.missing_keys[:] = [name for name in keys.missing_keys if name.endswith(learning)]


def refuse_other_names(found: Collection[str], module: nn.Module) -> None:
    """Refuses a saved state of another model or tuning."""
    there, learning = set(found), set(trainable_names(module))
    if there and there != learning:
        raise ValueError(
            f"the saved state is of another model.tuning: {len(learning - there)} parameters missing, "
            f"{len(there - learning)} not known; start a new run folder, or build the module as it was"
        )
