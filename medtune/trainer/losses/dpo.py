"""Direct preference optimisation: the better reply of each pair gains on the worse one, beside the model of the start.

Shape legend: T target tokens, N replies, P pairs.
"""

from typing import Literal

import torch
from torch.nn.functional import logsigmoid

from medtune.data.bounds import Positive
from medtune.models.target_logprobs import Targets
from medtune.trainer.losses import PerReply
from medtune.trainer.training.batches import MicroBatch

LEARNS_FROM = "pairs"


def loss(
    read: Targets, batch: MicroBatch, *, beta: Positive = 0.1, loss_type: Literal["sigmoid", "ipo"] = "sigmoid"
) -> PerReply:
    """Returns the loss of each pair, at both of its replies; settings have the names of TRL's DPOConfig.

    Args:
        beta: How strongly the model is held at the one with which the stage began; in IPO the margin is 1 / (2 beta).
        loss_type: The logistic loss of the margin (sigmoid), or its squared distance from the wanted one (ipo), where a
            reply counts with the mean over its tokens.

    Source: Rafailov et al., DPO (arXiv:2305.18290), equation 7; Azar et al., IPO (arXiv:2310.12036), equation 17;
    TRL 1.16.0, DPOTrainer, for IPO's mean over tokens.
    """
    pairs = batch.replies
    assert pairs is not None
    assert pairs.start_logprobs_T is not None
    gain_N = read.by_reply(read.logprobs() - pairs.start_logprobs_T, batch.num_replies)
    if loss_type == "ipo":
        gain_N = gain_N / read.by_reply(torch.ones_like(pairs.start_logprobs_T), batch.num_replies).clamp(min=1)
    counted = batch.num_counted
    better_P, worse_P = gain_N[0:counted:2], gain_N[1:counted:2]
    margin_P = better_P - worse_P
    lowered_P = (margin_P - 1 / (2 * beta)) ** 2 if loss_type == "ipo" else -logsigmoid(beta * margin_P)
    borrowed_N = gain_N[counted:] * 0
    watched = {"margin": margin_P, "better_first": (margin_P > 0).float(), "better": better_P, "worse": worse_P}
    return PerReply(
        torch.cat([lowered_P.repeat_interleave(2), borrowed_N]),
        {name: torch.cat([each.repeat_interleave(2), borrowed_N]) for name, each in watched.items()},
    )
