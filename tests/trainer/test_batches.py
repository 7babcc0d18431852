"""A packed step against its plain twin, a row per question: the same loss and the same gradients, for each family."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np
import PIL.Image
import pytest
import torch
from torch import Tensor

from medtune.data.images import load_media
from medtune.data.types import MediaGroup, MediaRef, Question
from medtune.eval.choice_prompt import render_choice
from medtune.models.assemble import zoo_entry
from medtune.models.tuning import apply_tuning
from medtune.models.tuning_plan import GroupTuning, Tuning
from medtune.models.vlm import Assembled
from medtune.trainer.batches import ROW_TOKENS, MicroBatch, MicroBatches
from medtune.trainer.order import StepOrder

OPTIONS = ("normal", "benign", "malignant")


SHARING = (
    "nano_pocket", "nano_internvl", "nano_llava", "nano_llava_onevision", "nano_mllama", "nano_qwen25vl",
    "nano_qwen2vl", "nano_qwen3vl",
)  # fmt: skip
each_family = pytest.mark.parametrize("name", SHARING)


@pytest.fixture(scope="module")
def pictures(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("pictures")
    for number in range(3):
        pixels_HWC = np.random.default_rng(number).integers(0, 255, (40, 50, 3), dtype=np.uint8)
        PIL.Image.fromarray(pixels_HWC).save(folder / f"{number}.png")
    return folder


def _group(pictures: Path, number: int, questions: int) -> MediaGroup:
    asked = tuple(
        Question(f"q{number}-{i}", str(number), f"What is {'so ' * i}odd?", OPTIONS, OPTIONS[i % 3], "choice", "p")
        for i in range(questions)
    )
    return MediaGroup(str(number), MediaRef(pictures / f"{number}.png"), asked)


def _batch(pictures: Path, assembled: Assembled, *, share_prefix: bool) -> MicroBatch:
    groups = [_group(pictures, 0, 4), _group(pictures, 1, 1), _group(pictures, 2, 4)]
    order = StepOrder(num_groups=3, batch_groups=3, micro_batch_groups=3, world_size=1, seed=0)
    batches = MicroBatches(
        groups,
        order,
        rank=0,
        render=lambda question: render_choice(question, "text"),
        family=assembled.family,
        transform=assembled.transform,
        load_media=load_media,
        share_prefix=share_prefix,
        row_tokens=ROW_TOKENS if assembled.model.packs_trees else 0,
    )
    return batches[0]


def _loss_and_gradients(assembled: Assembled, batch: MicroBatch) -> tuple[float, dict[str, Tensor]]:
    model = assembled.model
    model.zero_grad()
    loss = -model(batch.rows, model.encode(batch.media)).logprobs_T.sum() / batch.step_target_tokens
    loss.backward()
    return float(loss.detach()), {n: p.grad.clone() for n, p in model.named_parameters() if p.grad is not None}


@cache
def _learning(name: str) -> Assembled:
    assembled = zoo_entry(name).assemble(0)
    apply_tuning(assembled.model, Tuning(vision=GroupTuning("full", lr=1e-3)), seed=0)
    torch.manual_seed(5)
    for name, parameter in assembled.model.named_parameters():
        if "lora_B" in name:
            # At its start an adapter's own gradient would not reach its first matrix.
            torch.nn.init.normal_(parameter, std=0.1)
    assembled.model.train()
    return assembled


def _furthest(one: dict[str, Tensor], other: dict[str, Tensor]) -> float:
    """The largest difference of any gradient, in units of that gradient's norm.

    A key's bias moves all scores alike, so that its gradient is nothing but rounding.
    """
    assert one.keys() == other.keys()
    felt = [n for n in one if not n.endswith("k_proj.bias")]
    return max(float((one[n] - other[n]).norm() / (other[n].norm() + 1e-8)) for n in felt)


@each_family
def test_a_packed_step_has_the_loss_and_gradients_of_a_row_per_question(name: str, pictures: Path) -> None:
    nano = _learning(name)
    packed, plain = _batch(pictures, nano, share_prefix=True), _batch(pictures, nano, share_prefix=False)
    loss, gradients = _loss_and_gradients(nano, packed)
    plain_loss, plain_gradients = _loss_and_gradients(nano, plain)
    assert loss == pytest.approx(plain_loss, rel=1e-5)
    assert _furthest(gradients, plain_gradients) < 1e-4
    assert (packed.rows.media_S.numel(), plain.rows.media_S.numel()) == (3, 9)


@each_family
@pytest.mark.parametrize("broken", ["mask", "positions", "image", "leak"])
def test_negative_controls_move_the_gradients(name: str, broken: str, pictures: Path) -> None:
    nano = _learning(name)
    batch = _batch(pictures, nano, share_prefix=True)
    rows, places_L = batch.rows, torch.arange(batch.rows.ids_BL.shape[1])
    if broken == "mask":
        wrong = rows._replace(mask_BLL=torch.ones_like(rows.mask_BLL).tril())
    elif broken == "positions":
        shift_L = places_L % 2
        wrong = rows._replace(
            positions_BL=rows.positions_BL + (shift_L if rows.positions_BL.dim() == 2 else shift_L[:, None])
        )
    elif broken == "image":
        wrong = rows._replace(media_S=rows.media_S.roll(1))
    else:
        place = int(rows.target_place_T.min()) - 2
        wrong = rows._replace(mask_BLL=rows.mask_BLL | ((places_L == place) & (places_L[:, None] > place)))
    _, right = _loss_and_gradients(nano, batch)
    _, moved = _loss_and_gradients(nano, batch._replace(rows=wrong))
    assert _furthest(moved, right) > 1e-2


def test_a_step_is_divided_by_all_its_target_tokens(pictures: Path) -> None:
    batch = _batch(pictures, _learning("nano_pocket"), share_prefix=True)
    assert batch.step_target_tokens == batch.rows.target_id_T.numel()
    assert sorted(set(batch.rows.target_sequence_T.tolist())) == list(range(9))
