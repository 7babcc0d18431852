"""The losses of the forward passes of an optimizer step, which stay on the device until the step needs their values.

A number of a GPU is read only after all that was queued before it has run. To read the loss of each pass before its
backward pass would leave the device without work twice in each pass.
"""

import math
from collections.abc import Collection
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from medtune.models.weights.checkpoint import trainable_names

SHOWN = 8
"""Number of questions that a message names."""


class NonFiniteLossError(ValueError):
    """Raised when the loss is infinite or not a number; the message names the questions of the batch."""


class _PassLoss(NamedTuple):
    loss: Tensor
    question_ids: tuple[str, ...]


class StepLosses:
    """Collects the shares that the passes of a step have in its loss.

    Attributes:
        total: The loss of the step so far, of the passes whose losses were read.
    """

    def __init__(self) -> None:
        self._waiting: list[_PassLoss] = []
        self.total = 0.0

    def __len__(self) -> int:
        return len(self._waiting)

    def forget(self) -> None:
        self._waiting.clear()
        self.total = 0.0

    def add(self, loss: Tensor, question_ids: tuple[str, ...]) -> None:
        """Takes the share of a pass over these questions; nothing waits for it."""
        self._waiting.append(_PassLoss(loss.detach(), question_ids))

    def read(self, *further: Tensor, step: int) -> list[float]:
        """Returns the values of further numbers of the step; the losses are read with them, in one transfer."""
        waiting, self._waiting = self._waiting, []
        numbers = [*(each.loss for each in waiting), *further]
        if not numbers:
            return []
        values: list[float] = torch.stack([number.double().reshape(()) for number in numbers]).tolist()
        for each, value in zip(waiting, values, strict=False):
            if not math.isfinite(value):
                shown = ", ".join(each.question_ids[:SHOWN]) + (", ..." if len(each.question_ids) > SHOWN else "")
                raise NonFiniteLossError(
                    f"the loss is {value} at step {step}; the batch holds the questions {shown}. Lower the learning "
                    "rates, or look at these images"
                )
        self.total += sum(values[: len(waiting)])
        return values[len(waiting) :]


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
