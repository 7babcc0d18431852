"""Lays out a media item and a question with the chat template of a processor of transformers.

The template is rendered once, with stand-ins in place of the question and the answer. Every later question and answer
is encoded as text and put in their place. The model learns the tokens behind the assistant's header: the answer and
the end of its turn.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from collections.abc import Sequence as Many
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Generic, Literal, NamedTuple, TypeVar

from jinja2 import TemplateError

from medtune.data.media.images import Size
from medtune.data.media.load import Shape
from medtune.data.media.videos.read import Frames
from medtune.models.sequence.layout import IGNORED, Position, Sequence, Span

ShapeT = TypeVar("ShapeT", Size, Frames)
_Content = Literal["image", "video"]

QUESTION, ANSWER = "\ue000question\ue000", "\ue000answer\ue000"
"""Stand-ins with characters for private use, which occur in no template and no question."""
TODAY = "26 Jul 2024"
"""The date for templates that show a date. The real date would change every prompt from one day to the next.

Source: the default of Llama 3.2's own template.
"""


class Placement(NamedTuple):
    """The positions of a run of visual tokens, counted from the first of them.

    Attributes:
        offsets: Position of each visual token, relative to the first.
        advance: Number of positions that the run takes; the text behind it goes on after them.
    """

    offsets: tuple[Position, ...]
    advance: int


class Written(NamedTuple):
    """The text of a media item in a conversation, with its visual tokens.

    Attributes:
        text: The text, with one placeholder of a visual token for each run of them.
        runs: The positions of each run of visual tokens, in the order of the text.
    """

    text: str
    runs: tuple[Placement, ...]


@dataclass(frozen=True, slots=True)
class MediaText(Generic[ShapeT]):
    """The way in which a family writes media of one kind.

    Attributes:
        content: The type under which the chat template is given such an item.
        marker: The text that the template writes in the place of an item.
        token: The placeholder of a visual token, which is repeated for each of them.
        write: Returns the text for an item of a given size or given frames, which takes the place of the marker.
    """

    content: Literal["image", "video"]
    marker: str
    token: str
    write: Callable[[ShapeT], Written]


@dataclass(frozen=True, slots=True)
class Writing:
    """The way in which a family writes images and videos.

    Attributes:
        image: The way in which images are written.
        video: The way in which videos are written; None where a family takes no videos.
        axes: Number of axes of a position: 1, or 3 for M-RoPE.
    """

    image: MediaText[Size]
    video: MediaText[Frames] | None = None
    axes: int = 1


class _Frame(NamedTuple):
    """The texts of a template around a question and its answer.

    Attributes:
        before: Text before the question.
        between: Text from the end of the question to the end of the assistant's header.
        lead: Text that the template writes between that header and the answer.
    """

    before: str
    between: str
    lead: str


class ProcessorTemplate:
    """Lays out one question for a model of transformers.

    Raises:
        ValueError: The processor has no chat template, or it drops the image, the question or the answer.
    """

    def __init__(self, processor: Any, *, writing: Writing, max_tokens: int) -> None:
        self._processor = processor
        self._tokenizer = processor.tokenizer
        self._writing = writing
        self._max_tokens = max_tokens
        # The tokenizer finds added tokens anywhere in a text, also where a question or an answer spells one out.
        self._control = re.compile(
            "|".join(map(re.escape, sorted(self._tokenizer.get_added_vocab(), key=len, reverse=True))) or r"(?!)"
        )
        self._frame = lru_cache(maxsize=8)(self._frame_uncached)
        self._one_id(writing.image.token)
        for medium in (writing.image, None):
            self._frame(medium)
        self._stop_id = self._find_stop()
        self._encode = lru_cache(maxsize=65536)(self._encode_uncached)

    @property
    def pad_id(self) -> int:
        """The end-of-turn token; padding is masked, so any id would do."""
        return self._stop_id

    @property
    def stop_ids(self) -> tuple[int, ...]:
        """The token that ends the assistant's turn in the template, or the tokenizer's end of sequence."""
        return (self._stop_id,)

    def layout(
        self, prompt: str, answer: str | None, *, with_media: bool = True, shape: Shape | None = None
    ) -> Sequence:
        """Returns the sequence; the labels are the answer's tokens and the end of its turn.

        Raises:
            ValueError: The shape of the media item is not given, the family takes no videos, or the sequence is longer
                than the model reads; sequences are never cut off.
        """
        medium, written = self._shown(shape) if with_media else (None, Written("", ()))
        context, target = self._encode(prompt, answer, medium, written.text)
        laid = _laid(context, self._one_id(medium.token) if medium else None, written.runs, axes=self._writing.axes)
        length, count = len(laid.ids) + len(target), sum(len(run.offsets) for run in written.runs)
        if length > self._max_tokens:
            fewer = "model.video_frames" if isinstance(shape, Frames) else "model.image_max_pixels"
            raise ValueError(
                f"a sequence of {length} tokens where the model reads {self._max_tokens}; {count} of them are the "
                f"image's. Lower {fewer}, or shorten the question; an image is never cut"
            )
        behind = range(laid.next_position, laid.next_position + len(target))
        return Sequence(
            ids=(*laid.ids, *target),
            labels=(*(IGNORED,) * len(laid.ids), *target),
            positions=(*laid.positions, *(_at(position, self._writing.axes) for position in behind)),
            media_spans=laid.spans,
        )

    def unfilled(self, prompt: str, *, with_media: bool = True, shape: Shape | None = None) -> tuple[int, ...]:
        """Returns the ids of a prompt as the chat template writes it, before visual tokens are filled in.

        A server that is sent these ids together with the pictures fills the visual tokens in itself, and then reads
        the ids of `layout`.

        Raises:
            ValueError: The family shows such a media item as a video, which cannot be sent to a server frame by frame.
        """
        if not with_media:
            return self._encode(prompt, None, None, "")[0]
        medium, written = self._shown(shape)
        if medium.content != "image":
            raise ValueError(
                "this family reads the frames as a video; a server would choose and scale the frames of a video by "
                "rules of its own, so only images can be asked there"
            )
        picture = self._writing.image.write(shape.size) if isinstance(shape, Frames) else written
        return self._encode(prompt, None, medium, written.text.replace(picture.text, self._writing.image.marker))[0]

    def _shown(self, shape: Shape | None) -> tuple[MediaText[Any], Written]:
        if isinstance(shape, Frames):
            if self._writing.video is None:
                raise ValueError("this family takes no videos; choose another model.name")
            return self._writing.video, self._writing.video.write(shape)
        if shape is None:
            raise ValueError("the layout of this family depends on the size of the image; none was given")
        return self._writing.image, self._writing.image.write(shape)

    def decode(self, ids: Many[int]) -> str:
        """Returns the text of generated ids, special tokens left out."""
        return str(self._tokenizer.decode(list(ids), skip_special_tokens=True))

    def pieces(self, ids: Many[int]) -> list[str]:
        """Returns the text of each id by itself."""
        return [str(self._tokenizer.decode([i])) for i in ids]

    def save(self, folder: Path) -> None:
        """Writes the processor, with its tokenizer, as transformers reads it."""
        self._processor.save_pretrained(folder)

    def _encode_uncached(
        self, prompt: str, answer: str | None, medium: MediaText[Any] | None, written: str
    ) -> tuple[tuple[int, ...], ...]:
        """Returns the ids before the answer, with one placeholder for each visual run, and the ids of the answer."""
        frame = self._frame(medium)
        if medium:
            frame = _Frame(*(text.replace(medium.marker, written) for text in frame))
        if self._control.search(prompt):
            context = (*self._ids(frame.before, first=True), *self._plain(prompt), *self._ids(frame.between))
        else:
            context = self._ids(frame.before + prompt + frame.between, first=True)
        if answer is None:
            return context, ()
        return context, (*self._answer(frame, prompt, context, answer), self._stop_id)

    def _answer(self, frame: _Frame, prompt: str, context: tuple[int, ...], answer: str) -> tuple[int, ...]:
        if self._control.search(prompt + answer):
            return self._plain(frame.lead + answer)
        whole = self._ids(frame.before + prompt + frame.between + frame.lead + answer, first=True)
        # The answer's tokens must not be merged with the context's last token, because generation starts behind the
        # unchanged context. Where the tokenizer would merge them, the answer is encoded by itself.
        return whole[len(context) :] if whole[: len(context)] == context else self._plain(frame.lead + answer)

    def _ids(self, text: str, *, first: bool = False) -> tuple[int, ...]:
        bos = self._tokenizer.bos_token
        special = first and not (bos is not None and text.startswith(bos))
        return tuple(self._tokenizer(text, add_special_tokens=special).input_ids)

    def _plain(self, text: str) -> tuple[int, ...]:
        """Returns the ids of a text in which a control token that is spelt out stays plain text."""
        return tuple(self._tokenizer(text, add_special_tokens=False, split_special_tokens=True).input_ids)

    def _one_id(self, token: str) -> int:
        ids = self._tokenizer(token, add_special_tokens=False).input_ids
        if len(ids) != 1:
            raise ValueError(f"the tokenizer has no token {token!r} of its own; is it that of another model?")
        return int(ids[0])

    def _frame_uncached(self, medium: MediaText[Any] | None) -> _Frame:
        content = medium.content if medium else None
        asked, answered = (self._rendered(content, answered=a) for a in (False, True))
        if medium and asked.count(medium.marker) != 1:
            raise ValueError(f"the chat template drops the {content}: it leaves no {medium.marker!r}")
        if asked.count(QUESTION) != 1:
            raise ValueError("the chat template drops or repeats the question")
        if answered.count(ANSWER) != 1:
            raise ValueError("the chat template drops or repeats the answer")
        before, _, between = asked.partition(QUESTION)
        # In front of a given answer, LLaVA-OneVision's template writes a blank that it does not write in a prompt for
        # generation. The answer has to be learnt behind the prompt from which generation starts, so the blank is left
        # out.
        lead = answered.removeprefix(asked).partition(ANSWER)[0] if answered.startswith(asked) else ""
        return _Frame(before, between, lead)

    def _rendered(self, medium: _Content | None, *, answered: bool) -> str:
        content: list[dict[str, str]] = [{"type": medium}] if medium else []
        content.append({"type": "text", "text": QUESTION})
        turns: list[dict[str, Any]] = [{"role": "user", "content": content}]
        if answered:
            turns.append({"role": "assistant", "content": [{"type": "text", "text": ANSWER}]})
        template = getattr(self._processor, "chat_template", None)
        if not template:
            raise ValueError("the processor has no chat template; take the model's instruct checkpoint")
        date = {"date_string": TODAY} if "date_string" in template else {}
        try:
            return str(
                self._processor.apply_chat_template(turns, tokenize=False, add_generation_prompt=not answered, **date)
            )
        except TemplateError as error:
            raise ValueError(f"the chat template refuses a question about an image: {error}") from error

    def _find_stop(self) -> int:
        tail = self._rendered(None, answered=True).partition(ANSWER)[2].strip()
        ending = self._control.match(tail)
        stop = ending.group() if ending else self._tokenizer.eos_token
        if stop is None:
            raise ValueError(
                "nothing ends the assistant's turn: neither the chat template nor an end-of-sequence token"
            )
        return self._one_id(stop)


class _Laid(NamedTuple):
    ids: tuple[int, ...]
    positions: tuple[Position, ...]
    spans: tuple[Span, ...]
    next_position: int


def _laid(context: Many[int], token_id: int | None, runs: Many[Placement], *, axes: int) -> _Laid:
    """Returns the context with each placeholder repeated once for every token of its run."""
    waiting = iter(runs)
    ids: list[int] = []
    positions: list[Position] = []
    spans: list[Span] = []
    position = 0
    for each in context:
        if each != token_id:
            ids.append(each)
            positions.append(_at(position, axes))
            position += 1
            continue
        run = next(waiting)
        spans.append(Span(len(ids), len(ids) + len(run.offsets)))
        ids += [each] * len(run.offsets)
        positions += [
            position + o if isinstance(o, int) else (position + o[0], position + o[1], position + o[2])
            for o in run.offsets
        ]
        position += run.advance
    return _Laid(tuple(ids), tuple(positions), tuple(spans), position)


def _at(position: int, axes: int) -> Position:
    return position if axes == 1 else (position, position, position)
