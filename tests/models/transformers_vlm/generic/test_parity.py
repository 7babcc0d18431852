"""Compares the generic entry with transformers' own processor, forward and generate; wrong inputs must be seen."""

import tempfile
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import PIL.Image
import pytest
import torch
from transformers import AutoModelForImageTextToText, AutoProcessor

from medtune.data.types import Image, Turn
from medtune.models.contract import Assembled
from medtune.models.sequence.builder import Sequence
from medtune.models.sequence.packing import PackedRows, Shown, pack, pad_left
from medtune.models.sequence.tree import grow
from medtune.models.transformers_vlm.conversation import Conversations
from medtune.models.transformers_vlm.generic.loading import from_checkpoint
from medtune.models.transformers_vlm.generic.media import processor_outputs
from medtune.models.transformers_vlm.generic.model import GenericVlm
from medtune.models.weights.loading_options import Loading
from tests.models.transformers_vlm.generic.checkpoints import BUILDERS, write_checkpoint
from tests.models.twins import picture, size_of
from tests.soak import in_suites


class Plain:
    """The processor and the model of a folder.

    Args:
        folder: The checkpoint.
        answers_as_text: Whether the chat template takes the assistant's turn as text instead of a list of parts.
    """

    def __init__(self, folder: Path, *, answers_as_text: bool = False) -> None:
        self.processor: Any = AutoProcessor.from_pretrained(folder)
        self.model: Any = AutoModelForImageTextToText.from_pretrained(folder).eval()
        self._answers_as_text = answers_as_text

    def told(self, turns: list[tuple[str, Any]], images: list[np.ndarray], *, open_ended: bool) -> Any:
        """Returns the processor's outputs for a conversation; its images stand in front of the first turn."""
        shown = [{"type": "image", "image": PIL.Image.fromarray(pixels_HWC)} for pixels_HWC in images]
        written = []
        for number, (role, text) in enumerate(turns):
            parts: Any = [*(shown if number == 0 else []), {"type": "text", "text": text}]
            written.append({"role": role, "content": text if role == "assistant" and self._answers_as_text else parts})
        return self.processor.apply_chat_template(
            written, tokenize=True, return_dict=True, return_tensors="pt", add_generation_prompt=open_ended
        )

    def inputs(self, pixels_HWC: np.ndarray | None, question: str, answer: str | None = None) -> Any:
        """Returns the processor's outputs for a question about an image, or about none."""
        shown = [] if pixels_HWC is None else [{"type": "image", "image": PIL.Image.fromarray(pixels_HWC)}]
        turns: list[dict[str, Any]] = [{"role": "user", "content": [*shown, {"type": "text", "text": question}]}]
        if answer is not None:
            content: Any = answer if self._answers_as_text else [{"type": "text", "text": answer}]
            turns.append({"role": "assistant", "content": content})
        return self.processor.apply_chat_template(
            turns, tokenize=True, return_dict=True, return_tensors="pt", add_generation_prompt=answer is None
        )

    @torch.no_grad()
    def logprobs(self, pixels_HWC: np.ndarray | None, question: str, answer: str, *, end: int) -> list[float]:
        """Returns the log-probability of each token of an answer up to its end token."""
        context = self.inputs(pixels_HWC, question)["input_ids"].shape[1]
        inputs = self.inputs(pixels_HWC, question, answer)
        ids = inputs["input_ids"][0].tolist()
        if end not in ids[context:]:
            # The template ends the turn with a blank instead of a token; the end is then read in its place.
            ids[-1] = end
            inputs["input_ids"] = torch.tensor([ids])
        stop = ids.index(end, context)
        logits_LV = self.model(**inputs).logits[0].float().log_softmax(-1)
        return [float(logits_LV[place - 1, ids[place]]) for place in range(context, stop + 1)]

    def reply(self, pixels_HWC: np.ndarray | None, question: str, *, new_tokens: int, ends: list[int]) -> list[int]:
        """Returns the greedy reply, up to its end."""
        inputs = self.inputs(pixels_HWC, question)
        said = self.model.generate(
            **inputs, max_new_tokens=new_tokens, do_sample=False, eos_token_id=ends, pad_token_id=ends[0]
        )
        return said[0, inputs["input_ids"].shape[1] :].tolist()  # type: ignore[no-any-return]


