"""Compares every family with transformers' own forward on videos; negative controls must fail."""

from pathlib import Path
from typing import Any

import numpy as np
import PIL.Image
import pytest
import torch

from medtune.data.media.images import Size
from medtune.data.media.videos.read import Frames
from medtune.data.types import MediaRef, Video
from medtune.models.media_reader import read_item
from medtune.models.sequence.builder import Sequence
from medtune.models.sequence.packing import Shown, pack
from medtune.models.sequence.tree import grow
from medtune.models.transformers_vlm.families import find_family
from medtune.models.transformers_vlm.media import as_images
from tests.models.transformers_vlm.asking import processor, whole
from tests.models.twins import MODELS, OF_TRANSFORMERS, OF_VIDEOS, picture, row_each, size_of, twin

FAMILIES = [name for name in OF_VIDEOS if MODELS[name].family is not None]
AS_IMAGES = [name for name in FAMILIES if find_family(MODELS[name].family or "").video is as_images]
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
    return twin(name).family.layout(question, answer, shapes=[frames_of(video)])


def ours(name: str, video: Video, *, shown: Video | None = None) -> list[float]:
    assembled = twin(name)
    encoded = assembled.model.encode(assembled.transform.stack([assembled.transform(shown or video)]))
    with torch.no_grad():
        found = assembled.model(row_each(assembled, [laid(name, video)], [0]), encoded)
    read: list[float] = found.logprobs_T.tolist()
    return read


def told(name: str, video: Video) -> Any:
    """Returns transformers' ids and log-probabilities of the same conversation."""
    assembled = twin(name)
    if not find_family(MODELS[name].family or "").processor_writes_videos:
        ids = laid(name, video).ids
        with torch.no_grad():
            logits_LV = whole(assembled)(input_ids=torch.tensor([ids]), **assembled.transform(video)).logits[0]
        return list(ids), logits_LV.float().log_softmax(-1)
    media = [{"type": "image"}] * len(video.times_s) if name in AS_IMAGES else [{"type": "video"}]
    turns = [{"role": "user", "content": [*media, {"type": "text", "text": QUESTION}]}]
    text = str(processor(assembled).apply_chat_template(turns, tokenize=False, add_generation_prompt=True))
    text += " " if text.endswith("ASSISTANT:") else ""
    text += ANSWER + assembled.family.pieces([assembled.family.stop_ids[0]])[0]
    if name in AS_IMAGES:
        pictures = [PIL.Image.fromarray(frame) for frame in video.frames_THWC]
        inputs = processor(assembled)(text=[text], images=[pictures], return_tensors="pt")
    else:
        count = len(video.times_s)
        per_s = (count - 1) / (video.times_s[-1] - video.times_s[0]) if count > 1 else 1.0
        shown, numbers = torch.from_numpy(video.frames_THWC).permute(0, 3, 1, 2), list(range(count))
        if count == 1 and name in PAIRS:
            # transformers' processor refuses a single frame. Where frames are missing, it repeats the last one.
            shown, numbers = shown.expand(2, -1, -1, -1), [0, 0]
        inputs = processor(assembled)(
            text=[text],
            videos=[shown],
            video_metadata=[{"total_num_frames": count, "fps": per_s, "frames_indices": numbers}],
            do_sample_frames=False,
            return_tensors="pt",
        )
    with torch.no_grad():
        logits_LV = whole(assembled)(**inputs).logits[0]
    return inputs["input_ids"][0].tolist(), logits_LV.float().log_softmax(-1)


@each_family
@pytest.mark.parametrize(("count", "per_s"), [(5, 2.0), (4, 0.5), (2, 25.0), (1, 1.0), (3, 1.0)])
def test_logits_equal_transformers_own_forward(name: str, count: int, per_s: float) -> None:
    video = clip(count, per_s=per_s)
    layout = laid(name, video)
    ids, logprobs_LV = told(name, video)
    assert tuple(ids[: len(layout.ids)]) == layout.ids
    read = [float(logprobs_LV[place - 1, label]) for place, label in enumerate(layout.labels) if label >= 0]
    assert ours(name, video) == pytest.approx(read, abs=2e-4)


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
    still = assembled.family.layout(QUESTION, ANSWER, shapes=[size_of(image)])
    items = [assembled.transform(video), assembled.transform(image), assembled.transform(clip(3, seed=1))]
    encoded = assembled.model.encode(assembled.transform.stack(items))
    alone = row_each(assembled, [*layouts, still, laid(name, clip(3, seed=1))], [0, 0, 1, 2])
    trees = [grow(layouts, [0, 1]), grow([still], [2]), grow([laid(name, clip(3))], [3])]
    shared = pack([[Shown(tree, media)] for media, tree in enumerate(trees)], pad_id=assembled.family.pad_id)
    with torch.no_grad():
        sums = [assembled.model(each, encoded).sums(4).tolist() for each in (alone, shared)]
    assert sums[1] == pytest.approx(sums[0], abs=1e-4)


@each_family
def test_a_real_clip_is_read_and_answered(name: str, shared_real: Path) -> None:
    assembled = twin(name)
    path = shared_real / "ultrasound_clips" / "sonocrop_simple-soft-tissue_roi.mp4"
    ref = MediaRef(path, kind="video", start_s=1.0, end_s=2.0)
    encoded = assembled.model.encode(assembled.transform.stack([read_item(ref, assembled.transform)]))
    layout = assembled.family.layout(QUESTION, ANSWER, shapes=[assembled.transform.shape(ref)])
    with torch.no_grad():
        logprobs = assembled.model(row_each(assembled, [layout], [0]), encoded).logprobs_T
    assert len(layout.media_spans) in (1, 8, 16)
    assert torch.isfinite(logprobs).all()


@pytest.mark.parametrize("name", [name for name in OF_TRANSFORMERS if name not in FAMILIES])
def test_a_family_without_videos_says_so(name: str) -> None:
    assembled = twin(name)
    assert assembled.transform.kinds == ("image",)
    with pytest.raises(ValueError, match="takes no videos"):
        assembled.family.layout(QUESTION, ANSWER, shapes=[frames_of(clip())])
    with pytest.raises(ValueError, match="the model reads images, not videos"):
        assembled.transform(clip())
