"""What a model says of its target tokens, read from the states before the output layer without all their logits.

The logits of 10,000 targets over 152,000 tokens take 6 GB, and a plain log-softmax holds several such tensors. Here a
few hundred targets are read at a time. How a number that is read from a target's log-probabilities changes with the
target's state does not depend on what is made of the number; for the log-probability of the target itself it is

    d logprob_t / d hidden_t = weight[id_t] - softmax_t @ weight.

It is therefore computed in the forward pass, while the logits of the target are there; the backward pass only scales
it. A frozen output layer costs two products then, as in the plain way; one that learns makes its logits again.

Shape legend: T target tokens, C targets of a chunk, N replies, E embedding width, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.distributed.fsdp import FSDPModule
from transformers import PreTrainedModel

from medtune.models.replies import changed, changes_behind

LOGITS_AT_ONCE = 2**25
"""The number of logits that are held at once, 128 MiB in float32: 220 targets over a vocabulary of 152,000."""
_FINER: dict[torch.dtype, float] = {torch.float16: 256.0}
"""A power of two by which a slope is multiplied where the type cannot hold small numbers, as the loss's scale does."""

OfWords = Callable[[Tensor, Tensor], Tensor]
"""Makes one number of each target: takes the log-probabilities_CV of all tokens, float32, and the targets' id_C."""


class TargetLogprobs(NamedTuple):
    """Log-probabilities of the target tokens.

    Attributes:
        logprobs_T: Natural logarithm, float32.
        sequence_T: Number of the sequence that each token belongs to.
        is_likeliest_T: Whether the model holds no other token more likely in its place.
    """

    logprobs_T: Tensor
    sequence_T: Tensor
    is_likeliest_T: Tensor

    def sums(self, num_sequences: int) -> Tensor:
        """Returns the log-probability of each whole answer, float32 (num_sequences,)."""
        return _sums(self.logprobs_T, self.sequence_T, num_sequences)

    def likeliest(self, num_sequences: int) -> Tensor:
        """Returns the number of tokens of each answer that are the model's first choice, float32 (num_sequences,)."""
        return _sums(self.is_likeliest_T.float(), self.sequence_T, num_sequences)


class Targets:
    """The target tokens of a forward pass, of which a loss reads what it needs.

    Every reading makes the logits again, a few hundred targets at a time, so that memory does not grow with their
    number; where the output layer has a bias or changes its logits (`whole_logits_because`), all at once. Its gradient
    reaches the model; what else the function given to `words` uses may get none.

    Attributes:
        id_T: Id of each target token, in the order in which all numbers of the targets come.
        sequence_T: Number of the reply that each token belongs to.
    """

    def __init__(self, parts: Sequence[OfStates | OfLogits]) -> None:
        self._parts = parts
        self.id_T = torch.cat([part.id_T for part in parts])
        self.sequence_T = torch.cat([part.sequence_T for part in parts])

    def read(self) -> TargetLogprobs:
        """Returns the targets' log-probabilities, and whether each target is the likeliest token."""
        return TargetLogprobs(*map(torch.cat, zip(*(part.read() for part in self._parts), strict=True)))

    def logprobs(self, temperature: float = 1.0) -> Tensor:
        """Returns the log-probability of each target, float32 (T,), in the distribution of that temperature."""
        if temperature == 1:
            return self.read().logprobs_T
        return self.words(
            lambda logprobs_CV, id_C: (logprobs_CV / temperature).log_softmax(1).gather(1, id_C[:, None])[:, 0]
        )

    def words(self, value: OfWords) -> Tensor:
        """Returns one number for each target (T,), made by `value` of the log-probabilities of all tokens there.

        `value` is called with some targets at a time, and a target's number may depend on its own row alone.

        Example:
            Entropy of what the model holds possible in each place:

                read.words(lambda logprobs_CV, id_C: -(logprobs_CV.exp() * logprobs_CV).sum(dim=1))
        """
        return torch.cat([part.words(value) for part in self._parts])

    def by_reply(self, numbers_T: Tensor, num_replies: int) -> Tensor:
        """Returns the sum of each reply's numbers, float32 (num_replies,)."""
        return _sums(numbers_T, self.sequence_T, num_replies)


def _sums(numbers_T: Tensor, sequence_T: Tensor, num_sequences: int) -> Tensor:
    return torch.zeros(num_sequences, device=numbers_T.device).index_add(0, sequence_T, numbers_T)


