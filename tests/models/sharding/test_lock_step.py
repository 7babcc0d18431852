"""Compares what ranks with a divided model answer, each at its own pace, with the answers of one device."""

from pathlib import Path

import numpy as np
import pytest

from medtune.data.types import MediaKind
from medtune.models.answering import Visit
from tests.models.answering.test_answering_together import four_visits
from tests.models.sharding.answering_ranks import (
    answers_of_rank,
    answers_out_of_turn,
    answers_read_ahead,
    failed,
    features_of_first,
    stopped,
)
from tests.models.sharding.divide import Answers, answerer_of, answers_to, assembled_twin
from tests.models.twins import EVERY_TWIN, OF_IMAGES, OF_VOLUMES, shown
from tests.ranks import run_ranks

QUICK = ("nano_pocket", "nano_qwen25vl")
SLOW = ("nano_mllama", "nano_llava_video", "nano_m3d_phi3")
"""One of each way to pass media to the decoder; `make soak` has all the others."""


def _marks(name: str) -> list[pytest.MarkDecorator]:
    if name in QUICK:
        return []
    return [pytest.mark.slow] if name in SLOW else [pytest.mark.soak]


EVERY = [pytest.param(name, marks=_marks(name)) for name in EVERY_TWIN]


def uneven_visits(folder: Path, name: str) -> list[list[Visit]]:
    """Returns the visits of four ranks: three, one without media, none, and two; the media differ in size."""
    kind: MediaKind = "volume" if name in OF_VOLUMES else "image" if name in OF_IMAGES else "video"
    visits = four_visits(folder, kind=kind)
    group, requests = visits[3]
    blind: Visit = (group, tuple(request for request in requests if request.condition == "text_only"))
    return [visits[:3], [blind], [], [visits[3], visits[0]]]


def _compare(found: list[tuple[Answers, float]], visits: list[list[Visit]], name: str, temperature: float) -> None:
    alone = assembled_twin(name)
    for (mine, share), asked in zip(found, visits, strict=True):
        wanted = answers_to(answerer_of(alone, temperature=temperature), asked)
        assert mine.keys() == wanted.keys()
        for key, one in wanted.items():
            assert one.text == mine[key].text
            assert one.option_logprobs == pytest.approx(mine[key].option_logprobs, abs=1e-5)
        assert share < 0.3, "a rank of four holds a part that it gathered"


@pytest.mark.parametrize("name", EVERY)
def test_ranks_with_a_divided_model_answer_as_one_device(name: str, tmp_path: Path) -> None:
    visits = uneven_visits(tmp_path, name)
    _compare(run_ranks(4, answers_of_rank, name, visits, "fsdp"), visits, name, 0.0)


@pytest.mark.parametrize(
    "name",
    [
        pytest.param("nano_qwen25vl", marks=pytest.mark.slow),
        *(pytest.param(n, marks=pytest.mark.soak) for n in ("nano_mllama", "nano_pocket")),
    ],
)
def test_ranks_divided_by_zero_3_answer_as_one_device(name: str, tmp_path: Path) -> None:
    visits = uneven_visits(tmp_path, name)
    _compare(run_ranks(4, answers_of_rank, name, visits, "zero_3"), visits, name, 0.0)


@pytest.mark.parametrize("name", ["nano_qwen25vl", pytest.param("nano_m3d_phi3", marks=pytest.mark.soak)])
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


@pytest.mark.slow
def test_without_turns_the_ranks_wait_for_one_another_or_answer_wrongly(tmp_path: Path) -> None:
    visits = uneven_visits(tmp_path, "nano_pocket")
    with pytest.raises(AssertionError, match="rank"):
        run_ranks(4, answers_out_of_turn, visits, timeout_s=60)
