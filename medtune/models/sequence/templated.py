"""A conversation worded by the checkpoint's own chat template, laid out as one sequence.

The template is rendered once, with stand-ins for question and answer; questions are put in as text. What follows the
assistant's header is the answer and the end of its turn, and just these are learnt.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from collections.abc import Sequence as Many
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

from jinja2 import TemplateError

from medtune.data.images import Size
from medtune.models.sequence.layout import IGNORED, Position, Sequence, Span

QUESTION, ANSWER = "\ue000question\ue000", "\ue000answer\ue000"
"""Stand-ins from a private-use plane: no template and no question spells them."""
TODAY = "26 Jul 2024"
"""The date that templates with a date show. A real one would change every prompt over night.

Source: the default of Llama 3.2's own template, where none is given.
"""


class Placement(NamedTuple):
    """Where the visual tokens of one image stand, counted from the first.

    Attributes:
        offsets: One per visual token.
        advance: How many positions the image takes; the text goes on behind them.
    """

    offsets: tuple[Position, ...]
    advance: int


@dataclass(frozen=True, slots=True)
class ImageText:
    """How a family writes an image.

    Attributes:
        marker: What the chat template leaves where the image goes.
        written: What stands there in the end; holds `token` once.
        token: The placeholder of a visual token; it is repeated for each.
        place: Size of an image -> where its tokens stand.
        axes: Numbers per position: 1, or 3 for M-RoPE.
    """

    marker: str
    written: str
    token: str
    place: Callable[[Size], Placement]
    axes: int = 1


class _Frame(NamedTuple):
    """The template around a question and its answer."""

    before: str
    between: str
    lead: str


class Templated:
    """Lays out one question for a model of transformers.

    Raises:
        ValueError: The processor has no chat template, or it drops the image, the question or the answer.
    """

    def __init__(self, processor: Any, *, image: ImageText, max_tokens: int) -> None:
        self._processor = processor
        self._tokenizer = processor.tokenizer
        self._image = image
        self._max_tokens = max_tokens
        self._token_id = self._one_id(image.token)
        # Added tokens are found anywhere in a text, also where a question or an answer spells one.
        self._control = re.compile(
            "|".join(map(re.escape, sorted(self._tokenizer.get_added_vocab(), key=len, reverse=True))) or r"(?!)"
        )
        self._frames = {shown: self._frame(with_media=shown) for shown in (True, False)}
        self._stop_id = self._find_stop()
        self._encode = lru_cache(maxsize=65536)(self._encode_uncached)

    @property
    def pad_id(self) -> int:
        """The end-of-turn token; padding is masked, so any id would do."""
        return self._stop_id

    @property
    def stop_id(self) -> int:
        """What ends the assistant's turn in the template; the tokenizer's end of sequence where nothing does."""
        return self._stop_id

    def layout(self, prompt: str, answer: str | None, *, with_media: bool = True, size: Size | None = None) -> Sequence:
        """Returns the sequence; the labels are the answer's tokens and the end of its turn.

        Raises:
            ValueError: The size of the image is not given, or the sequence is longer than the model reads. Nothing is
                ever cut off.
        """
        context, target = self._encode(prompt, answer, with_media)
        placed = Placement((), 0)
        if with_media:
            if size is None:
                raise ValueError("the layout of this family depends on the size of the image; none was given")
            placed = self._image.place(size)
        count = len(placed.offsets)
        length = len(context) + len(target) + count - with_media
        if length > self._max_tokens:
            raise ValueError(
                f"a sequence of {length} tokens where the model reads {self._max_tokens}; {count} of them are the "
                "image's. Lower model.image_max_pixels, or shorten the question; an image is never cut"
            )
        start = context.index(self._token_id) if with_media else len(context)
        ids = (*context[:start], *(self._token_id,) * count, *context[start + with_media :], *target)
        return Sequence(
            ids=ids,
            labels=(*(IGNORED,) * (len(ids) - len(target)), *target),
            positions=_positions(len(ids), start, placed, axes=self._image.axes),
            media_spans=(Span(start, start + count),) if with_media else (),
        )

    def decode(self, ids: Many[int]) -> str:
        """Returns the text of generated ids, special tokens left out."""
        return str(self._tokenizer.decode(list(ids), skip_special_tokens=True))

    def pieces(self, ids: Many[int]) -> list[str]:
        """Returns each id's own text."""
        return [str(self._tokenizer.decode([i])) for i in ids]

    def _encode_uncached(self, prompt: str, answer: str | None, with_media: bool) -> tuple[tuple[int, ...], ...]:
        """Returns the ids up to the answer, with one placeholder for the image, and those of the answer's turn."""
        frame = self._frames[with_media]
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
        # A tokenizer that would merge across the border must not: generation starts behind the context as it stands.
        return whole[len(context) :] if whole[: len(context)] == context else self._plain(frame.lead + answer)

    def _ids(self, text: str, *, first: bool = False) -> tuple[int, ...]:
        bos = self._tokenizer.bos_token
        special = first and not (bos is not None and text.startswith(bos))
        return tuple(self._tokenizer(text, add_special_tokens=special).input_ids)

    def _plain(self, text: str) -> tuple[int, ...]:
        """Returns ids of data, in which a control token is nothing but its letters."""
        return tuple(self._tokenizer(text, add_special_tokens=False, split_special_tokens=True).input_ids)

    def _one_id(self, token: str) -> int:
        ids = self._tokenizer(token, add_special_tokens=False).input_ids
        if len(ids) != 1:
            raise ValueError(f"the tokenizer has no token {token!r} of its own; is it that of another model?")
        return int(ids[0])

    def _frame(self, *, with_media: bool) -> _Frame:
        asked, answered = (self._rendered(with_media=with_media, answered=a) for a in (False, True))
        if with_media:
            if asked.count(self._image.marker) != 1:
                raise ValueError(f"the chat template drops the image: it leaves no {self._image.marker!r}")
            asked, answered = (t.replace(self._image.marker, self._image.written) for t in (asked, answered))
        if asked.count(QUESTION) != 1:
            raise ValueError("the chat template drops or repeats the question")
        if answered.count(ANSWER) != 1:
            raise ValueError("the chat template drops or repeats the answer")
        before, _, between = asked.partition(QUESTION)
        # LLaVA-OneVision's template writes another blank once the assistant has answered. What is learnt must follow
        # on what a reply is asked for with, so the blank is left out.
        lead = answered.removeprefix(asked).partition(ANSWER)[0] if answered.startswith(asked) else ""
        return _Frame(before, between, lead)

    def _rendered(self, *, with_media: bool, answered: bool) -> str:
        content = [{"type": "image"}] * with_media + [{"type": "text", "text": QUESTION}]
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
        tail = self._rendered(with_media=False, answered=True).partition(ANSWER)[2].strip()
        ending = self._control.match(tail)
        stop = ending.group() if ending else self._tokenizer.eos_token
        if stop is None:
            raise ValueError(
                "nothing ends the assistant's turn: neither the chat template nor an end-of-sequence token"
            )
        return self._one_id(stop)


def _positions(length: int, start: int, placed: Placement, *, axes: int) -> tuple[Position, ...]:
    count = len(placed.offsets)
    behind = start + placed.advance
    plain = [*range(start), *range(behind, behind + length - start - count)]
    text: list[Position] = [*plain] if axes == 1 else [(p, p, p) for p in plain]
    visual: list[Position] = [
        start + o if isinstance(o, int) else (start + o[0], start + o[1], start + o[2]) for o in placed.offsets
    ]
    return (*text[:start], *visual, *text[start:])
