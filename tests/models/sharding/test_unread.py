"""Tests that weights which stay in their files have the values of weights that are read at once, to the last bit.

Divides tiny models among forked ranks, and lets each rank answer questions of its own.

It imports little, because every forked rank imports it.
"""

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from itertools import product
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch import nn

from medtune.data.types import Prediction, PredictionKey
from medtune.models.answering import LocalAnswerer, ShownRequests
from medtune.models.assemble import zoo_entry
from medtune.models.contract import Assembled, Model
from medtune.models.media_reader import MediaReader
from medtune.models.sharding.lock_step import divide, ranks_mesh, read_weight
from medtune.models.sharding.unread import leaving_weights_unread, read
from medtune.models.tuning.apply import adapt
from medtune.models.tuning.plan import Lora, PartTuning, Precision, Tuning
from medtune.models.tuning.quantize import set_rest, set_types, stored_types
from medtune.models.weights.checkpoint import load_trained, trainable_names, write_trained
from medtune.models.weights.loading_options import DtypeName, Loading
from tests.models.twins import OF_TRANSFORMERS, fresh
from tests.trainer.devices.divided import FULL
from tests.trainer.precision.learning import Case, write_checkpoint

TUNING = Tuning(PartTuning("frozen"), PartTuning("full", lr=1e-3), PartTuning("lora", lr=1e-3, lora=Lora(r=4)))


def read_later_and_at_once(
    assemble: Callable[[], Assembled], precision: Precision, tuning: Tuning = TUNING
) -> tuple[Model, Model]:
    """Returns the model of an entry, read after everything else was done to it, and the same model read at once."""
    with leaving_weights_unread():
        later = assemble().model
        adapt(later, [tuning], seed=0)
    types = stored_types(later, precision)
    set_rest(later, precision)
    for name, parameter in later.named_parameters():
        read_weight(parameter, name, types.get(name))
    at_once = assemble().model
    adapt(at_once, [tuning], seed=0)
    set_types(at_once, precision)
    return later, at_once


def assert_same(later: Model, at_once: Model) -> None:
    """Fails unless all parameters and buffers have the same types and the same bits."""
    for mine, theirs in (
        (dict(later.named_parameters()), dict(at_once.named_parameters())),
        (dict(later.named_buffers()), dict(at_once.named_buffers())),
    ):
        assert mine.keys() == theirs.keys()
        for name, tensor in mine.items():
            assert tensor.dtype == theirs[name].dtype, name
            assert torch.equal(tensor, theirs[name]), name


NEW_TOKENS = 3
Answers = dict[PredictionKey, Prediction]


def assembled_twin(name: str) -> Assembled:
    """Returns a twin for answering."""
    assembled = fresh(name)
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


def answers_to(answerer: LocalAnswerer, visits: Sequence[ShownRequests]) -> Answers:
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


QUICK = ("nano_gemma3", "nano_mllama", "nano_qwen25vl")
WAYS = tuple(product(("float32", "bfloat16"), (torch.float32, torch.bfloat16), ("lora", "full")))
"""The type that is asked for, that of the file, and what learns."""


def _cases() -> list[Any]:
    """Returns every twin with every way: three divide them in `make test`, the others have one in `make test-slow`."""

    def marks(name: str, number: int, way: int) -> tuple[pytest.MarkDecorator, ...]:
        if name in QUICK:
            return () if way % len(QUICK) == QUICK.index(name) else (pytest.mark.soak,)
        return (pytest.mark.slow if number % len(WAYS) == way else pytest.mark.soak,)

    return [
        pytest.param(name, *each, marks=marks(name, number, way))
        for number, name in enumerate(OF_TRANSFORMERS)
        for way, each in enumerate(WAYS)
    ]


@pytest.mark.parametrize(("name", "dtype", "stored", "learns"), _cases())
def test_a_checkpoint_of_transformers(
    name: str, dtype: DtypeName, stored: torch.dtype, learns: str, tmp_path: Path
) -> None:
    # Values that float32 alone can hold, so that each rounding shows.
    write_checkpoint(Case(name, stored, stored), tmp_path)
    loading, tuning = Loading(weights=str(tmp_path), dtype=dtype), TUNING if learns == "lora" else FULL
    assert_same(*read_later_and_at_once(lambda: zoo_entry(name).assemble(0, loading), "bf16-mixed", tuning))


def test_a_weight_takes_the_place_of_its_file_only_when_it_is_read(tmp_path: Path) -> None:
    write_checkpoint(Case("nano_qwen25vl", torch.float32, torch.float32), tmp_path)
    loading = Loading(weights=str(tmp_path), dtype="bfloat16")
    with leaving_weights_unread():
        model = zoo_entry("nano_qwen25vl").assemble(0, loading).model
    parameter = next(p for p in model.parameters() if p.dim() == 2)
    assert parameter.dtype == torch.float32, "the tensor of the file"
    assert read(parameter).dtype == torch.bfloat16
    assert parameter.dtype == torch.float32, "it stays as it is"


def test_trained_weights_replace_those_that_were_not_read(tmp_path: Path) -> None:
    trained = fresh("nano_pocket").model
    adapt(trained, [TUNING], seed=1)
    learnt = set(trainable_names(trained))
    tensors = {name: p.detach() + 1 for name, p in trained.named_parameters() if name in learnt}
    write_trained(tmp_path / "best.safetensors", tensors, about={})
    with leaving_weights_unread():
        model = zoo_entry("nano_pocket").assemble(0).model
        adapt(model, [TUNING], seed=0)
        load_trained(model, tmp_path / "best.safetensors")
    for name, parameter in model.named_parameters():
        if name in learnt:
            assert torch.equal(read(parameter), tensors[name]), name
            assert not torch.equal(parameter, tensors[name]), "it was read before anyone asked for it"
