"""Tests that a sequence is the processor's own, whatever is shown together, and that it costs no pixels."""

import re
from copy import copy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from transformers import AutoProcessor

from medtune.data.types import MEDIA_MARK, Frames, Size, Video
from medtune.models.sequence.builder import Sequence
from medtune.models.transformers_vlm.families import find_family
from medtune.models.transformers_vlm.generic.loading import from_checkpoint
from medtune.models.weights.loading_options import Loading
from tests.models.transformers_vlm.generic.checkpoints import write_checkpoint
from tests.models.transformers_vlm.test_parity import pillow, processor, whole
from tests.models.transformers_vlm.test_video import clip, frames_of
from tests.models.twins import picture, row_each, size_of, twin

WITH_BOTH = ("nano_glm4v", "nano_internvl", "nano_llava_next_video", "nano_qwen25vl", "nano_qwen3vl")
ANSWER = "down"


def _both(name: str, video: Video, *, prompt: str, order: tuple[str, ...] = ("image", "video")) -> Any:
    """Returns what transformers' processor makes of a question about an image and a video."""
    parts: dict[str, Any] = {"image": {"type": "image"}, "video": {"type": "video"}}
    turns = [{"role": "user", "content": [*(parts[each] for each in order), {"type": "text", "text": prompt}]}]
    made = processor(twin(name))
    text = made.apply_chat_template(turns, tokenize=False, add_generation_prompt=True)
    text += " " if text.endswith("ASSISTANT:") else ""
    (stop,) = twin(name).template.pieces(twin(name).template.stop_ids[:1])
    count = len(video.times_s)
    rate = (count - 1) / (video.times_s[-1] - video.times_s[0])
    return made(
        text=[f"{text}{ANSWER}{stop}"],
        images=[pillow(picture(3))],
        videos=[torch.from_numpy(video.frames_THWC).permute(0, 3, 1, 2)],
        video_metadata=[{"total_num_frames": count, "fps": rate, "frames_indices": list(range(count))}],
        do_sample_frames=False,
        return_tensors="pt",
    )


@pytest.mark.parametrize("name", WITH_BOTH)
@pytest.mark.parametrize("order", [("image", "video"), ("video", "image")])
def test_an_image_and_a_video_together_equal_transformers_own_conversation(name: str, order: tuple[str, ...]) -> None:
    assembled, video, image = twin(name), clip(4), picture(3)
    shown: dict[str, Any] = {"image": image, "video": video}
    shapes: dict[str, Any] = {"image": size_of(image), "video": frames_of(video)}
    layout = assembled.template.layout("Alike?", ANSWER, shapes=[shapes[each] for each in order])
    made = _both(name, video, prompt="Alike?", order=order)
    assert layout.ids == tuple(made["input_ids"][0].tolist()[: len(layout.ids)])
    if name == "nano_glm4v":
        return  # transformers' own forward takes no image beside a video, whose tokens are those of images.
    with torch.no_grad():
        logprobs_LV = whole(assembled)(**made).logits[0].float().log_softmax(-1)
        encoded = assembled.model.encode(
            assembled.transform.stack([assembled.transform(shown[each]) for each in order])
        )
        ours = assembled.model(row_each(assembled, [layout], [0]), encoded).logprobs_T.tolist()
    told = [float(logprobs_LV[place - 1, label]) for place, label in enumerate(layout.labels) if label >= 0]
    assert ours == pytest.approx(told, abs=2e-4)


def _of_items(layout: Sequence) -> list[int]:
    return [span.item for span in layout.media_spans]


def test_a_template_that_writes_images_before_videos_keeps_the_items_apart() -> None:
    own = processor(twin("nano_llava_next_video"))
    changed = copy(own)
    changed.chat_template = (
        "{% for message in messages %}{{ message['role'] | upper }}: "
        "{% for part in message['content'] if part['type'] == 'image' %}<image>\n{% endfor %}"
        "{% for part in message['content'] if part['type'] == 'video' %}<video>\n{% endfor %}"
        "{% for part in message['content'] if part['type'] == 'text' %}{{ part['text'] }}{% endfor %}{% endfor %}"
        "{% if add_generation_prompt %}ASSISTANT: {% endif %}"
    )
    config = whole(twin("nano_llava_next_video")).config
    family = find_family("llava_next_video").sequence(changed, config=config, max_tokens=4096)
    asked = f"Is {MEDIA_MARK} before {MEDIA_MARK}?"
    assert _of_items(family.layout(asked, None, shapes=[frames_of(clip(4)), Size(90, 60)])) == [1, 0]
    assert _of_items(twin("nano_llava_next_video").template.layout(asked, None, shapes=[Size(90, 60)] * 2)) == [0, 1]


