"""A packed step against its plain twin, a row per question: the same loss and the same gradients."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from medtune.data.types import Image, MediaGroup, MediaRef, Question
from medtune.eval.choice_prompt import render_choice
from medtune.models.assemble import zoo_entry
from medtune.models.tuning import apply_tuning
from medtune.models.tuning_plan import GroupTuning, Tuning
from medtune.models.vlm import Assembled
from medtune.trainer.batches import MicroBatch, MicroBatches
from medtune.trainer.order import StepOrder

OPTIONS = ("normal", "benign", "malignant")


def _image(ref: MediaRef) -> Image:
    return Image(np.random.default_rng(int(ref.path.stem)).integers(0, 255, (40, 50, 3), dtype=np.uint8))


def _group(number: int, questions: int) -> MediaGroup:
    asked = tuple(
        Question(f"q{number}-{i}", str(number), f"What is {'so ' * i}odd?", OPTIONS, OPTIONS[i % 3], "choice", "p")
        for i in range(questions)
    )
    return MediaGroup(str(number), MediaRef(Path(f"{number}.png")), asked)


def _batch(assembled: Assembled, *, share_prefix: bool) -> MicroBatch:
    groups = [_group(0, 4), _group(1, 1), _group(2, 4)]
    order = StepOrder(num_groups=3, batch_groups=3, micro_batch_groups=3, world_size=1, seed=0)
    batches = MicroBatches(
        groups,
        order,
        rank=0,
        render=lambda question: render_choice(question, "text"),
        family=assembled.family,
        transform=assembled.transform,
        load_media=_image,
        share_prefix=share_prefix,
    )
    return batches[0]


def _loss_and_gradients(assembled: Assembled, batch: MicroBatch) -> tuple[float, dict[str, Tensor]]:
    model = assembled.model
    model.zero_grad()
    loss = -model(batch.rows, model.encode(batch.pixels_MCHW)).logprobs_T.sum() / batch.step_target_tokens
    loss.backward()
    return float(loss.detach()), {n: p.grad.clone() for n, p in model.named_parameters() if p.grad is not None}


@pytest.fixture(scope="module")
def nano() -> Assembled:
    assembled = zoo_entry("nano_pocket").assemble(0)
    apply_tuning(assembled.model, Tuning(vision=GroupTuning("full", lr=1e-3)), seed=0)
    torch.manual_seed(5)
    for name, parameter in assembled.model.named_parameters():
        if "lora_B" in name:
            # At its start an adapter's own gradient would not reach its first matrix.
            torch.nn.init.normal_(parameter, std=0.1)
    assembled.model.train()
    return assembled


def _furthest(one: dict[str, Tensor], other: dict[str, Tensor]) -> float:
    """The largest difference of any gradient, in units of that gradient's norm."""
    assert one.keys() == other.keys()
    return max(float((one[n] - other[n]).norm() / (other[n].norm() + 1e-8)) for n in one)


def test_a_packed_step_has_the_loss_and_gradients_of_a_row_per_question(nano: Assembled) -> None:
    packed, plain = _batch(nano, share_prefix=True), _batch(nano, share_prefix=False)
    loss, gradients = _loss_and_gradients(nano, packed)
    plain_loss, plain_gradients = _loss_and_gradients(nano, plain)
    assert loss == pytest.approx(plain_loss, rel=1e-5)
    assert _furthest(gradients, plain_gradients) < 1e-4
    assert (packed.rows.media_S.numel(), plain.rows.media_S.numel()) == (3, 9)


@pytest.mark.parametrize("broken", ["mask", "positions", "image", "leak"])
def test_negative_controls_move_the_gradients(nano: Assembled, broken: str) -> None:
    batch = _batch(nano, share_prefix=True)
    rows, places_L = batch.rows, torch.arange(batch.rows.ids_BL.shape[1])
    if broken == "mask":
        wrong = rows._replace(mask_BLL=torch.ones_like(rows.mask_BLL).tril())
    elif broken == "positions":
        wrong = rows._replace(positions_BL=rows.positions_BL + places_L % 2)
    elif broken == "image":
        wrong = rows._replace(media_S=rows.media_S.roll(1))
    else:
        wrong = rows._replace(mask_BLL=rows.mask_BLL | ((places_L == 60) & (places_L[:, None] > 60)))
    _, right = _loss_and_gradients(nano, batch)
    _, moved = _loss_and_gradients(nano, batch._replace(rows=wrong))
    assert _furthest(moved, right) > 1e-2


def test_a_step_is_divided_by_all_its_target_tokens(nano: Assembled) -> None:
    batch = _batch(nano, share_prefix=True)
    assert batch.step_target_tokens == batch.rows.target_id_T.numel()
    assert sorted(set(batch.rows.target_sequence_T.tolist())) == list(range(9))
