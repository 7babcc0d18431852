"""A pass over draws or pairs in trees has the gradients of a plain row for each reply, for each family and loss."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any, cast

import pytest
import torch
from torch import Tensor

from bench.measuring.unmixed import unmixed
from medtune.data.types import MediaGroup, MediaKind, Prediction, Question
from medtune.eval.asking.choice_prompt import render_choice
from medtune.models.contract import Assembled
from medtune.trainer.losses import find_loss, of_step
from medtune.trainer.recipe.loss import LossSettings
from medtune.trainer.recipe.replies import ReplySettings
from medtune.trainer.recipe.schema import EvalBlock, Stage
from medtune.trainer.replies import learning as reply_learning
from medtune.trainer.replies.learning import ReplyLearning
from medtune.trainer.replies.prompts import PromptMaker
from medtune.trainer.rewards import DrawnReply, Paid, WeighedRewards
from medtune.trainer.training.batches import MicroBatch, MicroBatches, Packing, packing_of
from medtune.trainer.training.sampling import StepOrder
from tests.models.answering.test_answering_together import four_visits
from tests.models.twins import OF_IMAGES, OF_VOLUMES, all_seen
from tests.trainer.one_step import furthest, learning

NAMES = ["nano_pocket", "nano_qwen25vl", "nano_gemma3", "nano_mllama", "nano_llava", "nano_m3d_phi3"]
CPU = torch.device("cpu")
STAGES: Mapping[str, tuple[LossSettings, ReplySettings]] = {
    "grpo": (LossSettings("grpo", {"beta": 0.1}), ReplySettings(draws=4, max_new_tokens=5, temperature=0.8)),
    "gspo": (
        LossSettings("grpo", {"importance_sampling_level": "sequence", "epsilon": 0.05}),
        ReplySettings(draws=4, max_new_tokens=5, num_iterations=2),
    ),
    "dr_grpo": (LossSettings("grpo", {"loss_type": "dr_grpo"}), ReplySettings(draws=3, max_new_tokens=4)),
    "dpo": (LossSettings("dpo"), ReplySettings()),
    "ipo of draws": (LossSettings("dpo", {"loss_type": "ipo"}), ReplySettings(pairs="draws", max_new_tokens=4)),
}


class _PaidByItsWords(WeighedRewards):
    """Pays by the characters of a reply, so that any two draws are paid differently."""

    def of(
        self,
        member: int,
        question: Question,
        prediction: Prediction,
        *,
        num_tokens: int,
        most: int,
        verdict: str | None = None,
    ) -> Paid:
        text = prediction.text or ""
        drawn = DrawnReply(text, None, 0.0, num_tokens, most, has_ended=True)
        return Paid(sum(ord(each) * place for place, each in enumerate(text, 1)) % 97 / 97, {}, drawn)


def _groups(folder: Path, name: str) -> list[MediaGroup]:
    kind: MediaKind = "volume" if name in OF_VOLUMES else "image"
    assert kind == "volume" or name in OF_IMAGES
    groups = [group for group, _ in four_visits(folder, kind=kind)[:2]]
    second = Question("other", "0", "Is it large?", ("yes", "no", "cannot be told"), "no", "choice", "0")
    return [replace(groups[0], questions=(*groups[0].questions, second)), groups[1]]


def _learnt(assembled: Assembled, groups: Sequence[MediaGroup], stage: Stage, *, in_trees: bool) -> MicroBatch:
    data = unmixed(groups, lambda question: render_choice(question, "text"), seed=0)
    order = StepOrder(data.row(), batch_size=len(groups), micro_batch_size=len(groups), world_size=1)
    packing = packing_of(assembled)
    batch = MicroBatches(
        data, order, rank=0, template=assembled.template, transform=assembled.transform, make=PromptMaker(stage),
        share_prefix=packing.share_prefix, row_tokens=packing.row_tokens,
    )[0]  # fmt: skip
    replies = ReplyLearning(assembled, stage, limits=EvalBlock(), seed=3)
    replies.rewards = _PaidByItsWords([], {})
    if replies.start is not None:
        replies.start.make()
        with torch.no_grad():
            for number, value in enumerate(replies.start._values):
                value.add_(0.01 * torch.randn(value.shape, generator=torch.Generator().manual_seed(number)))
    with pytest.MonkeyPatch.context() as patch:
        if not in_trees:
            patch.setattr(reply_learning, "packing_of", lambda assembled: Packing(share_prefix=False, row_tokens=0))
        return replies.learnt(batch, device=CPU, in_turns=None)


def _gradients(assembled: Assembled, batch: MicroBatch, stage: Stage) -> tuple[float, dict[str, Tensor]]:
    model = assembled.model
    model.zero_grad()
    share, _ = model(
        batch.rows, model.encode(batch.media), lambda read: of_step(find_loss(stage.loss), batch, cast("Any", read))
    )
    share.backward()
    return float(share.detach()), {n: p.grad.clone() for n, p in model.named_parameters() if p.grad is not None}


def _stage(name: str) -> Stage:
    loss, replies = STAGES[name]
    return Stage("rewards", max_steps=2, loss=loss, replies=replies)


@cache
def _found(name: str, kind: str, folder: Path) -> tuple[MicroBatch, float, dict[str, Tensor]]:
    batch = _learnt(learning(name), _groups(folder, name), _stage(kind), in_trees=True)
    return batch, *_gradients(learning(name), batch, _stage(kind))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("media")


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("kind", STAGES)
def test_trees_have_the_gradients_of_a_row_for_each_reply(name: str, kind: str, folder: Path) -> None:
    assembled, stage = learning(name), _stage(kind)
    batch, value, gradients = _found(name, kind, folder)
    plain = _learnt(assembled, _groups(folder, name), stage, in_trees=False)
    assert plain.rows.num_tokens > 1.5 * batch.rows.num_tokens
    assert plain.num_counted == batch.num_counted > 5
    plain_value, plain_gradients = _gradients(assembled, plain, stage)
    assert value == pytest.approx(plain_value, rel=1e-4, abs=1e-6)
    assert furthest(gradients, plain_gradients) < 1e-4


@pytest.mark.parametrize("name", ["nano_pocket", "nano_qwen25vl"])
def test_a_wrong_mask_exchanged_draws_and_a_neighbours_advantage_are_seen(name: str, folder: Path) -> None:
    batch, _, right = _found(name, "grpo", folder)
    assert batch.replies is not None
    others = batch.rows.target_sequence_T.roll(1)
    wrong = {
        "mask": batch._replace(rows=all_seen(batch.rows)),
        "draws": batch._replace(rows=batch.rows._replace(target_sequence_T=others)),
        "advantage": batch._replace(replies=batch.replies._replace(advantage_N=batch.replies.advantage_N.roll(1))),
    }
    for what, wronged in wrong.items():
        _, found = _gradients(learning(name), wronged, _stage("grpo"))
        assert furthest(found, right) > 1e-2, what
