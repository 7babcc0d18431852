"""Values and gradients of the losses over draws and pairs are those of TRL's own trainers (bench/other_tools)."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from medtune.models.target_logprobs import Targets, of_logits
from medtune.trainer.contracts.of_losses import tried_pass
from medtune.trainer.losses import PerReply, find_loss
from medtune.trainer.recipe.loss import LossSettings
from medtune.trainer.training.batches import LearntReplies

RECORD = json.loads((Path(__file__).parent / "trl_losses.json").read_text("utf-8"))
HELD = {name: torch.tensor(each) for name, each in RECORD["inputs"].items()}


def _read(now_T: Tensor, sequence_T: Tensor) -> Targets:
    """Returns targets with these log-probabilities, each of a token beside one that has the rest."""
    logits_TV = torch.stack([now_T, torch.log1p(-now_T.exp())], dim=1)
    return Targets([of_logits(logits_TV, torch.zeros(len(now_T), dtype=torch.int64), sequence_T)])


def _made(row: dict[str, Any], now: Tensor) -> Tensor:
    sequence_T, place_T = HELD["mask"].nonzero(as_tuple=True)

    def at(numbers: Tensor) -> Tensor:
        return numbers[sequence_T, place_T]

    number = len(now)
    replies = LearntReplies(
        HELD["advantages"], at(HELD["old"]), at(HELD["start"]), temperature=1.0, max_new_tokens=RECORD["max_new_tokens"]
    )
    if row["loss"] == "grpo" and row["settings"]["beta"] == 0:
        replies = replies._replace(start_logprobs_T=None)
    batch = tried_pass()._replace(num_replies=number, num_counted=number, step_replies=number, replies=replies)
    made = find_loss(LossSettings(row["loss"], row["settings"]))(_read(at(now), sequence_T), batch)
    assert isinstance(made, PerReply)
    return made.numbers_N.mean()


@pytest.mark.parametrize("row", RECORD["rows"], ids=lambda row: f"{row['loss']} {row['settings']}")
def test_value_and_gradient_are_those_of_trl(row: dict[str, Any]) -> None:
    now = HELD["now"].clone().requires_grad_()
    value = _made(row, now)
    value.backward()
    assert now.grad is not None
    assert value.item() == pytest.approx(row["value"], rel=1e-5)
    torch.testing.assert_close(now.grad, torch.tensor(row["gradient"]), rtol=1e-4, atol=1e-6)


def test_every_setting_of_the_record_changes_the_value() -> None:
    """The record could otherwise be met by a loss that reads none of its settings."""
    values = [row["value"] for row in RECORD["rows"]]
    assert len(set(values)) == len(values) == 9
