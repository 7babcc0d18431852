"""Tests that videos are limited in pixels as Qwen's own code does, and that the layout agrees with the processor.

The numbers of visual tokens were recorded from qwen-vl-utils 0.0.14 (`fetch_video`, with image_patch_size 14 and 16).
"""

from functools import cache
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from transformers import Qwen2VLVideoProcessor, Qwen3VLVideoProcessor

from medtune.data.media.images import Size
from medtune.data.media.videos.read import Frames, Sampling, chosen_frames
from medtune.data.types import Video
from medtune.models.assemble import zoo_entry
from medtune.models.contract import Assembled
from medtune.models.sequence import qwen_vl
from medtune.models.transformers_vlm.families import find_family
from medtune.models.transformers_vlm.loading import VIDEO_FRAMES
from medtune.models.weights.loading_options import Loading
from tests.models.twins import twin

VENDOR = [
    ("qwen2", 16, 1920, 1080, 5760),
    ("qwen2", 16, 640, 480, 3128),
    ("qwen2", 160, 1920, 1080, 57600),
    ("qwen2", 400, 1920, 1080, 115200),
    ("qwen2", 768, 1920, 1080, 105984),
    ("qwen3", 16, 1920, 1080, 5760),
    ("qwen3", 16, 640, 480, 2400),
]


def frames(count: int, width: int, height: int) -> Frames:
    return Frames(Size(width, height), tuple(number / 2 for number in range(count)))


@cache
def limited(generation: str, *, max_pixels: int | None = None, max_tokens: int = 262144) -> Any:
    """Returns a processor with the settings of the published Qwen2.5-VL or Qwen3-VL checkpoints."""
    if generation == "qwen2":
        made: Any = SimpleNamespace(
            video_processor=Qwen2VLVideoProcessor(size={"shortest_edge": 3136, "longest_edge": 12845056})
        )
        qwen_vl.limit_qwen2_videos(made, max_pixels, max_tokens)
    else:
        made = SimpleNamespace(
            video_processor=Qwen3VLVideoProcessor(size={"shortest_edge": 4096, "longest_edge": 25165824})
        )
        qwen_vl.limit_qwen3_videos(made, max_pixels, max_tokens)
    return made


def num_tokens(generation: str, shape: Frames, **settings: int) -> int:
    video = limited(generation, **settings).video_processor
    if generation == "qwen2":
        written = qwen_vl._one_run(shape, video_processor=video, tokens_per_s=2.0)
    else:
        written = qwen_vl._run_per_pair(shape, video_processor=video)
    return sum(len(run.offsets) for run in written.runs)


@pytest.mark.parametrize(("generation", "count", "width", "height", "tokens"), VENDOR)
def test_videos_have_as_many_tokens_as_in_the_vendor_s_code(
    generation: str, count: int, width: int, height: int, tokens: int
) -> None:
    assert num_tokens(generation, frames(count, width, height)) == tokens


@pytest.mark.parametrize("generation", ["qwen2", "qwen3"])
@pytest.mark.parametrize(
    ("count", "width", "height"), [(16, 192, 108), (5, 90, 60), (1, 90, 60), (2, 2000, 12), (3, 33, 400), (7, 12, 700)]
)
@pytest.mark.parametrize("settings", [{}, {"max_pixels": 9000}, {"max_tokens": 300}])
def test_the_layout_has_as_many_tokens_as_the_processor_makes(
    generation: str, count: int, width: int, height: int, settings: dict[str, int]
) -> None:
    processor = limited(generation, **settings)
    family = find_family(f"{generation}_vl")
    assert family.video is not None
    clip = Video(np.zeros((count, height, width, 3), np.uint8), frames(count, width, height).times_s)
    made = family.video(processor, clip)
    assert num_tokens(generation, frames(count, width, height), **settings) == int(made["video_grid_thw"].prod()) // 4


@pytest.mark.parametrize("generation", ["qwen2", "qwen3"])
def test_all_frames_together_leave_room_in_the_context(generation: str) -> None:
    """A clip ten times as long as usual takes no more than 0.9 of a context of 8192 tokens."""
    long = num_tokens(generation, frames(160, 1920, 1080), max_tokens=8192)
    assert 0.6 * 8192 < long <= 0.9 * 8192


def test_the_recipe_lowers_and_raises_the_limit_of_a_frame() -> None:
    for generation, side in (("qwen2", 28), ("qwen3", 32)):
        shape = frames(16, 1920, 1080)
        assert num_tokens(generation, shape, max_pixels=100 * side**2) <= 800
        assert num_tokens(generation, shape, max_pixels=1200 * side**2) > 5760


def loaded(name: str, **settings: Any) -> Assembled:
    return zoo_entry(name).assemble(0, Loading(**settings))


def test_a_limit_below_the_processor_s_own_or_for_other_families_is_refused() -> None:
    with pytest.raises(ValueError, match=r"model.video_max_pixels is 800; the processor wants at least 3136"):
        loaded("nano_qwen25vl", video_max_pixels=800)
    for name in ("nano_llava_onevision", "nano_gemma3"):
        with pytest.raises(ValueError, match=r"model.video_max_pixels is set, but .* own size"):
            loaded(name, video_max_pixels=9000)


def test_a_long_clip_is_sampled_and_too_many_frames_are_an_error() -> None:
    """Nothing is cut in silence: 16 frames are taken of a long clip, and more than the model reads are refused."""
    times_s = [number / 25 for number in range(25 * 600)]
    assert len(chosen_frames(times_s, Sampling(VIDEO_FRAMES, 5.0))) == VIDEO_FRAMES
    with pytest.raises(ValueError, match=r"where the model reads 4096; .* Lower model.video_frames"):
        twin("nano_llava_onevision").family.layout("Q?", None, shapes=[frames(5000, 90, 60)])