QUESTION, OPTIONS = "Which plane?", ("head", "abdomen")
# Two images of one size are read together; the others have other numbers of tiles or patches.
IMAGES = (picture(0), picture(1), picture(2, width=33, height=100), picture(3, width=56, height=56))
TOLERANCE = 2e-4
QUICK, SLOW = ("lfm2_vl", "llava_next", "ovis2"), ("deepseek_vl", "minicpm_v", "mistral3")
"""Short convolutions, tiles, a table of visual words; answers as text, media that are not joined, rows of patches."""
each_architecture = pytest.mark.parametrize("name", in_suites(BUILDERS, plain=QUICK, slow=SLOW))


@cache
def _loaded(name: str) -> tuple[Assembled, Plain]:
    with tempfile.TemporaryDirectory() as folder:
        write_checkpoint(name, Path(folder))
        assembled = from_checkpoint(folder, Loading(weights=folder))
        assembled.model.eval()
        return assembled, Plain(Path(folder), answers_as_text=name == "deepseek_vl")


def _layouts(assembled: Assembled) -> list[Sequence]:
    return [
        assembled.template.layout(QUESTION, option, shapes=[size_of(image)]) for image in IMAGES for option in OPTIONS
    ]


def _packed(assembled: Assembled, layouts: list[Sequence], media: list[int | None]) -> PackedRows:
    trees = [[Shown(grow([each], [n]), shown)] for n, (each, shown) in enumerate(zip(layouts, media, strict=True))]
    return pack(trees, pad_id=assembled.template.pad_id)


def _ours(assembled: Assembled, rows: PackedRows, *, shift: int = 0) -> list[list[float]]:
    """Returns the log-probabilities of the options of all images; `shift` shows each question another image."""
    items = [assembled.transform(IMAGES[(n + shift) % len(IMAGES)]) for n in range(len(IMAGES))]
    with torch.no_grad():
        read = assembled.model(rows, assembled.model.encode(assembled.transform.stack(items)))
    told: list[list[float]] = [[] for _ in range(len(IMAGES) * len(OPTIONS))]
    for number, value in zip(read.sequence_T.tolist(), read.logprobs_T.tolist(), strict=True):
        told[number].append(value)
    return told


def _plain(assembled: Assembled, plain: Plain) -> list[list[float]]:
    end = assembled.template.stop_ids[0]
    return [plain.logprobs(image.pixels_HWC, QUESTION, option, end=end) for image in IMAGES for option in OPTIONS]


def _apart(left: list[list[float]], right: list[list[float]]) -> float:
    assert [len(each) for each in left] == [len(each) for each in right]
    return max(abs(a - b) for mine, its in zip(left, right, strict=True) for a, b in zip(mine, its, strict=True))


MEDIA: list[int | None] = [number for number in range(len(IMAGES)) for _ in OPTIONS]


@each_architecture
def test_likelihoods_of_a_mixed_batch_equal_a_plain_loop(name: str) -> None:
    assembled, plain = _loaded(name)
    rows = _packed(assembled, _layouts(assembled), MEDIA)
    wanted = _plain(assembled, plain)
    assert _apart(_ours(assembled, rows), wanted) < TOLERANCE
    # The controls: labels that are shifted by one place, and another image of the same size.
    shifted = rows._replace(target_place_T=rows.target_place_T - 1)
    assert _apart(_ours(assembled, shifted), wanted) > 0.1
    swapped = _packed(assembled, _layouts(assembled)[:4], MEDIA[:4])
    other = swapped._replace(media_S=1 - swapped.media_S)
    assert _apart(_ours(assembled, other)[:4], wanted[:4]) > 0.01


