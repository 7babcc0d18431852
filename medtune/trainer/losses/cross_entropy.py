"""Cross entropy of the target tokens, which makes the right answers more likely.

Shape legend: T target tokens.
"""

from torch import Tensor

from medtune.models.target_logprobs import Targets
from medtune.trainer.training.batches import MicroBatch


def loss(read: Targets, batch: MicroBatch) -> Tensor:
    """Returns the cross entropy of each target token, in nats.

    Source: torch.nn.functional.cross_entropy.
    """
    return -read.logprobs()
