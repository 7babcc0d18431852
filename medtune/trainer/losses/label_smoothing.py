"""Cross entropy whose right answers are a little unsure: a share of each target is spread over the whole vocabulary.

Shape legend: C targets, V vocabulary.
"""

from torch import Tensor

from medtune.data.bounds import PartlyShare
from medtune.models.target_logprobs import Targets
from medtune.trainer.training.batches import MicroBatch


def loss(read: Targets, batch: MicroBatch, *, smoothing: PartlyShare = 0.1) -> Tensor:
    """Returns the cross entropy of each target token against (1 - smoothing) of it and smoothing / V of every token.

    Source: Szegedy et al., Rethinking the Inception Architecture for Computer Vision (arXiv:1512.00567), section 7;
    torch.nn.functional.cross_entropy, label_smoothing.
    """

    def value(logprobs_CV: Tensor, id_C: Tensor) -> Tensor:
        right_C = logprobs_CV.gather(1, id_C.unsqueeze(1)).squeeze(1)
        return -(1 - smoothing) * right_C - smoothing * logprobs_CV.mean(dim=1)

    return read.words(value)
