"""Tests the tower for clips: its input, and the effect of the order of frames."""

import numpy as np
import pytest
import torch

from medtune.data.types import Image, Video
from medtune.models.assemble import zoo_entry
from medtune.models.nano.pocket import TRANSFORM
from medtune.models.sequence.packing import Shown, pack
from medtune.models.sequence.tree import grow
from medtune.models.zoo.pocket import ClipTransform


def clip(count: int, seed: int = 0) -> Video:
    frames_THWC = np.random.default_rng(seed).integers(0, 256, (count, 40, 50, 3)).astype(np.uint8)
    return Video(frames_THWC, tuple(number / 5 for number in range(count)))


def test_every_frame_is_prepared_as_an_image_is() -> None:
    pixels_TCHW = ClipTransform(TRANSFORM, num_frames=4)(clip(4))
    assert pixels_TCHW.shape == (4, 3, 32, 32)
    assert torch.equal(pixels_TCHW[2], TRANSFORM(Image(clip(4).frames_THWC[2])))


def test_a_clip_with_too_few_frames_and_an_image_are_refused() -> None:
    transform = ClipTransform(TRANSFORM, num_frames=4)
    with pytest.raises(ValueError, match="has 3 frames where the model looks at 4"):
        transform(clip(3))
    with pytest.raises(ValueError, match="reads videos, not images"):
        transform(Image(clip(1).frames_THWC[0]))


def test_the_order_of_frames_moves_the_answer() -> None:
    assembled = zoo_entry("nano_pocket_video").assemble(0)
    assembled.model.eval()
    video = clip(4)
    backwards = Video(np.ascontiguousarray(video.frames_THWC[::-1]), video.times_s)
    layout = assembled.family.layout("Which way?", "down")
    rows = pack([[Shown(grow([layout], [0]), 0)]], pad_id=assembled.family.pad_id)
    with torch.no_grad():
        said = [
            assembled.model(rows, assembled.model.encode(assembled.transform.stack([assembled.transform(each)]))).sums(
                1
            )
            for each in (video, backwards)
        ]
    assert abs(float(said[0] - said[1])) > 1e-2
