"""Writes a conversation, with or without its last answer, as the checkpoint's own processor and chat template do."""

from __future__ import annotations

import copy
import inspect
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import PIL.Image
import torch
from jinja2 import TemplateError
from torch import Tensor

from medtune.data.types import Turn
from medtune.models.sequence.builder import user_turns
from medtune.models.sequence.chat_template import ANSWER, QUESTION, set_date
from medtune.models.transformers_vlm.blank_media import blank_processor, hidden
from medtune.models.weights.folder_check import why_unread

MASK = "assistant_masks"
"""Name of the processor's output that marks the template's own generation span."""
PROBE = (64, 48)
"""Width and height of the blank image with which a processor is tried."""
_INDEX_DIGITS = 6
"""Digits to which a frame's number in its clip is rounded, so that evenly spaced frames have whole numbers."""
_SPANS = re.compile(r"{%-?\s*generation\b")

PREFIX_TEMPLATE = (
    "{% for message in messages %}{% for part in message['content'] %}{% if part['type'] == 'image' %}<image>"
    "{% else %}{{ part['text'] }}{% endif %}{% endfor %}"
    "{{ '<eos>' if message['role'] == 'assistant' else '' if loop.last else '\n' }}{% endfor %}"
)
"""The prompt that PaliGemma's processor writes by itself: the image, the words and a line break, and behind it the
answer. The line break behind the last turn is the processor's own.
"""


class Medium(NamedTuple):
    """A media item, as a processor is given it."""

    parts: tuple[Mapping[str, Any], ...]  # Its parts of the user's turn: one, or one for each frame.
    settings: Mapping[str, Any]  # The arguments that the processor is called with.


class Asked(NamedTuple):
    prompt: str  # The text of the last user's turn; it and those of the earlier turns may mark the places of the media.
    # The text of the assistant's turn; None where the conversation ends with the prompt for generation.
    answer: str | None
    media: tuple[Medium, ...] = ()
    turns: tuple[Turn, ...] = ()

    @property
    def texts(self) -> tuple[str, ...]:
        earlier = (text for turn in self.turns for text in turn)
        return (*earlier, self.prompt, *([] if self.answer is None else [self.answer]))

    @property
    def settings(self) -> dict[str, Any]:
        """The arguments that the processor is called with; those that are lists have an element for each item."""
        found: dict[str, Any] = {}
        for medium in self.media:
            for name, value in medium.settings.items():
                found[name] = [*found.get(name, []), *value] if isinstance(value, list) else value
        return found


class Conversations:
    """Runs the processor over conversations.

    Attributes:
        processor: The processor.
        marks_answers: Whether the chat template marks the span that the assistant generates.
        marks_prefix: Whether the tokens of a question see one another both ways (`marks_prefix`).
    """

    def __init__(self, processor: Any) -> None:
        set_date(processor)
        self.processor = processor
        self.marks_prefix = marks_prefix(processor)
        self.marks_answers = bool(_SPANS.search(_chat_template(processor)))
        added = sorted(processor.tokenizer.get_added_vocab(), key=len, reverse=True)
        self._control = re.compile("|".join(map(re.escape, added)) or r"(?!)")
        self._answers_as_text = False
        self._is_blank = False
        image = PIL.Image.new("RGB", PROBE)
        asked, answered = (Asked(QUESTION, answer, (as_image(image),)) for answer in (None, ANSWER))
        if self.rendered(answered).count(ANSWER) != 1:
            # Some templates take the assistant's turn as text alone.
            self._answers_as_text = True
        for what, text, found in (
            ("question", QUESTION, self.rendered(asked)),
            ("answer", ANSWER, self.rendered(answered)),
        ):
            if found.count(text) != 1:
                raise ValueError(f"the chat template drops or repeats the {what}")
        if self.rendered(asked) == self.rendered(Asked(QUESTION, None)):
            raise ValueError("the chat template drops the image: a question with an image reads as one without")

    def blank(self, placeholders: Mapping[int, str]) -> Conversations:
        """Returns what writes conversations about media without pixels (`blank_processor`).

        Control tokens that a text of such a conversation spells out are encoded as plain text.

        Args:
            placeholders: The placeholders of visual tokens by their ids.
        """
        blank = copy.copy(self)
        blank.processor = blank_processor(self.processor, placeholders)
        blank._is_blank = True
        return blank

    def rendered(self, asked: Asked) -> str:
        """Returns the text of a conversation as the chat template writes it, before media are filled in."""
        with _template_errors():
            return str(self._apply(asked, tokenize=False))

    def ending(self) -> str | None:
        """Returns the control token that ends the assistant's turn; None if the template writes none."""
        behind = self.rendered(Asked(QUESTION, ANSWER)).partition(ANSWER)[2].strip()
        found = self._control.match(behind)
        return found.group() if found else None

    def inputs(self, asked: Asked, *, with_mask: bool = False, times: int = 1) -> dict[str, Tensor]:
        """Returns the processor's outputs for a conversation.

        Args:
            with_mask: Whether the span that the template marks as generated is returned too.
            times: The number of rows of the batch, which all are this conversation.
        """
        if self.marks_prefix and not asked.media:
            return self._without_media(asked)
        spelt = next(filter(None, map(self._control.search, asked.texts)), None)
        if spelt and with_mask:
            raise ValueError(
                f"the text spells out the control token {spelt.group()!r}, which the chat template's generation span "
                "does not allow; reword it"
            )
        more: dict[str, Any] = {"return_assistant_tokens_mask": True} if with_mask else {}
        # A list has an element for each medium of the batch.
        settings = {name: each * times if isinstance(each, list) else each for name, each in asked.settings.items()}
        if self._is_blank:
            settings["return_mm_token_type_ids"] = False
        with _template_errors():
            made = self._apply(
                asked,
                tokenize=True,
                return_dict=True,
                return_tensors="pt",
                processor_kwargs=clocked(self.processor, settings),
                times=times,
                **more,
            )
        return {name: _tensor(name, value) for name, value in made.items()}

    def as_written(self, text: str) -> str:
        """Returns a text of a conversation as the chat template is given it."""
        return hidden(text) if self._is_blank and self._control.search(text) else text

    def _without_media(self, asked: Asked) -> dict[str, Tensor]:
        """Returns the ids of a text alone as the processor writes them, which refuses to be asked without an image."""
        tokenizer = self.processor.tokenizer
        text = f"{tokenizer.bos_token}{self.rendered(asked)}\n"
        return dict(tokenizer([text], return_tensors="pt", return_token_type_ids=True, add_special_tokens=False))

    def _apply(self, asked: Asked, *, times: int = 1, **settings: Any) -> Any:
        turns: list[dict[str, Any]] = []
        answers = [*(turn.answer for turn in asked.turns), asked.answer]
        for pieces, answer in zip(
            user_turns(asked.prompt, asked.turns, num_items=len(asked.media)), answers, strict=True
        ):
            content: list[dict[str, Any]] = []
            for each in pieces:
                parts = [_text(self.as_written(each))] if isinstance(each, str) else map(dict, asked.media[each].parts)
                content += parts
            turns.append({"role": "user", "content": content})
            if answer is not None:
                said = self.as_written(answer)
                turns.append({"role": "assistant", "content": said if self._answers_as_text else [_text(said)]})
        batch: Any = turns if times == 1 else [turns] * times
        try:
            return self.processor.apply_chat_template(batch, add_generation_prompt=asked.answer is None, **settings)
        # A processor with odd settings raises any of these.
        except (RuntimeError, TypeError, ArithmeticError, LookupError, AttributeError) as error:
            raise ValueError(
                f"the model's processor cannot prepare a question: {why_unread(error)}. Do the numbers in its "
                "processor_config.json or preprocessor_config.json fit the model?"
            ) from error