@each_architecture
def test_text_alone_equals_a_plain_loop(name: str) -> None:
    assembled, plain = _loaded(name)
    layouts = [assembled.template.layout(QUESTION, option, shapes=()) for option in OPTIONS]
    with torch.no_grad():
        read = assembled.model(_packed(assembled, layouts, [None, None]), None)
    end = assembled.template.stop_ids[0]
    wanted = [each for option in OPTIONS for each in plain.logprobs(None, QUESTION, option, end=end)]
    order = torch.argsort(read.sequence_T, stable=True)
    assert read.logprobs_T[order].tolist() == pytest.approx(wanted, abs=TOLERANCE)


@each_architecture
@pytest.mark.parametrize("size", [(90, 60), (33, 200), (300, 40), (5, 5)])
def test_tokens_and_pixels_are_the_processors(name: str, size: tuple[int, int]) -> None:
    assembled, plain = _loaded(name)
    image = picture(7, width=size[0], height=size[1])
    told = plain.inputs(image.pixels_HWC, QUESTION)
    asked = assembled.template.layout(QUESTION, None, shapes=[size_of(image)])
    assert asked.ids == tuple(told["input_ids"][0].tolist())
    answered = assembled.template.layout(QUESTION, "head", shapes=[size_of(image)])
    whole = tuple(plain.inputs(image.pixels_HWC, QUESTION, "head")["input_ids"][0].tolist())
    assert answered.ids[: len(asked.ids)] == asked.ids
    assert answered.ids[:-1] == whole[: len(answered.ids) - 1]
    made = assembled.transform(image)
    assert set(made) == set(told) - {"input_ids", "attention_mask", "mm_token_type_ids", "token_type_ids"}
    assert all(torch.equal(made[key], told[key]) for key in made)


@each_architecture
def test_replies_of_a_batch_equal_generate_for_each_question(name: str) -> None:
    assembled, plain = _loaded(name)
    questions = ("Which plane?", "Is there a mass, and where does it lie?", "Which plane?", "Why?")
    prompts = [
        assembled.template.layout(question, None, shapes=[size_of(image)])
        for question, image in zip(questions, IMAGES, strict=True)
    ]
    # A second end token, as generation_config.json names it, stops both sides.
    first = plain.reply(IMAGES[0].pixels_HWC, questions[0], new_tokens=12, ends=[*assembled.template.stop_ids])
    ends = (*assembled.template.stop_ids, first[5])
    rows = pad_left(prompts, [0, 1, 2, 3], pad_id=assembled.template.pad_id)
    encoded = assembled.model.encode(assembled.transform.stack([assembled.transform(image) for image in IMAGES]))
    said = assembled.model.generate(rows, encoded, max_new_tokens=12, stop_ids=ends)
    wanted = [
        plain.reply(image.pixels_HWC, question, new_tokens=12, ends=list(ends))
        for question, image in zip(questions, IMAGES, strict=True)
    ]
    assert said == wanted
    assert len(said[0]) <= 6
    assert np.unique([len(set(map(tuple, wanted)))]) > 1


JOINS = tuple(name for name in BUILDERS if name not in ("llava_next", "mistral3", "pixtral"))
"""The architectures whose processor writes two images of other sizes as it writes each of them alone."""


