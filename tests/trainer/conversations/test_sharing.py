"""Tests that several images and turns share one tree: the tokens are computed once, and gradients stay the same."""

from functools import cache

import numpy as np
import PIL.Image
import pytest
import torch
from torch import Tensor

from bench.measuring.unmixed import unmixed
from medtune.data.types import MEDIA_MARK, MediaGroup, MediaRef, Prompt, Question, Turn
from medtune.eval.asking.choice_prompt import render_choice
from medtune.models.assemble import zoo_entry
from medtune.models.contract import Assembled
from medtune.models.tuning.apply import apply_tuning
from medtune.models.tuning.plan import PartTuning, Tuning
from medtune.trainer.training.batches import ROW_TOKENS, MicroBatch, MicroBatches
from medtune.trainer.training.sampling import StepOrder

SHARING = ("nano_pocket", "nano_internvl", "nano_llava", "nano_mllama", "nano_qwen25vl", "nano_qwen3vl")
QUICK = ("nano_pocket", "nano_qwen25vl")


def _some(names: tuple[str, ...]) -> list[object]:
    return [name if name in QUICK else pytest.param(name, marks=pytest.mark.slow) for name in names]


each_family = pytest.mark.parametrize("name", _some(SHARING))
OPTIONS = ("first", "second", "third")
TURNS = (Turn("Which image is older?", "The second one."), Turn("By how much?", "By about two years."))


@pytest.fixture(scope="module")
def pictures(tmp_path_factory: pytest.TempPathFactory) -> list[MediaRef]:
    folder = tmp_path_factory.mktemp("pictures")
    for number in range(4):
        pixels_HWC = np.random.default_rng(number).integers(0, 255, (40 + 18 * (number // 3), 50, 3), dtype=np.uint8)
        PIL.Image.fromarray(pixels_HWC).save(folder / f"{number}.png")
    return [MediaRef(folder / f"{number}.png") for number in range(4)]


def _conversation(media_id: str, *, marked: bool = False) -> tuple[Question, ...]:
    """Returns the questions of one conversation of three turns, each with the true turns before it."""
    turns = list(TURNS)
    if marked:
        asked = f"Is {MEDIA_MARK} older than {MEDIA_MARK} and {MEDIA_MARK}?"
        turns[0] = turns[0]._replace(asked=asked)
    whole = [*turns, Turn("Which do you mean?", "second")]
    return tuple(
        Question(f"{media_id}{n}", media_id, turn.asked, (), turn.answer, "text", "p", turns=tuple(whole[:n]))
        for n, turn in enumerate(whole)
    )


def _groups(pictures: list[MediaRef]) -> list[MediaGroup]:
    plain = Question("plain", "one", "Which plane?", OPTIONS, "third", "choice", "q")
    text = Question("text", "none", "How many chambers has a heart?", (), "four", "text", "r")
    return [
        MediaGroup("three", tuple(pictures[:3]), _conversation("three")),
        MediaGroup("among", tuple(pictures[1:]), _conversation("among", marked=True)),
        MediaGroup("one", (pictures[3],), (plain,)),
        MediaGroup("none", (), (text, *_conversation("none"))),
    ]


@cache
def _learning(name: str) -> Assembled:
    assembled = zoo_entry(name).assemble(0)
    apply_tuning(assembled.model, Tuning(vision=PartTuning("full", lr=1e-3)), seed=0)
    torch.manual_seed(5)
    for parameter_name, parameter in assembled.model.named_parameters():
        if "lora_B" in parameter_name:
            torch.nn.init.normal_(parameter, std=0.1)
    assembled.model.train()
    return assembled


def _render(question: Question) -> Prompt:
    if question.options:
        return render_choice(question, "text")
    return Prompt(question.text, (), question.answer)


def _batch(groups: list[MediaGroup], assembled: Assembled, *, share_prefix: bool) -> MicroBatch:
    batches = MicroBatches(
        (data := unmixed(groups, _render, seed=0)),
        StepOrder(data.row(), batch_size=len(groups), micro_batch_size=len(groups), world_size=1),
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
    encoded = None if batch.media is None else model.encode(batch.media)
    loss = -model(batch.rows, encoded).logprobs_T.sum() / batch.step_target_tokens
    loss.backward()
    return float(loss.detach()), {n: p.grad.clone() for n, p in model.named_parameters() if p.grad is not None}


def _furthest(one: dict[str, Tensor], other: dict[str, Tensor]) -> float:
    assert one.keys() == other.keys()
    felt = [n for n in one if not n.endswith("k_proj.bias")]
    return max(float((one[n] - other[n]).norm() / (other[n].norm() + 1e-8)) for n in felt)


@each_family
def test_a_shared_conversation_has_the_loss_and_gradients_of_a_row_per_turn(
    name: str, pictures: list[MediaRef]
) -> None:
    nano, groups = _learning(name), _groups(pictures)
    shared, plain = (_batch(groups, nano, share_prefix=share) for share in (True, False))
    loss, gradients = _loss_and_gradients(nano, shared)
    plain_loss, plain_gradients = _loss_and_gradients(nano, plain)
    assert loss == pytest.approx(plain_loss, rel=1e-5)
    assert _furthest(gradients, plain_gradients) < 1e-4
    # The control: two images of a group in the other order.
    alone = _batch(groups[:1], nano, share_prefix=True)
    _, gradients = _loss_and_gradients(nano, alone)
    swapped = torch.tensor([1, 0, 2])[alone.rows.media_S]
    _, moved = _loss_and_gradients(nano, alone._replace(rows=alone.rows._replace(media_S=swapped)))
    assert _furthest(moved, gradients) > 1e-2


@pytest.mark.parametrize("name", _some(("nano_pocket", "nano_qwen25vl", "nano_qwen3vl", "nano_internvl")))
def test_the_turns_of_a_conversation_are_computed_once(name: str, pictures: list[MediaRef]) -> None:
    nano, group = _learning(name), MediaGroup("three", tuple(pictures[:3]), _conversation("three"))
    shared, plain = (_batch([group], nano, share_prefix=share) for share in (True, False))
    shapes = [nano.transform.shape(ref) for ref in group.media]
    layouts = [nano.family.layout(q.text, q.answer, shapes=shapes, turns=q.turns) for q in group.questions]
    # The last turn's sequence holds the earlier ones; its own last token is only predicted.
    assert shared.rows.num_tokens == len(layouts[-1].ids) - 1
    assert plain.rows.num_tokens == sum(len(layout.ids) - 1 for layout in layouts)
    assert shared.rows.media_S.numel() == 3
    # Every assistant turn is learnt, with its end.
    learnt = ["".join(nano.family.pieces([label for label in each.labels if label >= 0])) for each in layouts]
    assert all(turn in text for turn, text in zip([*(turn.answer for turn in TURNS), "second"], learnt, strict=True))
    assert shared.rows.target_id_T.numel() == sum(layout.num_targets for layout in layouts)