@dataclass(frozen=True, slots=True, eq=False)
class OfStates:
    """Targets that are read from the states before the output layer in the places where they are predicted."""

    language: PreTrainedModel
    hidden_TE: Tensor
    id_T: Tensor
    sequence_T: Tensor

    def read(self) -> TargetLogprobs:
        if whole_logits_because(self.language) is not None:
            return self._of_all_logits().read()
        logprobs_T, is_likeliest_T = self._chunked(_Likely())
        return TargetLogprobs(logprobs_T, self.sequence_T, is_likeliest_T)

    def words(self, value: OfWords) -> Tensor:
        if whole_logits_because(self.language) is not None:
            return self._of_all_logits().words(value)
        return self._chunked(_Made(value))[0]

    def _of_all_logits(self) -> OfLogits:
        logits_TV = self.language.get_output_embeddings()(self.hidden_TE)
        return of_logits(changed(logits_TV, changes_behind(self.language)), self.id_T, self.sequence_T)

    def _chunked(self, way: _Way) -> tuple[Tensor, Tensor]:
        layer: Any = self.language.get_output_embeddings()
        with _reading(layer):
            read: tuple[Tensor, Tensor] = layer(self.hidden_TE, self.id_T, way)
            return read


@dataclass(frozen=True, slots=True, eq=False)
class OfLogits:
    """Targets whose logits were all there at once; their log-probabilities are kept."""

    logprobs_TV: Tensor
    is_likeliest_T: Tensor
    id_T: Tensor
    sequence_T: Tensor

    def read(self) -> TargetLogprobs:
        logprobs_T = self.logprobs_TV.gather(1, self.id_T.unsqueeze(1)).squeeze(1)
        return TargetLogprobs(logprobs_T, self.sequence_T, self.is_likeliest_T)

    def words(self, value: OfWords) -> Tensor:
        return _one_each(value(self.logprobs_TV, self.id_T), self.id_T)


def of_logits(logits_TV: Tensor, id_T: Tensor, sequence_T: Tensor) -> OfLogits:
    """Returns targets whose logits are there already."""
    with torch.no_grad():
        is_likeliest_T = logits_TV.gather(1, id_T.unsqueeze(1)).squeeze(1) >= logits_TV.amax(dim=-1)
    return OfLogits(logits_TV.float().log_softmax(dim=-1), is_likeliest_T, id_T, sequence_T)


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


@contextmanager
def _reading(layer: nn.Linear) -> Iterator[None]:
    """Makes a linear layer return what is read of its logits instead of them.

    The layer is still called as a module, so that FSDP2 and ZeRO-3 gather its weight before it computes.
    """

    def forward(hidden_TE: Tensor, id_T: Tensor, way: _Way) -> tuple[Tensor, Tensor]:
        read: tuple[Tensor, Tensor] = _Read.apply(hidden_TE, layer.weight, id_T, LOGITS_AT_ONCE, way)
        return read

    layer.forward = forward  # type: ignore[method-assign, assignment]
    try:
        yield
    finally:
        del layer.forward


class _Way(Protocol):
    """What is read of the logits_CV of a chunk, which it may overwrite: one number for each target, and its slope."""

    def first(self, logits_CV: Tensor, id_C1: Tensor, top_C1: Tensor, *, sloped: bool) -> _First: ...

    def slope(self, logits_CV: Tensor, id_C1: Tensor, log_sum_C1: Tensor) -> Tensor:
        """Returns how each number changes with the logits, whose sum of exponentials is known by now."""
        ...


class _First(NamedTuple):
    number_C1: Tensor
    log_sum_C1: Tensor  # Logarithm of the sum of the exponentials of the logits.
    slope_CV: Tensor | None


class _Likely:
    """Reads the log-probability of the target itself."""

    def first(self, logits_CV: Tensor, id_C1: Tensor, top_C1: Tensor, *, sloped: bool) -> _First:
        chosen_C1 = logits_CV.gather(1, id_C1)
        sum_C1 = logits_CV.sub_(top_C1).exp_().sum(1, keepdim=True)
        number_C1, log_sum_C1 = chosen_C1 - top_C1 - sum_C1.log(), sum_C1.log() + top_C1
        return _First(number_C1, log_sum_C1, self._slope_of_target(logits_CV.div_(sum_C1), id_C1) if sloped else None)

    def slope(self, logits_CV: Tensor, id_C1: Tensor, log_sum_C1: Tensor) -> Tensor:
        return self._slope_of_target(logits_CV.sub_(log_sum_C1).exp_(), id_C1)

    @staticmethod
    def _slope_of_target(soft_CV: Tensor, id_C1: Tensor) -> Tensor:
        missing_C1 = 1 - soft_CV.gather(1, id_C1)
        return soft_CV.neg_().scatter_(1, id_C1, missing_C1)


