"""Fixtures of the tests of servers: exported twins, stand-ins of servers in this process, and questions."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, nullcontext
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import PIL.Image
import pytest
import torch

from medtune.data.types import MediaGroup, MediaRef, Prediction, Prompt, Question, Request
from medtune.models.answering import LocalAnswerer
from medtune.models.contract import Assembled
from medtune.models.server.addresses import Addresses
from medtune.models.server.answering import Layouts, ServerAnswerer
from medtune.models.server.engines import EngineName
from medtune.models.weights.export import write_exported
from tests.models.server.stand_in import StandIn, serving
from tests.models.server.tiny_model import TinyModel
from tests.models.twins import twin

LETTERS, WORDS = ("A", "B", "C"), ("no", "a lesion", "malignant: BI-RADS 5")
_FOLDERS = TemporaryDirectory()
Served = Callable[..., StandIn]
Answering = Callable[..., ServerAnswerer]


@cache
def exported(name: str) -> Path:
    """Returns the exported folder of a twin."""
    folder = Path(_FOLDERS.name) / name
    folder.mkdir()
    write_exported(twin(name), folder, name=name, base_weights=None)
    return folder


@cache
def tiny(name: str) -> TinyModel:
    return TinyModel(exported(name))


@pytest.fixture
def group(tmp_path: Path) -> MediaGroup:
    return picture_group(tmp_path, 0)


def picture_group(folder: Path, seed: int) -> MediaGroup:
    path = folder / f"{seed}.png"
    noise_HWC = np.random.default_rng(seed).integers(0, 255, (60, 90, 3), dtype=np.uint8)
    PIL.Image.fromarray(noise_HWC).save(path)
    return MediaGroup(f"m{seed}", (MediaRef(path),), (question(seed, LETTERS),))


def question(number: int, options: Sequence[str]) -> Question:
    return Question(f"q{number}", "m", "Which plane?\n", tuple(options), options[0], "choice", "p")


def request(
    number: int = 0, options: Sequence[str] = LETTERS, *, reading: str = "likelihood", condition: str = "image"
) -> Request:
    asked = question(number, options)
    return Request(asked, Prompt("Which plane?\n" * (number + 1), asked.options, options[0]), reading, condition)  # type: ignore[arg-type]


EVERY_WAY = (
    request(0),
    request(1, WORDS),
    request(2, reading="generation"),
    request(3, condition="text_only"),
    request(4, WORDS, condition="text_only"),
    request(5, reading="generation", condition="text_only"),
)


def local_answers(assembled: Assembled, group: MediaGroup, requests: Sequence[Request]) -> dict[str, Prediction]:
    """Returns the answers of the model in this process by the question's id."""
    answerer = LocalAnswerer(
        assembled, device=torch.device("cpu"), batch_tokens=4096, max_new_tokens=5, precise=nullcontext
    )
    return {each.key.question_id: each for each in answerer.answer(group, requests)}


@pytest.fixture
def served() -> Iterator[Served]:
    """Starts stand-ins in this process."""
    with ExitStack() as stack:

        def of(name: str, *, fault: str = "", **settings: int) -> StandIn:
            found = StandIn(tiny(name), **settings)  # type: ignore[arg-type]
            found.fault = fault
            stack.enter_context(serving(found))
            return found

        yield of


@pytest.fixture
def answering() -> Iterator[Answering]:
    """Opens answerers that ask stand-ins."""
    with ExitStack() as stack:

        def of(
            engine: EngineName,
            name: str,
            *stand_ins: StandIn,
            said: list[str] | None = None,
            timeout_s: float = 20,
        ) -> ServerAnswerer:
            say = (said if said is not None else []).append
            where = [each.address for each in stand_ins]
            addresses = Addresses(where, say=say, first_wait_s=0.01, timeout_s=timeout_s)
            servers = stack.enter_context(addresses)
            return stack.enter_context(ServerAnswerer(engine, Layouts(twin(name)), servers, max_new_tokens=5))

        yield of
