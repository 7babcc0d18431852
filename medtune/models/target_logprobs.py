"""The log-probabilities of target tokens, read from the states before the output layer without all their logits.

The logits of 10,000 targets over 152,000 tokens take 6 GB, and a plain log-softmax holds several such tensors. Here a
few hundred targets are read at a time. How a log-probability changes with its state does not depend on the loss,

    d logprob_t / d hidden_t = weight[id_t] - softmax_t @ weight,

and is therefore computed in the forward pass, while the logits of the target are there; the backward pass only scales
it. A frozen output layer costs two products then, as in the plain way; one that learns makes its logits again.

Shape legend: T target tokens, C targets of a chunk, E embedding width, V vocabulary.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.distributed.fsdp import FSDPModule
from transformers import PreTrainedModel

from medtune.models.contract import TargetLogprobs
from medtune.models.replies import changed, changes_behind

LOGITS_AT_ONCE = 2**25
"""The number of logits that are held at once, 128 MiB in float32: 220 targets over a vocabulary of 152,000."""
_FINER: dict[torch.dtype, float] = {torch.float16: 256.0}
"""A power of two by which softmax is multiplied where the type cannot hold small numbers, as the loss's scale does."""


def whole_logits_because(language: PreTrainedModel) -> str | None:
    """Returns the reason, in words, why the logits of all targets are held at once; None where they are not."""
    layer: Any = language.get_output_embeddings()
    if type(layer).forward is not nn.Linear.forward or "forward" in vars(layer):
        return f"its output layer, {type(layer).__name__}, is more than a product with one matrix"
    # ZeRO-3 would take `layer.weight` here for a weight of the model that asks, and hold it for the whole pass.
    weights = dict(layer.named_parameters())
    if "bias" in weights:
        return "its output layer has a bias"
    if settings := changes_behind(language):
        return f"it changes its logits after the output layer ({', '.join(settings)})"
    # Strategies gather a divided weight by hooks, which do not look at what comes out.
    gathered = isinstance(layer, FSDPModule) or any(hasattr(each, "ds_id") for each in weights.values())
    if layer._forward_hooks and not gathered:
        return "a hook takes the logits of its output layer"
    return None


def read_targets(language: PreTrainedModel, hidden_TE: Tensor, id_T: Tensor, sequence_T: Tensor) -> TargetLogprobs:
    """Returns the log-probability of each target token's id.

    Args:
        hidden_TE: The states before the output layer in the places where the targets are predicted.
        sequence_T: Number of the sequence to which each target belongs, int64.
    """
    layer: Any = language.get_output_embeddings()
    if whole_logits_because(language) is not None:
        return of_logits(changed(layer(hidden_TE), changes_behind(language)), id_T, sequence_T)
    with _reading(layer):
        logprobs_T, is_likeliest_T = layer(hidden_TE, id_T)
    return TargetLogprobs(logprobs_T, sequence_T, is_likeliest_T)


def of_logits(logits_TV: Tensor, id_T: Tensor, sequence_T: Tensor) -> TargetLogprobs:
    """Returns the log-probability of each target token's id from logits that are there already."""
    logprobs_T = logits_TV.float().log_softmax(dim=-1).gather(1, id_T.unsqueeze(1)).squeeze(1)
    with torch.no_grad():
        is_likeliest_T = logits_TV.gather(1, id_T.unsqueeze(1)).squeeze(1) >= logits_TV.amax(dim=-1)
    return TargetLogprobs(logprobs_T, sequence_T, is_likeliest_T)


@contextmanager
def _reading(layer: nn.Linear) -> Iterator[None]:
    """Makes a linear layer return what is read of its logits instead of them.

    The layer is still called as a module, so that FSDP2 and ZeRO-3 gather its weight before it computes.
    """

    def forward(hidden_TE: Tensor, id_T: Tensor) -> tuple[Tensor, Tensor]:
        read: tuple[Tensor, Tensor] = _Read.apply(hidden_TE, layer.weight, id_T, LOGITS_AT_ONCE)
        return read

    layer.forward = forward  # type: ignore[method-assign, assignment]
    try:
        yield
    finally:
        del layer.forward


