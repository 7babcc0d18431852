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


def its_numbers_are_the_same_however_many_targets_are_read_at_once(tried: TriedLoss) -> Iterator[str]:
    logits_TV = _logits()
    whole, _ = of_step(tried.loss, tried.batch, _targets(logits_TV, at_once=True))
    one_by_one, _ = of_step(tried.loss, tried.batch, _targets(logits_TV, at_once=False))
    if not torch.allclose(whole, one_by_one, atol=WITHIN, rtol=0):
        yield (
            f"it is {whole.item():.6g} where all targets are read at once and {one_by_one.item():.6g} one by one; the "
            "function that it gives to `read.words` may make each number of its own row alone"
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
    sequence_T = torch.arange(REPLIES).repeat_interleave(TOKENS)
    place_T = torch.arange(TOKENS).repeat(REPLIES)
    id_T = torch.randint(VOCABULARY, (REPLIES * TOKENS,), generator=torch.Generator().manual_seed(1))
    nothing = torch.zeros(0, dtype=torch.int64)
    ids_BL = id_T.reshape(REPLIES, TOKENS)
    rows = PackedRows(
        ids_BL=ids_BL,
        positions_BL=place_T.reshape(REPLIES, TOKENS),
        columns_BCL=torch.zeros(REPLIES, 0, TOKENS, dtype=torch.int64),
        is_plain=True,
        media_BL=torch.zeros_like(ids_BL, dtype=torch.bool),
        media_S=nothing,
        length_S=nothing,
        target_row_T=sequence_T,
        target_place_T=place_T,
        target_id_T=id_T,
        target_sequence_T=sequence_T,
    )
    counted = REPLIES - 1
    return MicroBatch(0, rows, None, counted * TOKENS, counted, REPLIES, counted, 0, ("a", "b"))


LOSSES = Contract(
    opened_loss,
    (its_numbers_are_finite_and_reach_the_model, its_numbers_are_the_same_however_many_targets_are_read_at_once),
)
