"""One step of training in this process: a twin that learns, its micro-batch, and the loss and gradients of a pass."""

from functools import cache

import torch
from torch import Tensor

from bench.measuring.unmixed import unmixed
from medtune.data.types import MediaGroup, Prompt, Question
from medtune.eval.asking.choice_prompt import render_choice
from medtune.models.assemble import zoo_entry
from medtune.models.contract import Assembled
from medtune.models.sequence.packing import ROW_TOKENS
from medtune.models.tuning.apply import apply_tuning
from medtune.models.tuning.plan import PartTuning, Tuning
from medtune.trainer.training.batches import MicroBatch, MicroBatches
from medtune.trainer.training.sampling import StepOrder


@cache
def learning(name: str) -> Assembled:
    assembled = zoo_entry(name).assemble(0)
    apply_tuning(assembled.model, Tuning(vision=PartTuning("full", lr=1e-3)), seed=0)
    torch.manual_seed(5)
    for parameter_name, parameter in assembled.model.named_parameters():
        if "lora_B" in parameter_name:
            # At its start an adapter's own gradient would not reach its first matrix.
            torch.nn.init.normal_(parameter, std=0.1)
    assembled.model.train()
    return assembled


def _render(question: Question) -> Prompt:
    return render_choice(question, "text") if question.options else Prompt(question.text, (), question.answer)


def batch_of(groups: list[MediaGroup], assembled: Assembled, *, share_prefix: bool) -> MicroBatch:
    data = unmixed(groups, _render, seed=0)
    batch: MicroBatch = MicroBatches(
        data,
        StepOrder(data.row(), batch_size=len(groups), micro_batch_size=len(groups), world_size=1),
        rank=0,
        template=assembled.template,
        transform=assembled.transform,
        share_prefix=share_prefix,
        row_tokens=ROW_TOKENS if assembled.model.packs_trees else 0,
    )[0]
    return batch


def loss_and_gradients(assembled: Assembled, batch: MicroBatch) -> tuple[float, dict[str, Tensor]]:
    model = assembled.model
    model.zero_grad()
    encoded = None if batch.media is None else model.encode(batch.media)
    loss = -model(batch.rows, encoded).logprobs_T.sum() / batch.step_target_tokens
    loss.backward()
    return float(loss.detach()), {n: p.grad.clone() for n, p in model.named_parameters() if p.grad is not None}


def furthest(one: dict[str, Tensor], other: dict[str, Tensor]) -> float:
    """Returns the largest difference between two gradients of a parameter, in units of the gradient's norm.

    A key's bias moves all scores alike, so that its gradient is nothing but rounding.
    """
    assert one.keys() == other.keys()
    felt = [n for n in one if not n.endswith("k_proj.bias")]
    return max(float((one[n] - other[n]).norm() / (other[n].norm() + 1e-8)) for n in felt)
