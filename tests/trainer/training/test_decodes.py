"""A picture is opened for its size once a process and decoded once as long as it is kept, wherever it is read."""

from collections import Counter
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import PIL.Image
import PIL.PngImagePlugin
import pytest
import torch

from bench.measuring.unmixed import unmixed
from medtune.data.media.images import image_size
from medtune.data.types import MediaGroup, MediaRef, Prompt, Question, Reading, Request
from medtune.models.answering import LocalAnswerer, ShownRequests
from medtune.models.assemble import zoo_entry
from medtune.models.contract import Assembled
from medtune.trainer.training.batches import MicroBatches
from medtune.trainer.training.sampling import StepOrder

NUM_PICTURES = 4
READINGS: tuple[Reading, ...] = ("likelihood", "generation")
OPTIONS = ("normal", "benign")


class Looked:
    """Counts how often each picture is opened and how often its pixels are decoded."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.opened, self.decoded = Counter[str](), Counter[str]()
        self._open: Callable[..., Any] = PIL.Image.open
        self._prepare: Callable[..., Any] = PIL.PngImagePlugin.PngImageFile.load_prepare
        monkeypatch.setattr(PIL.Image, "open", self._opening)
        looked = self

        def preparing(picture: PIL.PngImagePlugin.PngImageFile) -> None:
            looked.decoded[Path(str(getattr(picture.fp, "name", ""))).name] += 1
            looked._prepare(picture)

        monkeypatch.setattr(PIL.PngImagePlugin.PngImageFile, "load_prepare", preparing)

    def _opening(self, file: object, *told: object, **named: object) -> PIL.Image.Image:
        if name := getattr(file, "name", None):
            self.opened[Path(str(name)).name] += 1
        picture: PIL.Image.Image = self._open(file, *told, **named)
        return picture


@pytest.fixture
def groups(tmp_path: Path) -> list[MediaGroup]:
    found = []
    for number in range(NUM_PICTURES):
        pixels_HWC = np.random.default_rng(number).integers(0, 255, (40, 50, 3), dtype=np.uint8)
        PIL.Image.fromarray(pixels_HWC).save(tmp_path / f"{number}.png")
        asked = tuple(Question(f"q{number}{i}", str(number), "Odd?", OPTIONS, "normal", "choice", "p") for i in "ab")
        found.append(MediaGroup(str(number), (MediaRef(tmp_path / f"{number}.png"),), asked))
    return found


@pytest.fixture(scope="module")
def nano() -> Assembled:
    assembled = zoo_entry("nano_qwen25vl").assemble(0)
    assembled.model.eval()
    return assembled


def _prompt(question: Question) -> Prompt:
    return Prompt(question.text, OPTIONS, question.answer)


def test_training_decodes_each_picture_once_and_keeps_it_for_the_next_epoch(
    nano: Assembled, groups: list[MediaGroup], monkeypatch: pytest.MonkeyPatch
) -> None:
    data = unmixed(groups, _prompt, seed=0)
    order = StepOrder(data.row(), batch_size=4, micro_batch_size=2, world_size=1)
    looked, laid = Looked(monkeypatch), Counter[str]()
    batches = MicroBatches(data, order, rank=0, template=nano.template, transform=nano.transform)
    layouts = batches.sequences.layouts
    monkeypatch.setattr(batches.sequences, "layouts", lambda draw: laid.update([str(draw.group)]) or layouts(draw))
    for number in range(2):
        assert batches[number].step_target_tokens
    assert dict(looked.decoded) == {f"{number}.png": 1 for number in range(NUM_PICTURES)}
    # Once for the size and once for the pixels; a step is laid out once, though two forward passes count its targets.
    assert dict(looked.opened) == {f"{number}.png": 2 for number in range(NUM_PICTURES)}
    assert dict(laid) == {str(number): 1 for number in range(NUM_PICTURES)}
    for number in range(2, 4):
        assert batches[number].step_target_tokens
    assert dict(looked.decoded) == {f"{number}.png": 1 for number in range(NUM_PICTURES)}
    assert dict(looked.opened) == {f"{number}.png": 2 for number in range(NUM_PICTURES)}


def test_each_visit_of_an_evaluation_decodes_once(
    nano: Assembled, groups: list[MediaGroup], monkeypatch: pytest.MonkeyPatch
) -> None:
    for group in groups[:2]:
        image_size(group.media[0].path)
    looked = Looked(monkeypatch)
    visits: list[ShownRequests] = [
        (group, tuple(Request(q, _prompt(q), reading, "image") for q in group.questions for reading in READINGS))
        for group in groups
    ]
    answerer = LocalAnswerer(
        nano, device=torch.device("cpu"), batch_tokens=500, batch_size=3, max_new_tokens=2, precise=nullcontext
    )
    answerer.expect(visits)
    told = [prediction for visit in visits for prediction in answerer.answer(*visit)]
    assert len(told) == NUM_PICTURES * 4
    assert dict(looked.decoded) == {f"{number}.png": 1 for number in range(NUM_PICTURES)}
    assert dict(looked.opened) == {"0.png": 1, "1.png": 1, "2.png": 2, "3.png": 2}
