"""Tests that the order, the clock and the number of frames of a video are seen, and that questions share it.

Videos are limited in pixels as Qwen's own code does, and the layout agrees with the processor.

The numbers of visual tokens were recorded from qwen-vl-utils 0.0.14 (`fetch_video`, with image_patch_size 14 and 16).
"""

from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from transformers import Qwen2VLVideoProcessor, Qwen3VLVideoProcessor

from medtune.data.media.videos.read import chosen_frames
from medtune.data.types import Frames, MediaRef, Sampling, Size, Video
from medtune.models.assemble import zoo_entry
from medtune.models.contract import Assembled
from medtune.models.media_reader import read_item
from medtune.models.sequence.builder import Sequence
from medtune.models.sequence.packing import Shown, pack
from medtune.models.sequence.tree import grow
from medtune.models.transformers_vlm.blank_media import blank_frames
from medtune.models.transformers_vlm.families import find_family
from medtune.models.transformers_vlm.loading import VIDEO_FRAMES
from medtune.models.transformers_vlm.video_limits import limit_qwen2_videos, limit_qwen3_videos
from medtune.models.weights.loading_options import Loading
from tests.models.twins import MODELS, OF_TRANSFORMERS, OF_VIDEOS, picture, row_each, size_of, twin

FAMILIES = [name for name in OF_VIDEOS if MODELS[name].family is not None]
PAIRS = ("nano_glm4v", "nano_qwen35", "nano_qwen3vl")
QUESTION, ANSWER = "Which way?", "down"
each_family = pytest.mark.parametrize("name", FAMILIES)


def clip(count: int = 5, *, seed: int = 0, per_s: float = 2.0, height: int = 60, width: int = 90) -> Video:
    """Returns a clip that begins four seconds into its file."""
    frames_THWC = np.random.default_rng(seed).integers(0, 256, (count, height, width, 3)).astype(np.uint8)
    return Video(frames_THWC, tuple(4 + number / per_s for number in range(count)))


def frames_of(video: Video) -> Frames:
    height, width = video.frames_THWC.shape[1:3]
    return Frames(Size(width, height), video.times_s)


def laid(name: str, video: Video, answer: str | None = ANSWER, question: str = QUESTION) -> Sequence:
    return twin(name).template.layout(question, answer, shapes=[frames_of(video)])


def ours(name: str, video: Video, *, shown: Video | None = None) -> list[float]:
    assembled = twin(name)
    encoded = assembled.model.encode(assembled.transform.stack([assembled.transform(shown or video)]))
    with torch.no_grad():
        found = assembled.model(row_each(assembled, [laid(name, video)], [0]), encoded)
    read: list[float] = found.logprobs_T.tolist()
    return read


@pytest.mark.parametrize("name", PAIRS)
def test_a_single_frame_is_read_as_one_that_is_shown_twice(name: str) -> None:
    """transformers' processor refuses a single frame. Where frames are missing, it repeats the last one."""
    single = clip(1)
    twice = Video(single.frames_THWC.repeat(2, axis=0), single.times_s * 2)
    assert laid(name, single) == laid(name, twice)
    assert ours(name, single) == pytest.approx(ours(name, twice), abs=2e-4)


@each_family
def test_the_order_of_frames_is_seen(name: str) -> None:
    video = clip(6)
    backwards = Video(np.ascontiguousarray(video.frames_THWC[::-1]), video.times_s)
    moved = [abs(a - b) for a, b in zip(ours(name, video), ours(name, video, shown=backwards), strict=True)]
    assert max(moved) > 1e-2


@pytest.mark.parametrize("name", ["nano_qwen25vl", "nano_qwen3vl"])
def test_the_clock_is_seen(name: str) -> None:
    slow, fast = (ours(name, Video(clip(6).frames_THWC, clip(6, per_s=each).times_s)) for each in (0.25, 5.0))
    assert max(abs(a - b) for a, b in zip(slow, fast, strict=True)) > 1e-3


@each_family
def test_questions_about_a_video_share_it(name: str) -> None:
    """One tree for both questions gives the same as a row for each; an image in the same batch changes nothing."""
    assembled = twin(name)
    if assembled.model.plain_because is not None:
        pytest.skip(assembled.model.plain_because)
    video, image = clip(4), picture()
    layouts = [laid(name, video), laid(name, video, "up", "Which part of it is seen first?")]
    still = assembled.template.layout(QUESTION, ANSWER, shapes=[size_of(image)])
    items = [assembled.transform(video), assembled.transform(image), assembled.transform(clip(3, seed=1))]
    encoded = assembled.model.encode(assembled.transform.stack(items))
    alone = row_each(assembled, [*layouts, still, laid(name, clip(3, seed=1))], [0, 0, 1, 2])
    trees = [grow(layouts, [0, 1]), grow([still], [2]), grow([laid(name, clip(3))], [3])]
    shared = pack([[Shown(tree, media)] for media, tree in enumerate(trees)], pad_id=assembled.template.pad_id)
    with torch.no_grad():
        sums = [assembled.model(each, encoded).sums(4).tolist() for each in (alone, shared)]
    assert sums[1] == pytest.approx(sums[0], abs=1e-4)


@each_family
def test_a_real_clip_is_read_and_answered(name: str, shared_real: Path) -> None:
    assembled = twin(name)
    path = shared_real / "ultrasound_clips" / "sonocrop_simple-soft-tissue_roi.mp4"
    ref = MediaRef(path, kind="video", start_s=1.0, end_s=2.0)
    encoded = assembled.model.encode(assembled.transform.stack([read_item(ref, assembled.transform)]))
    layout = assembled.template.layout(QUESTION, ANSWER, shapes=[assembled.transform.shape(ref)])
    with torch.no_grad():
        logprobs = assembled.model(row_each(assembled, [layout], [0]), encoded).logprobs_T
    assert len(layout.media_spans) in (1, 8, 16)
    assert torch.isfinite(logprobs).all()


@pytest.mark.parametrize("name", [name for name in OF_TRANSFORMERS if name not in FAMILIES])
def test_a_family_without_videos_says_so(name: str) -> None:
    assembled = twin(name)
    assert assembled.transform.kinds == ("image",)
    with pytest.raises(ValueError, match="takes no videos"):
        assembled.template.layout(QUESTION, ANSWER, shapes=[frames_of(clip())])
    with pytest.raises(ValueError, match="the model reads images, not videos"):
        assembled.transform(clip())


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
        limit_qwen2_videos(made, max_pixels, max_tokens)
    else:
        made = SimpleNamespace(
            video_processor=Qwen3VLVideoProcessor(size={"shortest_edge": 4096, "longest_edge": 25165824})
        )
        limit_qwen3_videos(made, max_pixels, max_tokens)
    return made


def num_tokens(generation: str, shape: Frames, **settings: int) -> int:
    video = limited(generation, **settings).video_processor
    # A single frame is shown twice.
    shown = blank_frames(max(len(shape.times_s), 2), shape.size.width, shape.size.height)
    made = video(videos=[shown], return_tensors="pt", do_sample_frames=False)
    return int(made["video_grid_thw"].prod()) // 4


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
        twin("nano_llava_onevision").template.layout("Q?", None, shapes=[frames(5000, 90, 60)])
