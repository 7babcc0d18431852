"""Tests that the losses of a step are read once, before the optimizer's step, and that the passes of one that is not
finite are named."""

from typing import Any

import pytest
import torch
from torch.overrides import TorchFunctionMode

from medtune.trainer.training.step_losses import NonFiniteLossError, StepLosses

READS = ("item", "tolist", "__float__", "__bool__", "__int__", "cpu", "numpy")


class _Reads(TorchFunctionMode):
    """Counts how often values of tensors are asked for."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.count += getattr(func, "__name__", "") in READS
        return func(*args, **(kwargs or {}))


def test_a_step_of_many_passes_is_read_once() -> None:
    losses = StepLosses()
    with _Reads() as reads:
        for number in range(5):
            losses.add(torch.tensor(0.1 * number, requires_grad=True), (f"q{number}",))
        assert reads.count == 0
        assert losses.read(torch.tensor(7.0), step=3) == [7.0]
        assert reads.count == 1
    assert losses.total == pytest.approx(1.0)
    assert len(losses) == 0


def test_further_passes_are_added_until_the_step_is_forgotten() -> None:
    losses = StepLosses()
    for _ in range(2):
        losses.add(torch.tensor(0.25), ("q",))
        assert losses.read(step=1) == []
    assert losses.total == 0.5
    losses.forget()
    assert losses.total == 0.0
    assert losses.read(step=2) == []


def test_the_pass_whose_loss_is_not_finite_is_named_and_no_other() -> None:
    losses = StepLosses()
    losses.add(torch.tensor(1.0), ("fine",))
    losses.add(torch.tensor(float("inf")), tuple(f"odd{number}" for number in range(9)))
    with pytest.raises(
        NonFiniteLossError, match=r"the loss is inf at step 4; .* odd0, .*, odd7, \.\.\.\. Lower"
    ) as said:
        losses.read(torch.tensor(float("nan")), step=4)
    assert "fine" not in str(said.value)