@dataclass(frozen=True, slots=True)
class _Made:
    """Reads what a function makes of the log-probabilities of all tokens."""

    value: OfWords

    def first(self, logits_CV: Tensor, id_C1: Tensor, top_C1: Tensor, *, sloped: bool) -> _First:
        log_sum_C1 = logits_CV.logsumexp(1, keepdim=True)
        number_C, slope_CV = self._number_and_slope(logits_CV.sub_(log_sum_C1), id_C1, sloped=sloped)
        return _First(number_C.unsqueeze(1), log_sum_C1, slope_CV)

    def slope(self, logits_CV: Tensor, id_C1: Tensor, log_sum_C1: Tensor) -> Tensor:
        _, slope_CV = self._number_and_slope(logits_CV.sub_(log_sum_C1), id_C1, sloped=True)
        assert slope_CV is not None
        return slope_CV

    def _number_and_slope(self, logprobs_CV: Tensor, id_C1: Tensor, *, sloped: bool) -> tuple[Tensor, Tensor | None]:
        with torch.enable_grad():
            number_C = _one_each(self.value(logprobs_CV.requires_grad_(sloped), id_C1[:, 0]), id_C1)
            if not sloped:
                return number_C, None
            # A function may read nothing of the model, and then nothing changes with it.
            change_CV = torch.zeros_like(logprobs_CV)
            if number_C.requires_grad:
                (change_CV,) = torch.autograd.grad(number_C.sum(), logprobs_CV)
        soft_CV = logprobs_CV.detach().exp_()
        return number_C.detach(), change_CV - soft_CV.mul_(change_CV.sum(1, keepdim=True))


def _one_each(numbers: Tensor, targets: Tensor) -> Tensor:
    if numbers.shape != targets.shape[:1]:
        raise ValueError(
            f"a loss made numbers of the shape {tuple(numbers.shape)} of the log-probabilities of {len(targets)} "
            f"targets; the function that it gives to `read.words` has to return one number for each, ({len(targets)},)"
        )
    return numbers


class _Read(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, hidden_TE: Tensor, weight_VE: Tensor, id_T: Tensor, logits_at_once: int, way: _Way
    ) -> tuple[Tensor, Tensor]:
        computed = _computed(hidden_TE)
        ctx.chunk = max(1, logits_at_once // weight_VE.shape[0])
        ctx.computed, ctx.way = computed, way
        finer = _FINER.get(computed, 1.0)
        number_T = hidden_TE.new_empty(len(id_T), dtype=torch.float32)
        is_likeliest_T = hidden_TE.new_empty(len(id_T), dtype=torch.bool)
        needs_slope, learns, *_ = ctx.needs_input_grad
        slope_TE = torch.empty_like(hidden_TE, dtype=computed) if needs_slope else None
        log_sum_T = torch.empty_like(number_T)
        with torch.autocast(hidden_TE.device.type, enabled=False):
            narrow_VE = weight_VE.to(computed)
            for here in _chunks(len(id_T), ctx.chunk):
                id_C1 = id_T[here, None]
                logits_CV = (hidden_TE[here].to(computed) @ narrow_VE.T).float()
                top_C1 = logits_CV.amax(1, keepdim=True)
                is_likeliest_T[here] = (logits_CV.gather(1, id_C1) >= top_C1)[:, 0]
                read = way.first(logits_CV, id_C1, top_C1, sloped=needs_slope)
                log_sum_T[here] = read.log_sum_C1[:, 0]
                number_T[here] = read.number_C1[:, 0]
                if slope_TE is not None:
                    assert read.slope_CV is not None
                    slope_TE[here] = read.slope_CV.mul_(finer).to(computed) @ narrow_VE
        ctx.save_for_backward(slope_TE, *((hidden_TE, weight_VE, id_T, log_sum_T) if learns else (None,) * 4))
        ctx.mark_non_differentiable(is_likeliest_T)
        ctx.hidden_type = hidden_TE.dtype
        return number_T, is_likeliest_T

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_T: Tensor, _: Tensor) -> tuple[Tensor | None, Tensor | None, None, None, None]:
        slope_TE, hidden_TE, weight_VE, id_T, log_sum_T = ctx.saved_tensors
        finer = _FINER.get(ctx.computed, 1.0)
        grad_TE = None
        if slope_TE is not None:
            grad_TE = (slope_TE.float() * (grad_T / finer).unsqueeze(1)).to(ctx.hidden_type)
        if weight_VE is None:
            return grad_TE, None, None, None, None
        with torch.autocast(hidden_TE.device.type, enabled=False):
            narrow_VE = weight_VE.to(ctx.computed)
            grad_VE = torch.zeros_like(weight_VE, dtype=torch.float32)
            for here in _chunks(len(id_T), ctx.chunk):
                narrow_CE = hidden_TE[here].to(ctx.computed)
                logits_CV = (narrow_CE @ narrow_VE.T).float()
                change_CV = ctx.way.slope(logits_CV, id_T[here, None], log_sum_T[here, None]).mul_(grad_T[here, None])
                # Chunks are added in float32, which one product over all targets would do inside.
                grad_VE += change_CV.to(ctx.computed).T @ narrow_CE
        return grad_TE, grad_VE.to(weight_VE.dtype), None, None, None


def _chunks(number: int, chunk: int) -> Iterator[slice]:
    return (slice(first, first + chunk) for first in range(0, number, chunk))


def _computed(hidden_TE: Tensor) -> torch.dtype:
    device = hidden_TE.device.type
    autocast = torch.is_autocast_enabled(device) and hidden_TE.dtype != torch.float64
    return torch.get_autocast_dtype(device) if autocast else hidden_TE.dtype
