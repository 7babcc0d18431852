"""Compares the gradients of every family with those of transformers' own forward, and a batch of one with one of eight.

That answers are transformers' own stands in tests/models/proof/test_proof.py, for all checkpoints.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import PIL.Image
import pytest
import torch
from torch import Tensor

from medtune.data.types import Image
from medtune.models.contract import Assembled
from medtune.models.sequence.builder import Sequence
from medtune.models.sequence.packing import PackedRows, PromptRows, pad_left
from medtune.models.transformers_vlm.media import ProcessorTransform
from medtune.models.transformers_vlm.model import TransformersVlm
from tests.models.twins import OF_TRANSFORMERS, fresh, picture, row_each, size_of, twin
from tests.trainer.one_step import furthest


def whole(assembled: Assembled) -> Any:
    assert isinstance(assembled.model, TransformersVlm)
    return assembled.model.whole


def processor(assembled: Assembled) -> Any:
    assert isinstance(assembled.transform, ProcessorTransform)
    return assembled.transform.processor


def encoded(assembled: Assembled, *images: Image) -> Any:
    return assembled.model.encode(assembled.transform.stack([assembled.transform(image) for image in images]))


def prompts(assembled: Assembled, layouts: list[Sequence], media: list[int | None]) -> PromptRows:
    return pad_left(layouts, media, pad_id=assembled.template.pad_id)


@dataclass(frozen=True)
class Plain:
    """A conversation as transformers' processor writes it, with the outputs of transformers' model for it."""

    ids: list[int]
    logprobs_LV: Tensor


def plain(assembled: Assembled, image: Image | None, prompt: str, answer: str, **instead: Any) -> Plain:
    """Returns transformers' own answer; `instead` replaces arguments of its forward, or removes them with None."""
    (stop,) = assembled.template.pieces(assembled.template.stop_ids[:1])
    inputs = processor(assembled)(
        text=[conversation(assembled, image, prompt) + answer + stop],
        images=[pillow(image)] if image else None,
        return_tensors="pt",
    )
    arguments = {name: value for name, value in {**inputs, **instead}.items() if value is not None}
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
    return told_of(told, layout).tolist()


def told_of(told: Plain, layout: Sequence) -> Tensor:
    places = [place for place, label in enumerate(layout.labels) if label >= 0]
    return torch.stack([told.logprobs_LV[place - 1, layout.labels[place]] for place in places])


def saved(name: str, folder: Path) -> Path:
    """Writes the twin as a checkpoint into a folder."""
    assembled = twin(name)
    whole(assembled).save_pretrained(folder)
    processor(assembled).save_pretrained(folder)
    return folder


QUESTION, ANSWER = "Which plane?", "abdomen"
each_family = pytest.mark.parametrize("name", OF_TRANSFORMERS)


def _ours(name: str, image: Any, *, change: Any = None, shown: Any = None, answer: str = ANSWER) -> list[float]:
    assembled = twin(name)
    laid: PackedRows = row_each(assembled, [assembled.template.layout(QUESTION, answer, shapes=[size_of(image)])], [0])
    laid = change(laid) if change else laid
    with torch.no_grad():
        return assembled.model(laid, encoded(assembled, shown or image)).logprobs_T.tolist()  # type: ignore[no-any-return]


@each_family
def test_gradients_of_all_weights_equal_those_of_transformers_own_forward(name: str) -> None:
    assembled, image = fresh(name), picture()
    assembled.model.eval()
    layout = assembled.template.layout(QUESTION, ANSWER, shapes=[size_of(image)])

    def gradients(logprobs_T: Tensor) -> dict[str, Tensor]:
        (-logprobs_T.sum()).backward()
        found = {n: p.grad.clone() for n, p in assembled.model.named_parameters() if p.grad is not None}
        assembled.model.zero_grad()
        return found

    ours = gradients(assembled.model(row_each(assembled, [layout], [0]), encoded(assembled, image)).logprobs_T)
    theirs = gradients(told_of(plain(assembled, image, QUESTION, ANSWER), layout))
    assert furthest(ours, theirs) < 1e-3


@each_family
def test_batch_of_one_equals_batch_of_eight(name: str) -> None:
    """The rows differ in length, show images of two sizes or none, and are padded on either side."""
    assembled = twin(name)
    images = [picture(1), picture(2, width=40, height=120)]
    media = [0, 1, None, 0, 1, None, 0, 1]
    questions = ["Plane?" + "x" * (3 * n) for n in range(8)]

    def laid(n: int, answer: str | None) -> Any:
        index = media[n]
        size = None if index is None else size_of(images[index])
        return assembled.template.layout(questions[n], answer, shapes=[] if index is None else [size])

    def alone(n: int) -> tuple[Any, list[int | None]]:
        index = media[n]
        return (None, [None]) if index is None else (encoded(assembled, images[index]), [0])

    both = encoded(assembled, *images)
    answers = [ANSWER[: n + 1] for n in range(8)]
    with torch.no_grad():
        together = assembled.model(row_each(assembled, [laid(n, answers[n]) for n in range(8)], media), both)
        for n in range(8):
            shown, index = alone(n)
            one = assembled.model(row_each(assembled, [laid(n, answers[n])], index), shown)
            mine = together.logprobs_T[together.sequence_T == n].tolist()
            assert mine == pytest.approx(one.logprobs_T.tolist(), abs=2e-4), n
    stop = assembled.template.stop_ids
    asked = prompts(assembled, [laid(n, None) for n in range(8)], media)
    many = assembled.model.generate(asked, both, max_new_tokens=4, stop_ids=stop)
    for n in range(8):
        shown, index = alone(n)
        left = prompts(assembled, [laid(n, None)], index)
        assert assembled.model.generate(left, shown, max_new_tokens=4, stop_ids=stop) == [many[n]], n


@each_family
def test_right_padded_generation_is_refused(name: str) -> None:
    assembled = twin(name)
    short, long = (assembled.template.layout(q, None, shapes=()) for q in ("a", "bcd"))
    left = prompts(assembled, [short, long], [None, None])
    right = left._replace(attention_BL=left.attention_BL.flip(1))
    with pytest.raises(ValueError, match="left-padded"):
        assembled.model.generate(right, None, max_new_tokens=2, stop_ids=(0,))


@each_family
def test_a_row_cut_through_its_image_is_refused(name: str) -> None:
    image = picture()
    with pytest.raises(ValueError, match="cut through its image"):
        _ours(name, image, change=lambda laid: laid._replace(media_BL=laid.media_BL & (laid.media_BL.cumsum(1) > 1)))
