"""The contract of a loss: one number for each target or reply, which the model can lower, however the pass is read."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

import torch
from torch import Tensor

from medtune.models.sequence.packing import PackedRows
from medtune.models.target_logprobs import Targets, of_logits
from medtune.trainer.contracts import Contract
from medtune.trainer.losses import Loss, find_loss, learns_from, of_step
from medtune.trainer.recipe.loss import LossSettings
from medtune.trainer.training.batches import LearntReplies, MicroBatch

REPLIES, TOKENS, VOCABULARY = 3, 4, 11
"""The sizes of the pass that a loss is tried with."""
LENGTHS = (1, 4, 2)
"""The targets of the replies whose step is divided."""
SURE = 200.0
"""What is added to a logit so that all other tokens have the probability 0 in float32."""
WITHIN = 1e-5
"""The largest allowed difference between a loss that is read at once and one that is read target by target."""


class TriedLoss(NamedTuple):
    loss: Loss
    batch: MicroBatch  # A pass of true answers, or of the replies that the loss learns from.


@contextmanager
def opened_loss(name: str) -> Iterator[TriedLoss]:
    chosen, batch = LossSettings(name), tried_pass()
    if learns_from(chosen) != "answers":
        start_T = -torch.rand(REPLIES * TOKENS, generator=torch.Generator().manual_seed(2))
        batch = batch._replace(replies=LearntReplies(torch.tensor([1.0, -1.0, 0.0]), None, start_T, 1.0, 2 * TOKENS))
    yield TriedLoss(find_loss(chosen), batch)


def its_numbers_are_finite_and_reach_the_model(tried: TriedLoss) -> Iterator[str]:
    """Complains about numbers of another shape too, of which `of_step` raises an error."""
    logits_TV = _logits()
    share, _ = of_step(tried.loss, tried.batch, _targets(logits_TV, at_once=True))
    if not bool(torch.isfinite(share)):
        yield f"the loss of ordinary log-probabilities is {share.item()}; it has to be a finite number"
    elif not share.requires_grad:
        yield "no gradient reaches the model; make the numbers of what `read` gives, and do not detach them"
    else:
        share.backward()
        if logits_TV.grad is None or not bool(logits_TV.grad.any()):
            yield "the gradient of the loss is zero everywhere, so that nothing would be learnt"


def its_gradient_is_finite_where_the_model_is_sure(tried: TriedLoss) -> Iterator[str]:
    """Tries a target whose probability is 1 in float32."""
    logits_TV = _logits().detach()
    logits_TV[range(len(logits_TV)), tried.batch.rows.target_id_T] += SURE
    share, _ = of_step(tried.loss, tried.batch, _targets(logits_TV.requires_grad_(), at_once=True))
    share.backward()
    if logits_TV.grad is None or not bool(torch.isfinite(logits_TV.grad).all()):
        yield (
            "the gradient is not finite where the model is sure of a target (its log-probability is 0); keep powers "
            "below 1 and divisions away from 0, for instance by `clamp_min(1e-7)`"
        )


def its_numbers_are_the_same_however_many_targets_are_read_at_once(tried: TriedLoss) -> Iterator[str]:
    logits_TV = _logits()
    whole, _ = of_step(tried.loss, tried.batch, _targets(logits_TV, at_once=True))
    one_by_one, _ = of_step(tried.loss, tried.batch, _targets(logits_TV, at_once=False))
    if not torch.allclose(whole, one_by_one, atol=WITHIN, rtol=0):
        yield (
            f"it is {whole.item():.6g} where all targets are read at once and {one_by_one.item():.6g} one by one; the "
            "function that it gives to `read.words` may make each number of its own row alone"
        )


def its_share_is_the_same_however_a_step_is_divided(tried: TriedLoss) -> Iterator[str]:
    """Tries replies of different lengths, in one pass and in two."""
    if tried.batch.replies is not None:
        return  # How draws are compared is not the loss's to say, and pairs are never divided.
    number = sum(LENGTHS)
    logits_TV = torch.randn(number, VOCABULARY, generator=torch.Generator().manual_seed(3))
    id_T = torch.randint(VOCABULARY, (number,), generator=torch.Generator().manual_seed(4))

    def share(first: int, last: int) -> float:
        lengths = LENGTHS[first:last]
        here = slice(sum(LENGTHS[:first]), sum(LENGTHS[:last]))
        sequence_T = torch.arange(len(lengths)).repeat_interleave(torch.tensor(lengths))
        batch = _pass_of(id_T[here], sequence_T, borrowed=0, step=(number, len(LENGTHS)))
        return float(of_step(tried.loss, batch, Targets([of_logits(logits_TV[here], id_T[here], sequence_T)]))[1])

    whole, divided = share(0, len(LENGTHS)), share(0, 1) + share(1, len(LENGTHS))
    if abs(whole - divided) > WITHIN:
        yield (
            f"a step's loss is {whole:.6g} in one pass and {divided:.6g} in two; make each number of its own reply "
            "alone, and divide by nothing that is counted over the pass"
        )


def _logits() -> Tensor:
    return torch.randn(REPLIES * TOKENS, VOCABULARY, generator=torch.Generator().manual_seed(0)).requires_grad_()


def _targets(logits_TV: Tensor, *, at_once: bool) -> Targets:
    rows = tried_pass().rows
    read = (logits_TV, rows.target_id_T, rows.target_sequence_T)
    if at_once:
        return Targets([of_logits(*read)])
    return Targets([of_logits(*(each[here : here + 1] for each in read)) for here in range(len(logits_TV))])


def tried_pass() -> MicroBatch:
    """Returns a pass of some replies, a row for each, of which the last is borrowed."""
    id_T = torch.randint(VOCABULARY, (REPLIES * TOKENS,), generator=torch.Generator().manual_seed(1))
    sequence_T = torch.arange(REPLIES).repeat_interleave(TOKENS)
    counted = REPLIES - 1
    return _pass_of(id_T, sequence_T, borrowed=1, step=(counted * TOKENS, counted))


def _pass_of(id_T: Tensor, sequence_T: Tensor, *, borrowed: int, step: tuple[int, int]) -> MicroBatch:
    lengths = sequence_T.bincount().tolist()
    place_T = torch.cat([torch.arange(each) for each in lengths])
    ids_BL = torch.zeros(len(lengths), max(lengths), dtype=torch.int64).index_put((sequence_T, place_T), id_T)
    nothing = torch.zeros(0, dtype=torch.int64)
    rows = PackedRows(
        ids_BL=ids_BL,
        positions_BL=torch.arange(max(lengths)).expand(ids_BL.shape),
        columns_BCL=torch.zeros(len(lengths), 0, max(lengths), dtype=torch.int64),
        is_plain=True,
        media_BL=torch.zeros_like(ids_BL, dtype=torch.bool),
        media_S=nothing,
        length_S=nothing,
        target_row_T=sequence_T,
        target_place_T=place_T,
        target_id_T=id_T,
        target_sequence_T=sequence_T,
    )
    counted = len(lengths) - borrowed
    names = tuple("abc"[:counted])
    return MicroBatch(0, rows, None, step[0], step[1], len(lengths), counted, 0, names)


LOSSES = Contract(
    opened_loss,
    (
        its_numbers_are_finite_and_reach_the_model,
        its_gradient_is_finite_where_the_model_is_sure,
        its_numbers_are_the_same_however_many_targets_are_read_at_once,
        its_share_is_the_same_however_a_step_is_divided,
    ),
)
