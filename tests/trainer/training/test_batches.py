"""Tests that a packed step gives the same loss and gradients as one row per question, for each family."""

from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import PIL.Image
import pytest
import torch
from torch import Tensor

from bench.measuring.unmixed import unmixed
from medtune.data.types import MediaGroup, MediaRef, Question
from medtune.eval.asking.choice_prompt import render_choice
from medtune.models.assemble import zoo_entry
from medtune.models.contract import Assembled
from medtune.models.tuning.apply import apply_tuning
from medtune.models.tuning.plan import PartTuning, Tuning
from medtune.trainer.training.batches import ROW_TOKENS, MicroBatch, MicroBatches
from medtune.trainer.training.sampling import StepOrder
from tests.models.twins import all_seen, leaking, moved

OPTIONS = ("normal", "benign", "malignant")


SHARING = (
    "nano_pocket", "nano_internvl", "nano_llava", "nano_llava_onevision", "nano_mllama", "nano_qwen25vl",
    "nano_qwen2vl", "nano_qwen3vl", "nano_glm4v",
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
    return MediaGroup(str(number), (MediaRef(pictures / f"{number}.png"),), asked)


SHOWN_AND_BLIND = pytest.mark.parametrize("name", ["nano_pocket", "nano_mllama", "nano_qwen25vl", "nano_gemma3"])


def _passes(pictures: Path, assembled: Assembled, *, world_size: int, share: float) -> list[MicroBatch]:
    """Returns all forward passes of one step of three groups, over all devices; each pass has at most one group."""
    groups = [_group(pictures, 0, 3), _group(pictures, 1, 1), _group(pictures, 2, 2)]
    data = replace(unmixed(groups, lambda question: render_choice(question, "text"), seed=0), text_only_share=share)
    order = StepOrder(data.row(), batch_size=3, micro_batch_size=1, world_size=world_size)
    devices = [
        MicroBatches(
            data,
            order,
            rank=rank,
            family=assembled.family,
            transform=assembled.transform,
            share_prefix=assembled.model.plain_because is None,
            row_tokens=ROW_TOKENS if assembled.model.packs_trees else 0,
        )
        for rank in range(world_size)
    ]
    return [device[number] for number in range(order.accumulate) for device in devices]


def _sum_of(assembled: Assembled, batches: list[MicroBatch]) -> tuple[float, dict[str, Tensor]]:
    """The loss and the gradients of a step, summed over its forward passes."""
    model, whole = assembled.model, 0.0
    model.zero_grad()
    for batch in batches:
        read = model(batch.rows, None if batch.media is None else model.encode(batch.media))
        counted_T = read.logprobs_T.where(read.sequence_T < batch.num_counted, 0.0)
        loss = -counted_T.sum() / batch.step_target_tokens
        loss.backward()
        whole += float(loss.detach())
    return whole, {n: p.grad.clone() for n, p in model.named_parameters() if p.grad is not None}


@SHOWN_AND_BLIND
def test_devices_with_and_without_media_run_the_same_layers_for_the_sum_of_one(name: str, pictures: Path) -> None:
    nano = _learning(name)
    alone, spread = (_passes(pictures, nano, world_size=n, share=0.4) for n in (1, 2))
    assert sorted(batch.num_shown for batch in alone) == [0, 1, 1]
    assert any(batch.media is None for batch in alone)
    # Each pass of two devices holds rows with an image and rows without, the last one of the second device too.
    assert [batch.num_counted for batch in spread].count(0) == 1
    for batch in spread:
        assert batch.media is not None
        assert batch.rows.media_S.numel() > 0
        assert int(batch.rows.target_sequence_T.max()) >= batch.num_counted or batch.num_counted == 0
    loss, gradients = _sum_of(nano, alone)
    other_loss, other_gradients = _sum_of(nano, spread)
    assert other_loss == pytest.approx(loss, rel=1e-5)
    assert _furthest({n: other_gradients[n] for n in gradients}, gradients) < 1e-4
    every_pass = [_sum_of(nano, [batch])[1].keys() for batch in spread]
    assert all(reached == every_pass[0] for reached in every_pass)
    # Without what is borrowed the devices would not agree on what they ran.
    apart = [_sum_of(nano, [batch])[1].keys() for batch in alone]
    assert any(reached != apart[0] for reached in apart)


@SHOWN_AND_BLIND
def test_a_blind_model_is_trained_on_text_alone(name: str, pictures: Path) -> None:
    nano = _learning(name)
    batches = _passes(pictures, nano, world_size=2, share=1.0)
    assert all(batch.media is None and batch.rows.media_S.numel() == 0 for batch in batches)
    _, gradients = _sum_of(nano, batches)
    assert not any("projector" in n or "vision" in n or "visual" in n for n, g in gradients.items() if g.any())


def _batch(pictures: Path, assembled: Assembled, *, share_prefix: bool) -> MicroBatch:
    groups = [_group(pictures, 0, 4), _group(pictures, 1, 1), _group(pictures, 2, 4)]
    data = unmixed(groups, lambda question: render_choice(question, "text"), seed=0)
    batches = MicroBatches(
        data,
        StepOrder(data.row(), batch_size=3, micro_batch_size=3, world_size=1),
        rank=0,
        family=assembled.family,
        transform=assembled.transform,
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
    apply_tuning(assembled.model, Tuning(vision=PartTuning("full", lr=1e-3)), seed=0)
    torch.manual_seed(5)
    for name, parameter in assembled.model.named_parameters():
        if "lora_B" in name:
            # At its start an adapter's own gradient would not reach its first matrix.
            torch.nn.init.normal_(parameter, std=0.1)
    assembled.model.train()
    return assembled


def _furthest(one: dict[str, Tensor], other: dict[str, Tensor]) -> float:
    """Returns the largest difference between two gradients of a parameter, in units of the gradient's norm.

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
    rows = batch.rows
    if broken == "mask":
        wrong = all_seen(rows)
    elif broken == "positions":
        wrong = moved(rows)
    elif broken == "image":
        wrong = rows._replace(media_S=rows.media_S.roll(1))
    else:
        wrong = leaking(rows, int(rows.target_place_T.min()) - 2)
    _, right = _loss_and_gradients(nano, batch)
    _, wronged = _loss_and_gradients(nano, batch._replace(rows=wrong))
    assert _furthest(wronged, right) > 1e-2


def test_a_step_is_divided_by_all_its_target_tokens(pictures: Path) -> None:
    batch = _batch(pictures, _learning("nano_pocket"), share_prefix=True)
    assert batch.step_target_tokens == batch.rows.target_id_T.numel()
    assert sorted(set(batch.rows.target_sequence_T.tolist())) == list(range(9))
