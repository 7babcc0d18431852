"""Group-relative policy optimisation: draws that are paid more than the others to their question become more likely.

Shape legend: T target tokens, N replies.
"""

from typing import Literal

import torch
from torch import Tensor

from medtune.data.bounds import NotNegative, PartlyShare
from medtune.models.target_logprobs import Targets
from medtune.trainer.losses import PerReply
from medtune.trainer.training.batches import MicroBatch

LEARNS_FROM = "draws"


def loss(
    read: Targets,
    batch: MicroBatch,
    *,
    epsilon: PartlyShare = 0.2,
    epsilon_high: NotNegative | None = None,
    beta: NotNegative = 0.0,
    importance_sampling_level: Literal["token", "sequence"] = "token",
    loss_type: Literal["grpo", "dr_grpo"] = "grpo",
) -> PerReply:
    """Returns the clipped objective of each reply, which is lowered; settings have the names of TRL's GRPOConfig.

    Args:
        epsilon: How far below 1 the ratio of a token's probabilities now and when it was drawn is followed.
        epsilon_high: How far above 1 it is followed; None takes `epsilon`.
        beta: Weight of the divergence from the model with which the stage began.
        importance_sampling_level: Whether the ratio is a token's own, or the reply's geometric mean (GSPO).
        loss_type: Divides a reply's sum by its own length (grpo) or by the largest one (dr_grpo).

    Source: Shao et al., DeepSeekMath (arXiv:2402.03300), equations 3 and 4; Yu et al., DAPO (arXiv:2503.14476), section
    3.1, for two bounds; Zheng et al., GSPO (arXiv:2507.18071), equations 5 to 7; Liu et al., Dr. GRPO
    (arXiv:2503.20783), section 3.1.
    """
    drawn = batch.replies
    assert drawn is not None
    logprobs_T = read.logprobs(drawn.temperature)
    old_T = logprobs_T.detach() if drawn.old_logprobs_T is None else drawn.old_logprobs_T

    def by_reply(numbers_T: Tensor) -> Tensor:
        return read.by_reply(numbers_T, batch.num_replies)

    length_N = by_reply(torch.ones_like(old_T)).clamp(min=1)
    log_ratio_T = logprobs_T - old_T
    if importance_sampling_level == "sequence":
        log_ratio_T = (by_reply(log_ratio_T) / length_N)[read.sequence_T]
    ratio_T, advantage_T = log_ratio_T.exp(), drawn.advantage_N[read.sequence_T]
    high = epsilon if epsilon_high is None else epsilon_high
    clipped_T = ratio_T.clamp(1 - epsilon, 1 + high)
    lowered_T = -torch.minimum(ratio_T * advantage_T, clipped_T * advantage_T)
    beyond_T = torch.where(advantage_T > 0, ratio_T > 1 + high, ratio_T < 1 - epsilon) & (advantage_T != 0)
    watched = {"clipped": by_reply(beyond_T.float()) / length_N, "entropy": by_reply(-logprobs_T.detach()) / length_N}
    if drawn.start_logprobs_T is not None:
        behind_T = drawn.start_logprobs_T - logprobs_T
        divergence_T = behind_T.exp() - behind_T - 1
        lowered_T = lowered_T + beta * divergence_T
        watched["kl"] = by_reply(divergence_T.detach()) / length_N
    if loss_type == "dr_grpo":
        return PerReply(by_reply(lowered_T) / drawn.max_new_tokens, watched)
    return PerReply(by_reply(lowered_T) / length_N, watched)