class _Read(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, hidden_TE: Tensor, weight_VE: Tensor, id_T: Tensor, logits_at_once: int
    ) -> tuple[Tensor, Tensor]:
        computed = _computed(hidden_TE)
        ctx.chunk = max(1, logits_at_once // weight_VE.shape[0])
        ctx.computed = computed
        finer = _FINER.get(computed, 1.0)
        logprobs_T = hidden_TE.new_empty(len(id_T), dtype=torch.float32)
        is_likeliest_T = hidden_TE.new_empty(len(id_T), dtype=torch.bool)
        needs_slope, learns, *_ = ctx.needs_input_grad
        slope_TE = torch.empty_like(hidden_TE, dtype=computed) if needs_slope else None
        log_sum_T = torch.empty_like(logprobs_T)
        with torch.autocast(hidden_TE.device.type, enabled=False):
            narrow_VE = weight_VE.to(computed)
            for here in _chunks(len(id_T), ctx.chunk):
                id_C1 = id_T[here, None]
                numbers_CV = (hidden_TE[here].to(computed) @ narrow_VE.T).float()
                chosen_C1, top_C1 = numbers_CV.gather(1, id_C1), numbers_CV.amax(1, keepdim=True)
                is_likeliest_T[here] = (chosen_C1 >= top_C1)[:, 0]
                sum_C1 = numbers_CV.sub_(top_C1).exp_().sum(1, keepdim=True)
                log_sum_T[here] = (sum_C1.log() + top_C1)[:, 0]
                logprobs_T[here] = (chosen_C1 - top_C1 - sum_C1.log())[:, 0]
                if slope_TE is not None:
                    left_CV = _left(numbers_CV.div_(sum_C1), id_C1).mul_(finer)
                    slope_TE[here] = left_CV.to(computed) @ narrow_VE
        ctx.save_for_backward(slope_TE, *((hidden_TE, weight_VE, id_T, log_sum_T) if learns else (None,) * 4))
        ctx.mark_non_differentiable(is_likeliest_T)
        ctx.hidden_type = hidden_TE.dtype
        return logprobs_T, is_likeliest_T

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_T: Tensor, _: Tensor) -> tuple[Tensor | None, Tensor | None, None, None]:
        slope_TE, hidden_TE, weight_VE, id_T, log_sum_T = ctx.saved_tensors
        finer = _FINER.get(ctx.computed, 1.0)
        grad_TE = None
        if slope_TE is not None:
            grad_TE = (slope_TE.float() * (grad_T / finer).unsqueeze(1)).to(ctx.hidden_type)
        if weight_VE is None:
            return grad_TE, None, None, None
        with torch.autocast(hidden_TE.device.type, enabled=False):
            narrow_VE = weight_VE.to(ctx.computed)
            grad_VE = torch.zeros_like(weight_VE, dtype=torch.float32)
            for here in _chunks(len(id_T), ctx.chunk):
                narrow_CE = hidden_TE[here].to(ctx.computed)
                soft_CV = (narrow_CE @ narrow_VE.T).float().sub_(log_sum_T[here, None]).exp_()
                change_CV = _left(soft_CV, id_T[here, None]).mul_(grad_T[here, None])
                # Chunks are added in float32, which one product over all targets would do inside.
                grad_VE += change_CV.to(ctx.computed).T @ narrow_CE
        return grad_TE, grad_VE.to(weight_VE.dtype), None, None


def _left(soft_CV: Tensor, id_C1: Tensor) -> Tensor:
    missing_C1 = 1 - soft_CV.gather(1, id_C1)
    return soft_CV.neg_().scatter_(1, id_C1, missing_C1)


def _chunks(number: int, chunk: int) -> Iterator[slice]:
    return (slice(first, first + chunk) for first in range(0, number, chunk))


def _computed(hidden_TE: Tensor) -> torch.dtype:
    device = hidden_TE.device.type
    autocast = torch.is_autocast_enabled(device) and hidden_TE.dtype != torch.float64
    return torch.get_autocast_dtype(device) if autocast else hidden_TE.dtype
