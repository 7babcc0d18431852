"""Compares what ranks with a divided model answer, each at its own pace, with the answers of one device."""

import functools
import multiprocessing
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
import torch
import torch.distributed as dist
from numpy.typing import NDArray

from medtune.data.types import MediaKind
from medtune.models.answering import ShownRequests
from medtune.models.contract import Assembled
from medtune.models.media_reader import MediaReader, lost_readers_named
from medtune.models.sharding.lock_step import InTurns, RanksFailedError, StoppedInTurn, is_divided, lock_step
from tests.models.answering.test_answering_together import four_visits
from tests.models.sharding.test_unread import (
    Answers,
    answerer_of,
    answers_to,
    assembled_twin,
    divide_by_fsdp,
    divide_by_zero,
)
from tests.models.twins import EVERY_TWIN, OF_IMAGES, OF_VOLUMES, shown
from tests.ranks import run_ranks
from tests.soak import in_suites


def answers_of_rank(
    rank: int,
    world_size: int,
    name: str,
    visits: Sequence[Sequence[ShownRequests]],
    strategy: str,
    temperature: float = 0.0,
) -> tuple[Answers, float]:
    """Returns a rank's answers with a divided model, and the share of the model that it holds afterwards."""
    assembled, in_turns = divided(name, strategy)
    with lock_step(assembled.model, in_turns=in_turns):
        told = answers_to(answerer_of(assembled, temperature=temperature), visits[rank])
    return told, share_held(assembled)


def answers_read_ahead(
    rank: int, world_size: int, name: str, visits: Sequence[Sequence[ShownRequests]]
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
        from medtune.trainer.devices.zero_in_turns import zero_in_turns

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
    """How a rank ended."""

    error: str  # The type of the error.
    message: str  # What it says.
    seconds: float  # The time that the rank took from the first use of the model.


def ended(
    rank: int, world_size: int, visits: Sequence[Sequence[ShownRequests]], *, failing: int, stops: bool
) -> Ending:
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


def failed(rank: int, world_size: int, visits: Sequence[Sequence[ShownRequests]]) -> Ending:
    """Returns how a rank ended when rank 3 failed."""
    return ended(rank, world_size, visits, failing=3, stops=False)


def stopped(rank: int, world_size: int, visits: Sequence[Sequence[ShownRequests]]) -> Ending:
    """Returns how a rank ended when rank 2, which has no questions, was asked to stop."""
    return ended(rank, world_size, visits, failing=2, stops=True)


def answers_out_of_turn(rank: int, world_size: int, visits: Sequence[Sequence[ShownRequests]]) -> Answers:
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


SLOW = ("nano_mllama",)
"""An image beside the row. Media that are read ahead and drawn replies are the plain suite's."""
EVERY = in_suites(EVERY_TWIN, slow=SLOW)


def uneven_visits(folder: Path, name: str) -> list[list[ShownRequests]]:
    """Returns the visits of four ranks: three, one without media, none, and two; the media differ in size."""
    kind: MediaKind = "volume" if name in OF_VOLUMES else "image" if name in OF_IMAGES else "video"
    visits = four_visits(folder, kind=kind)
    group, requests = visits[3]
    blind: ShownRequests = (group, tuple(request for request in requests if request.condition == "text_only"))
    return [visits[:3], [blind], [], [visits[3], visits[0]]]


def _compare(
    found: list[tuple[Answers, float]], visits: list[list[ShownRequests]], name: str, temperature: float
) -> None:
    alone = assembled_twin(name)
    for (mine, share), asked in zip(found, visits, strict=True):
        wanted = answers_to(answerer_of(alone, temperature=temperature), asked)
        assert mine.keys() == wanted.keys()
        for key, one in wanted.items():
            assert one.text == mine[key].text
            assert (one.option_logprobs or ()) == pytest.approx(mine[key].option_logprobs or (), rel=3e-7, abs=1e-5)
        assert share < 0.3, "a rank of four holds a part that it gathered"


@pytest.mark.parametrize("name", EVERY)
def test_ranks_with_a_divided_model_answer_as_one_device(name: str, tmp_path: Path) -> None:
    visits = uneven_visits(tmp_path, name)
    _compare(run_ranks(4, answers_of_rank, name, visits, "fsdp"), visits, name, 0.0)


@pytest.mark.parametrize("name", in_suites(("nano_qwen25vl", "nano_mllama", "nano_pocket"), slow=("nano_pocket",)))
def test_ranks_divided_by_zero_3_answer_as_one_device(name: str, tmp_path: Path) -> None:
    visits = uneven_visits(tmp_path, name)
    _compare(run_ranks(4, answers_of_rank, name, visits, "zero_3"), visits, name, 0.0)


@pytest.mark.soak
@pytest.mark.parametrize("name", ["nano_qwen25vl", "nano_m3d_phi3"])
def test_ranks_whose_media_are_read_ahead_answer_as_one_device(name: str, tmp_path: Path) -> None:
    visits = uneven_visits(tmp_path, name)
    _compare(run_ranks(4, answers_read_ahead, name, visits), visits, name, 0.0)


def test_drawn_replies_are_those_of_one_device(tmp_path: Path) -> None:
    visits = uneven_visits(tmp_path, "nano_pocket")
    _compare(run_ranks(4, answers_of_rank, "nano_pocket", visits, "fsdp", 1.0), visits, "nano_pocket", 1.0)


def test_an_error_on_one_rank_ends_all_and_is_named(tmp_path: Path) -> None:
    *others, own = run_ranks(4, failed, uneven_visits(tmp_path, "nano_pocket"))
    assert own[:2] == ("OSError", "the disk is full")
    for ending in others:
        assert ending[:2] == ("RanksFailedError", "rank 3 failed and the others stop: OSError: the disk is full")


def test_all_ranks_stop_when_one_is_asked_to(tmp_path: Path) -> None:
    endings = run_ranks(4, stopped, uneven_visits(tmp_path, "nano_pocket"))
    assert {ending.error for ending in endings} == {"StoppedInTurn"}


def test_one_rank_may_use_the_tower_while_the_others_help() -> None:
    alone = assembled_twin("nano_pocket")
    pixels = shown(alone, "nano_pocket", 0, 1)
    wanted = alone.model.features(pixels)
    first, second = run_ranks(2, features_of_first, pixels.numpy())
    assert wanted is not None
    assert second is None
    np.testing.assert_allclose(first, wanted.numpy(), rtol=1e-5, atol=1e-6)


@pytest.mark.soak
def test_without_turns_the_ranks_wait_for_one_another_or_answer_wrongly(tmp_path: Path) -> None:
    visits = uneven_visits(tmp_path, "nano_pocket")
    with pytest.raises(AssertionError, match="rank"):
        run_ranks(4, answers_out_of_turn, visits, timeout_s=60)
