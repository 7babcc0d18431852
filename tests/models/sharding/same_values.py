"""Compares a model whose weights stayed in their files until they were read with one that was loaded at once."""

from collections.abc import Callable

import torch

from medtune.models.contract import Assembled, Model
from medtune.models.sharding.lock_step import read_weight
from medtune.models.sharding.unread import leaving_weights_unread
from medtune.models.tuning.apply import adapt
from medtune.models.tuning.plan import Lora, PartTuning, Precision, Tuning
from medtune.models.tuning.quantize import set_rest, set_types, stored_types

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
