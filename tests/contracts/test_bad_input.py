"""Tests of extreme input: an image of one pixel and a clip of one frame for every tiny model; broken model folders."""

import math
from contextlib import nullcontext
from pathlib import Path

import PIL.Image
import pytest
import torch

from medtune.data.types import MediaGroup, MediaRef, Prompt, Question, Request
from medtune.models.answering import LocalAnswerer
from tests.data.media.videos.synthetic_videos import mp4
from tests.models.twins import OF_IMAGES, OF_TRANSFORMERS, OF_VIDEOS, twin

OPTIONS = ("head", "femur")


def read(name: str, ref: MediaRef) -> list[float]:
    """Returns the log-likelihoods of two options, and generates a reply."""
    question = Question("q7", "m", "Which plane?", OPTIONS, "head", "choice", "p")
    prompt = Prompt(question.text, OPTIONS, "head")
    answerer = LocalAnswerer(
        twin(name), device=torch.device("cpu"), batch_tokens=4096, max_new_tokens=2, precise=nullcontext
    )
    group = MediaGroup("m", (ref,), (question,))
    requests = [Request(question, prompt, "likelihood"), Request(question, prompt, "generation")]
    found = {each.key.reading: each for each in answerer.answer(group, requests)}
    assert found["generation"].text is not None
    return list(found["likelihood"].option_logprobs or ())


@pytest.mark.parametrize("name", OF_IMAGES)
def test_a_picture_of_one_pixel_is_answered(name: str, tmp_path: Path) -> None:
    PIL.Image.new("RGB", (1, 1), (90, 80, 70)).save(tmp_path / "dot.png")
    assert all(map(math.isfinite, read(name, MediaRef(tmp_path / "dot.png"))))


@pytest.mark.parametrize("name", [name for name in OF_VIDEOS if name in OF_TRANSFORMERS])
def test_a_clip_of_one_frame_is_answered(name: str, tmp_path: Path) -> None:
    ref = MediaRef(mp4(tmp_path / "still.mp4", [0.0]), kind="video")
    assert all(map(math.isfinite, read(name, ref)))


def test_a_clip_shorter_than_the_model_wants_names_its_file(tmp_path: Path) -> None:
    path = mp4(tmp_path / "short.mp4", [0.0, 0.04])
    with pytest.raises(
        ValueError, match=r"short\.mp4: the clip has 2 frames where the model looks at 4; make it longer"
    ):
        read("nano_pocket_video", MediaRef(path, kind="video"))
