"""The losses of the forward passes of an optimizer step, which stay on the device until the step needs their values.

A number of a GPU is read only after all that was queued before it has run. To read the loss of each pass before its
backward pass would leave the device without work twice in each pass.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

SHOWN = 8
"""Number of questions that a message names."""


class NonFiniteLossError(ValueError):
    """Raised when a loss or its gradient is infinite or not a number; the message names the questions of the batch."""


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

    def read(self, *, step: int, norm: Tensor | None = None, is_scaled: bool = False) -> float:
        """Returns the norm of the step's gradient, NaN without one; the losses are read with it, in one transfer.

        Args:
            is_scaled: Whether a scaler leaves out steps whose gradient is too large for float16.
        """
        waiting, self._waiting = self._waiting, []
        numbers = [*(each.loss for each in waiting), *(() if norm is None else (norm,))]
        if not numbers:
            return math.nan
        values: list[float] = torch.stack([number.double().reshape(()) for number in numbers]).tolist()
        for each, value in zip(waiting, values, strict=False):
            if not math.isfinite(value):
                raise NonFiniteLossError(
                    f"the loss is {value} at step {step}; the batch holds the questions "
                    f"{_first_ids(each.question_ids)}. Lower the learning rates, or look at these images"
                )
        self.total += sum(values[: len(waiting)])
        if norm is None:
            return math.nan
        if not math.isfinite(values[-1]) and not is_scaled:
            ids = [name for each in waiting for name in each.question_ids]
            raise NonFiniteLossError(
                f"the norm of the gradient is {values[-1]} at step {step}, and the loss is {self.total:.6g}; the batch "
                f"holds the questions {_first_ids(ids)}. A loss of your own has no finite slope there (a power below 1 "
                "of 0, a division by 0); else lower the learning rates, set train.precision=32-true, or look at these "
                "images"
            )
        return values[-1]


def _first_ids(question_ids: Sequence[str]) -> str:
    return ", ".join(question_ids[:SHOWN]) + (", ..." if len(question_ids) > SHOWN else "")
