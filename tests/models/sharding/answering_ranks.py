"""What a forked rank does in the tests of answering with a divided model."""

import functools
import multiprocessing
import time
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
import torch.distributed as dist
from numpy.typing import NDArray

from medtune.models.answering import Visit
from medtune.models.contract import Assembled
from medtune.models.media_reader import MediaReader, lost_readers_named
from medtune.models.sharding.lock_step import InTurns, RanksFailedError, StoppedInTurn, is_divided, lock_step
from tests.models.sharding.divide import (
    Answers,
    answerer_of,
    answers_to,
    assembled_twin,
    divide_by_fsdp,
    divide_by_zero,
)


def answers_of_rank(
    rank: int, world_size: int, name: str, visits: Sequence[Sequence[Visit]], strategy: str, temperature: float = 0.0
) -> tuple[Answers, float]:
    """Returns a rank's answers with a divided model, and the share of the model that it holds afterwards."""
    assembled, in_turns = divided(name, strategy)
    with lock_step(assembled.model, in_turns=in_turns):
        told = answers_to(answerer_of(assembled, temperature=temperature), visits[rank])
    return told, share_held(assembled)


def answers_read_ahead(
    rank: int, world_size: int, name: str, visits: Sequence[Sequence[Visit]]
) -> tuple[Answers, float]:
    """Returns what `answers_of_rank` does, where a process of each rank reads its media ahead."""
    # The ranks of these tests may have no processes of their own otherwise; those of a run may.
    multiprocessing.current_process()._config["daemon"] = False  # type: ignore[attr-defined]
    assembled, in_turns = divided(name, "fsdp")
    reading = MediaReader(assembled.transform, workers=1)
    with lock_step(assembled.model, in_turns=in_turns), lost_readers_named(), reading as reader:
        told = answers_to(answerer_of(assembled, reader=reader), visits[rank])
    return told, share_held(assembled)


def divided(name: str, strategy: str) -> tuple[Assembled, InTurns | None]:
    """Returns a divided twin, and what its strategy needs to gather in turns."""
    assembled = assembled_twin(name)
    in_turns: InTurns | None = None
    if strategy == "fsdp":
        divide_by_fsdp(assembled.model)
    else:
        from medtune.trainer.devices.deepspeed_strategy import zero_in_turns

        in_turns = functools.partial(zero_in_turns, divide_by_zero(assembled.model))
    assert is_divided(assembled.model)
    return assembled, in_turns


def share_held(assembled: Assembled) -> float:
    """Returns the share of the weights that this rank has in memory."""
    whole = held = 0
    for p in assembled.model.parameters():
        whole += getattr(p, "ds_numel", p.numel())
        held += p.to_local().numel() if hasattr(p, "to_local") else getattr(p, "ds_tensor", p).numel() + p.data.numel()
    return held / whole


class Ending(NamedTuple):
    """How a rank ended.

    Attributes:
        error: The type of the error.
        message: What it says.
        seconds: The time that the rank took from the first use of the model.
    """

    error: str
    message: str
    seconds: float


def ended(rank: int, world_size: int, visits: Sequence[Sequence[Visit]], *, failing: int, stops: bool) -> Ending:
    """Returns how a rank ended when another one failed, or was asked to stop, after its first visit."""
    assembled, _ = divided("nano_pocket", "fsdp")
    begun = time.monotonic()
    asked = False
    try:
        with lock_step(assembled.model, stopping=lambda: asked):
            answers_to(answerer_of(assembled), visits[rank][:1])
            if rank == failing and not stops:
                raise OSError("the disk is full")
            asked = rank == failing
            answers_to(answerer_of(assembled), visits[rank][1:])
    except (OSError, RanksFailedError, StoppedInTurn) as error:
        return Ending(type(error).__name__, str(error), time.monotonic() - begun)
    raise AssertionError("the rank did not end")


def failed(rank: int, world_size: int, visits: Sequence[Sequence[Visit]]) -> Ending:
    """Returns how a rank ended when rank 3 failed."""
    return ended(rank, world_size, visits, failing=3, stops=False)


def stopped(rank: int, world_size: int, visits: Sequence[Sequence[Visit]]) -> Ending:
    """Returns how a rank ended when rank 2, which has no questions, was asked to stop."""
    return ended(rank, world_size, visits, failing=2, stops=True)


def answers_out_of_turn(rank: int, world_size: int, visits: Sequence[Sequence[Visit]]) -> Answers:
    """Returns a rank's answers without any agreement."""
    assembled, _ = divided("nano_pocket", "fsdp")
    told = answers_to(answerer_of(assembled), visits[rank])
    dist.barrier()
    return told


def features_of_first(rank: int, world_size: int, pixels: NDArray[np.float32]) -> NDArray[np.float32] | None:
    """Returns the tower's features on rank 0, which asks for them alone."""
    assembled, _ = divided("nano_pocket", "fsdp")
    with lock_step(assembled.model):
        found = assembled.model.features(torch.from_numpy(pixels)) if rank == 0 else None
    return None if found is None else found.numpy()