@each_architecture
def test_two_images_and_two_turns_equal_a_plain_conversation_or_are_refused(name: str) -> None:
    assembled, plain = _loaded(name)
    shown, turns = [IMAGES[2], IMAGES[3]], (Turn("Which is older?", "first"),)
    sizes = list(map(size_of, shown))
    if name not in JOINS:
        with pytest.raises(ValueError, match="2 media items are shown together; the generic entry"):
            assembled.template.layout(QUESTION, "head", shapes=sizes, turns=turns)
        return
    layout = assembled.template.layout(QUESTION, "head", shapes=sizes, turns=turns)
    told = [("user", "Which is older?"), ("assistant", "first"), ("user", QUESTION)]
    inputs = plain.told(told, [image.pixels_HWC for image in shown], open_ended=True)
    context = inputs["input_ids"].shape[1]
    assert layout.ids[:context] == tuple(inputs["input_ids"][0].tolist())
    whole = plain.told([*told, ("assistant", "head")], [image.pixels_HWC for image in shown], open_ended=False)
    ids = whole["input_ids"][0].tolist()
    end = assembled.template.stop_ids[0]
    if end not in ids[context:]:
        ids[-1] = end
        whole["input_ids"] = torch.tensor([ids])
    stop = ids.index(end, context)
    with torch.no_grad():
        logits_LV = plain.model(**whole).logits[0].float().log_softmax(-1)
    wanted = [float(logits_LV[place - 1, ids[place]]) for place in range(context, stop + 1)]
    rows = pack([[Shown(grow([layout], [0]), 0)]], pad_id=assembled.template.pad_id)

    def ours(images: list[Image]) -> list[float]:
        items = [assembled.transform(image) for image in images]
        with torch.no_grad():
            read: list[float] = assembled.model(
                rows, assembled.model.encode(assembled.transform.stack(items))
            ).logprobs_T.tolist()
        return read

    assert ours(shown) == pytest.approx(wanted, abs=TOLERANCE)
    # The control: other images of the same sizes.
    others = [picture(7, width=33, height=100), picture(8, width=56, height=56)]
    assert ours(others) != pytest.approx(wanted, abs=0.01)


JOINED = (picture(0), picture(1), picture(2))


@cache
def _read(name: str) -> Assembled:
    with tempfile.TemporaryDirectory() as folder:
        write_checkpoint(name, Path(folder))
        return from_checkpoint(folder, Loading(weights=folder))


def _logprobs(assembled: Assembled, axes: dict[str, int]) -> torch.Tensor:
    """Returns the log-probabilities of one answer about three images of one size, with their outputs joined so."""
    whole = assembled.model.of_transformers
    assert isinstance(assembled.model, GenericVlm)
    model = GenericVlm(whole, assembled.model._by_token, assembled.model._joins, axes).eval()
    layout = assembled.template.layout("Which plane?", "head", shapes=[size_of(JOINED[0])])
    rows = pack([[Shown(grow([layout], [n]), n)] for n in range(len(JOINED))], pad_id=assembled.template.pad_id)
    with torch.no_grad():
        read = model(rows, model.encode(assembled.transform.stack([assembled.transform(each) for each in JOINED])))
    ordered_T: torch.Tensor = read.logprobs_T[torch.argsort(read.sequence_T, stable=True)]
    return ordered_T


@pytest.mark.parametrize("name", BUILDERS)
def test_the_axis_is_found_out(name: str) -> None:
    nano = BUILDERS[name]()
    outputs = processor_outputs(Conversations(nano.processor), nano.processor, nano.config)
    last = {"pixel_values": 3, "pixel_values_videos": 3} if name == "minicpm_v" else {}
    assert outputs.axes == {each: last.get(each, 0) for each in (*outputs.image, *(outputs.video or ()))}


@pytest.mark.parametrize("name", ["lfm2_vl", "minicpm_v"])
def test_media_that_are_not_joined_are_read_one_by_one_with_the_same_result(name: str) -> None:
    assembled = _read(name)
    assert isinstance(assembled.model, GenericVlm)
    joined = _logprobs(assembled, dict(assembled.model._axes))
    assert torch.allclose(_logprobs(assembled, {}), joined, atol=2e-4)
    # The images are told apart, so that the comparison says something.
    assert joined.reshape(len(JOINED), -1).std(dim=0).max() > 0.01


def test_joining_along_another_axis_fails() -> None:
    with pytest.raises((RuntimeError, ValueError, IndexError)):
        _logprobs(_read("minicpm_v"), {"pixel_values": 0, "target_sizes": 0})