SPANS = {
    # The blank in front of the answer stands before the span.
    "nano_llava": (
        "{% for message in messages %}{{ message['role'] | upper }}: {% for part in message['content'] %}"
        "{% if part['type'] == 'image' %}<image>\n{% elif message['role'] == 'user' %}{{ part['text'] + ' ' }}"
        "{% else %}{% generation %}{{ part['text'] + ' ' }}{% endgeneration %}{% endif %}{% endfor %}{% endfor %}"
        "{% if add_generation_prompt %}ASSISTANT:{% endif %}"
    ),
    # The span begins with a line break, and the prompt for a reply has no blank in front of it.
    "nano_llava_onevision": (
        "{% for message in messages %}<|im_start|>{{ message['role'] + ' ' }}{% for part in message['content'] %}"
        "{% if part['type'] == 'image' %}<image>\n{% elif message['role'] == 'user' %}{{ '\n' + part['text'] }}"
        "{% else %}{% generation %}{{ '\n' + part['text'] }}{% endgeneration %}{% endif %}{% endfor %}<|im_end|>"
        "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
    ),
}
"""Templates that mark what is generated as those of the published checkpoints do."""


@pytest.mark.parametrize("name", SPANS)
def test_a_span_that_the_template_marks_beside_white_space_does_not_change_what_is_learnt(name: str) -> None:
    families = []
    for template in (SPANS[name], re.sub(r"{% (?:end)?generation %}", "", SPANS[name])):
        changed, config = copy(processor(twin(name))), whole(twin(name)).config
        changed.chat_template = template
        families.append(find_family(name.removeprefix("nano_")).sequence(changed, config=config, max_tokens=4096))
    for answer in (None, "head", "The head.\nIt is."):
        marked, plain = (each.layout("Plane?", answer, shapes=[Size(90, 60)]) for each in families)
        assert marked == plain
    learnt = [label for label in plain.labels if label >= 0]
    assert families[0].decode(learnt).strip() == "The head.\nIt is."


def test_frames_that_are_not_evenly_spaced_have_their_own_times() -> None:
    layout = twin("nano_qwen3vl").template.layout("When?", None, shapes=[Frames(Size(90, 60), (4.0, 4.2, 6.0, 6.6))])
    told = twin("nano_qwen3vl").template.decode(layout.ids)
    assert "<0.1 seconds>" in told
    assert "<2.3 seconds>" in told


@pytest.mark.parametrize("name", ["nano_qwen25vl", "nano_llava", "nano_gemma3", "nano_mllama"])
def test_questions_about_images_of_one_size_prepare_it_once_and_without_pixels(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    kind = type(processor(twin(name)).image_processor)
    prepare, given = kind.__call__, list[Any]()

    def watched(self: Any, *media: Any, **settings: Any) -> Any:
        given.append((*media, settings.get("images")))
        return prepare(self, *media, **settings)

    config = whole(twin(name)).config
    family = find_family(config.model_type if name != "nano_qwen25vl" else "qwen2_vl").sequence(
        processor(twin(name)), config=config, max_tokens=4096
    )
    monkeypatch.setattr(kind, "__call__", watched)
    for number in range(5):
        for answer in (None, "head", "abdomen"):
            family.layout(f"Question {number}?", answer, shapes=[Size(300, 200)])
    assert len(given) == 1
    if name == "nano_mllama":
        return  # It makes numbers of a shape on the device of the pixels, so that it is shown black pictures.
    assert all(each.is_meta for each in _leaves(given) if isinstance(each, torch.Tensor))
    assert not any(isinstance(each, np.ndarray) or hasattr(each, "getpixel") for each in _leaves(given))


def _leaves(value: Any) -> list[Any]:
    return [leaf for each in value for leaf in _leaves(each)] if isinstance(value, list | tuple) else [value]


def test_a_processor_that_asks_where_letters_stand_is_told(tmp_path: Path) -> None:
    """Idefics3's does, of a text whose runs of placeholders were encoded as one."""
    write_checkpoint("idefics3", tmp_path)
    assembled = from_checkpoint(str(tmp_path), Loading(weights=str(tmp_path)))
    own: Any = AutoProcessor.from_pretrained(tmp_path)
    content = [{"type": "image", "image": pillow(picture())}, {"type": "text", "text": "Why?"}]
    turns = [{"role": "user", "content": content}]
    how = {"tokenize": True, "return_dict": True, "add_generation_prompt": True}
    told = own.apply_chat_template(turns, return_tensors="pt", **how)["input_ids"][0].tolist()
    assert assembled.template.layout("Why?", None, shapes=[size_of(picture())]).ids == tuple(told)