def _text(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


def marks_prefix(processor: Any) -> bool:
    """Returns whether a processor is told the answer apart (`suffix`), with a type of token of its own (1).

    The tokens of a question, type 0, then see one another both ways, and those of the answer what is before them.

    Source: transformers, models/paligemma/processing_paligemma.py.
    """
    return "suffix" in inspect.signature(type(processor).__call__).parameters


def as_image(image: PIL.Image.Image | Tensor) -> Medium:
    """Returns an image as a processor is given it."""
    return Medium(({"type": "image", "image": image},), {})


def as_images(frames_TCHW: Tensor) -> Medium:
    """Returns the frames of a video as so many images."""
    return Medium(tuple({"type": "image", "image": frame_CHW} for frame_CHW in frames_TCHW), {})


def as_video(processor: Any, frames_TCHW: Tensor, times_s: Sequence[float]) -> Medium:
    """Returns the chosen frames of a video as a processor is given them, all of which it has to show.

    A single frame is shown twice to a processor of pairs, which takes no fewer.
    """
    count, lasts_s = len(times_s), times_s[-1] - times_s[0]
    # A clip of one frame has no rate; the processors then take one frame a second.
    rate = (count - 1) / lasts_s if lasts_s else 1.0
    places = [_int_if_whole(round((time_s - times_s[0]) * rate, _INDEX_DIGITS)) for time_s in times_s]
    least = getattr(getattr(processor, "video_processor", None), "temporal_patch_size", 1)
    if count < least:
        frames_TCHW = torch.cat([frames_TCHW, frames_TCHW[-1:].expand(least - count, -1, -1, -1)])
        places += places[-1:] * (least - count)
    metadata = {"total_num_frames": count, "fps": rate, "frames_indices": places}
    settings = {"do_sample_frames": False, "video_metadata": [metadata]}
    return Medium(({"type": "video", "video": frames_TCHW},), settings)


def _int_if_whole(number: float) -> float:
    return int(number) if number.is_integer() else number


def clocked(processor: Any, settings: dict[str, Any]) -> dict[str, Any]:
    """Returns the arguments of a processor, with the rate of a video for one that takes 2 frames a second if not told.

    Source: transformers, models/qwen2_5_omni/processing_qwen2_5_omni.py (`video_second_per_grid`).
    """
    shown = settings.get("video_metadata")
    return {**settings, "fps": shown[0]["fps"]} if shown and hasattr(processor, "seconds_per_chunk") else settings


def _chat_template(processor: Any) -> str:
    found = getattr(processor, "chat_template", None)
    template = found.get("default") if isinstance(found, Mapping) else found
    if not template:
        raise ValueError(
            "the checkpoint has no chat template, so that nothing says how a question is written. Take the instruct "
            "checkpoint of this model, or copy the folder and put a chat_template.jinja into it"
        )
    return str(template)


@contextmanager
def _template_errors() -> Iterator[None]:
    try:
        yield
    except TemplateError as error:
        raise ValueError(f"the chat template refuses a question about an image: {error}") from error


def _tensor(name: str, value: object) -> Tensor:
    try:
        return torch.as_tensor(value)
    except (TypeError, ValueError, RuntimeError) as error:
        raise ValueError(f"the processor's output {name} is no tensor: {error}") from error
