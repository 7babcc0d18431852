"""Divides tiny models among forked ranks, and lets each rank answer questions of its own.

It imports little, because every forked rank imports it.
"""

from collections.abc import Sequence
from contextlib import nullcontext
from typing import Any

import torch
import torch.distributed as dist
from torch import nn

from medtune.data.types import Prediction, PredictionKey
from medtune.models.answering import LocalAnswerer, Visit
from medtune.models.assemble import zoo_entry
from medtune.models.contract import Assembled, Model
from medtune.models.media_reader import MediaReader
from medtune.models.sharding.lock_step import divide, ranks_mesh

NEW_TOKENS = 3
Answers = dict[PredictionKey, Prediction]


def assembled_twin(name: str) -> Assembled:
    """Returns a twin for answering."""
    assembled = zoo_entry(name).assemble(0)
    assembled.model.eval().requires_grad_(False)
    return assembled


def answerer_of(assembled: Assembled, *, temperature: float = 0.0, reader: MediaReader | None = None) -> LocalAnswerer:
    """Returns an answerer that takes two groups at once."""
    return LocalAnswerer(
        assembled,
        device=torch.device("cpu"),
        batch_tokens=100_000,
        batch_size=2,
        max_new_tokens=NEW_TOKENS,
        precise=nullcontext,
        temperature=temperature,
        reader=reader,
    )


def answers_to(answerer: LocalAnswerer, visits: Sequence[Visit]) -> Answers:
    """Returns the answers to all requests of some visits."""
    answerer.expect(visits)
    return {told.key: told for group, requests in visits for told in answerer.answer(group, requests)}


def divide_by_fsdp(model: Model) -> None:
    """Joins the ranks, and divides a model as a run does."""
    if not dist.is_initialized():
        dist.init_process_group("gloo")
    divide(model, "32-true", ranks_mesh(torch.device("cpu"), dist.get_world_size()))


def divide_by_zero(model: nn.Module) -> Any:
    """Joins the ranks, divides a model by ZeRO-3 and returns DeepSpeed's engine."""
    import deepspeed

    if not dist.is_initialized():
        dist.init_process_group("gloo")
    deepspeed.ops.__compatible_ops__["deepspeed_shm_comm"] = False
    deepspeed.init_distributed("gloo", dist_init_required=False, verbose=False)
    zero = {"stage": 3, "stage3_param_persistence_threshold": 0}
    config = {"train_micro_batch_size_per_gpu": 1, "zero_optimization": zero}
    engine, *_ = deepspeed.initialize(model=model, config=config)
    return engine
