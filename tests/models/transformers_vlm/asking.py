"""Asks transformers itself about an image, to compare its answers with those of medtune's adapter."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import PIL.Image
import torch
from torch import Tensor

from medtune.data.types import Image
from medtune.models.contract import Assembled
from medtune.models.sequence.builder import Sequence
from medtune.models.sequence.packing import PromptRows, pad_left
from medtune.models.transformers_vlm.media import ProcessorTransform
from medtune.models.transformers_vlm.model import TransformersVlm
from tests.models.twins import twin


def whole(assembled: Assembled) -> Any:
    assert isinstance(assembled.model, TransformersVlm)
    return assembled.model.whole


def processor(assembled: Assembled) -> Any:
    assert isinstance(assembled.transform, ProcessorTransform)
    return assembled.transform.processor


def encoded(assembled: Assembled, *images: Image) -> Any:
    return assembled.model.encode(assembled.transform.stack([assembled.transform(image) for image in images]))


def prompts(assembled: Assembled, layouts: list[Sequence], media: list[int | None]) -> PromptRows:
    return pad_left(layouts, media, pad_id=assembled.family.pad_id)


@dataclass(frozen=True)
class Plain:
    """A conversation as transformers' processor writes it, with the outputs of transformers' model for it."""

    ids: list[int]
    logprobs_LV: Tensor


def plain(assembled: Assembled, image: Image | None, prompt: str, answer: str, **instead: Any) -> Plain:
    """Returns transformers' own answer; `instead` replaces arguments of its forward, or removes them with None."""
    (stop,) = assembled.family.pieces(assembled.family.stop_ids[:1])
    inputs = processor(assembled)(
        text=[conversation(assembled, image, prompt) + answer + stop],
        images=[pillow(image)] if image else None,
        return_tensors="pt",
    )
    arguments = {name: value for name, value in {**inputs, **instead}.items() if value is not None}
    with torch.no_grad():
        logits_LV = whole(assembled)(**arguments).logits[0]
    return Plain(inputs["input_ids"][0].tolist(), logits_LV.float().log_softmax(-1))


def conversation(assembled: Assembled, image: Image | None, prompt: str) -> str:
    """Returns the text before the answer; LLaVA-1.5's answers begin behind a blank."""
    turns = [{"role": "user", "content": [*([{"type": "image"}] if image else []), {"type": "text", "text": prompt}]}]
    text = str(processor(assembled).apply_chat_template(turns, tokenize=False, add_generation_prompt=True))
    return text + " " if text.endswith("ASSISTANT:") else text


def pillow(image: Image) -> PIL.Image.Image:
    return PIL.Image.fromarray(image.pixels_HWC)


def expected(told: Plain, layout: Sequence) -> list[float]:
    """Returns transformers' log-probability of each labelled token of medtune's layout."""
    return [float(told.logprobs_LV[place - 1, label]) for place, label in enumerate(layout.labels) if label >= 0]


def saved(name: str, folder: Path) -> Path:
    """Writes the twin as a checkpoint into a folder."""
    assembled = twin(name)
    whole(assembled).save_pretrained(folder)
    processor(assembled).save_pretrained(folder)
    return folder
