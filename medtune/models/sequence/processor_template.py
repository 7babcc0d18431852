"""Lays out media items and a conversation with the chat template of a processor of transformers.

The template is rendered once for each form of conversation, with stand-ins in place of its texts. The texts of every
later conversation of that form are put in their place and encoded. The model learns the tokens behind the last header
of the assistant: the answer and the end of its turn.
"""

import re
from collections import Counter
from collections.abc import Callable
from collections.abc import Sequence as Many
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain, count, zip_longest
from pathlib import Path
from typing import Any, Generic, Literal, NamedTuple, TypeVar

from jinja2 import TemplateError

from medtune.data.media.load import Shape
from medtune.data.types import Frames, Size, Turn
from medtune.models.sequence.builder import IGNORED, Placement, Run, Sequence, at, laid_out, refuse_several, user_turns
from medtune.models.sequence.chat_template import ANSWER, set_date

ShapeT = TypeVar("ShapeT", Size, Frames)
_STAND_IN = re.compile("\ue000[0-9]+\ue000")


class Written(NamedTuple):
    """The text of a media item in a conversation, with its visual tokens."""

    text: str  # The text, with one placeholder of a visual token for each run of them.
    runs: tuple[Placement, ...]  # The positions of each run of visual tokens, in the order of the text.


@dataclass(frozen=True, slots=True)
class MediaText(Generic[ShapeT]):
    """The way in which a family writes media of one kind."""

    content: Literal["image", "video"]  # The type under which the chat template is given such an item.
    marker: str  # The text that the template writes in the place of an item.
    token: str  # The placeholder of a visual token, which is repeated for each of them.
    # Returns the text for an item of a given size or given frames, which takes the place of the marker.
    write: Callable[[ShapeT], Written]


@dataclass(frozen=True, slots=True)
class Writing:
    """The way in which a family writes images and videos."""

    image: MediaText[Size]
    video: MediaText[Frames] | None = None  # The way in which videos are written; None where a family takes no videos.
    axes: int = 1  # Number of axes of a position: 1, or 3 for M-RoPE.
    # Whether the processor writes an item otherwise where others are shown with it, so that several are refused.
    alone: bool = False


class _Edges(NamedTuple):
    before: str
    behind: str


_Part = MediaText[Any] | _Edges
"""A media item of a turn, or a text without its words."""


class _Frame(NamedTuple):
    """The texts of a template around the pieces of a conversation."""

    # The texts before, between and behind the texts of the conversation, with the markers of its media.
    around: tuple[str, ...]
    lead: str  # Text that the template writes between the header of the reply and a given answer.


class _Asked(NamedTuple):
    """A conversation up to the place where the answer begins."""

    # The texts of the users' turns and of the earlier answers, in their order, without the white space around.
    texts: tuple[str, ...]
    # The texts of the template around them; media items are written out, with one placeholder for each run.
    around: tuple[str, ...]
    lead: str  # Text that the template writes between the header of the reply and a given answer.
    shown: tuple[int, ...]  # The numbers of the media items in the order of the text.

    @property
    def whole(self) -> str:
        return "".join(chain.from_iterable(zip_longest(self.around, self.texts, fillvalue="")))


class ProcessorTemplate:
    """Lays out questions for a model of transformers."""

    def __init__(self, processor: Any, *, writing: Writing, max_tokens: int) -> None:
        set_date(processor)
        self._processor = processor
        self._tokenizer = processor.tokenizer
        self._writing = writing
        self._max_tokens = max_tokens
        # The tokenizer finds added tokens anywhere in a text, also where a question or an answer spells one out.
        self._control = re.compile(
            "|".join(map(re.escape, sorted(self._tokenizer.get_added_vocab(), key=len, reverse=True))) or r"(?!)"
        )
        self._frame = lru_cache(maxsize=256)(self._frame_uncached)
        self._one_id(writing.image.token)
        for media in ((writing.image,), ()):
            self._frame(((*media, _Edges("", "")),))
        self._stop_id = self._find_stop()
        self._encode = lru_cache(maxsize=65536)(self._encode_uncached)

    @property
    def pad_id(self) -> int:
        """The end-of-turn token; padding is masked, so any id would do."""
        return self._stop_id

    @property
    def stop_ids(self) -> tuple[int, ...]:
        return (self._stop_id,)

    def layout(
        self, prompt: str, answer: str | None, *, shapes: Many[Shape | None] = (None,), turns: Many[Turn] = ()
    ) -> Sequence:
        """Returns the sequence; the labels are the answer's tokens and the end of its turn."""
        if self._writing.alone:
            refuse_several(len(shapes))
        media = [self._shown(shape) for shape in shapes]
        texts = [written.text for _, written in media]
        asked = self._asked(prompt, tuple(turns), tuple(medium for medium, _ in media), tuple(texts))
        context, target = self._encode(asked, answer)
        runs = [
            Run(self._one_id(media[item][0].token), item, run) for item in asked.shown for run in media[item][1].runs
        ]
        laid = laid_out(context, runs, axes=self._writing.axes)
        length, num_visual = len(laid.ids) + len(target), sum(len(run.placement.offsets) for run in runs)
        if length > self._max_tokens:
            fewer = "model.video_frames" if any(isinstance(s, Frames) for s in shapes) else "model.image_max_pixels"
            raise ValueError(
                f"a sequence of {length} tokens where the model reads {self._max_tokens}; {num_visual} of them are the "
                f"image's and {len(target)} the answer's. Lower {fewer}, or shorten the question or the answer; "
                "neither an image nor an answer is ever cut"
            )
        behind = range(laid.next_position, laid.next_position + len(target))
        return Sequence(
            ids=(*laid.ids, *target),
            labels=(*(IGNORED,) * len(laid.ids), *target),
            positions=(*laid.positions, *(at(position, self._writing.axes) for position in behind)),
            media_spans=laid.spans,
        )

    def _shown(self, shape: Shape | None) -> tuple[MediaText[Any], Written]:
        if isinstance(shape, Frames):
            if self._writing.video is None:
                raise ValueError("this family takes no videos; choose another model.name")
            return self._writing.video, self._writing.video.write(shape)
        if shape is None:
            raise ValueError("the layout of this family depends on the size of the image; none was given")
        return self._writing.image, self._writing.image.write(shape)

    def _asked(
        self, prompt: str, turns: tuple[Turn, ...], media: tuple[MediaText[Any], ...], written: tuple[str, ...]
    ) -> _Asked:
        said: list[str] = []
        form: list[tuple[_Part, ...]] = []
        answers: list[str | None] = [*(turn.answer for turn in turns), None]
        for pieces, answer in zip(user_turns(prompt, turns, num_items=len(media)), answers, strict=True):
            texts = [piece for piece in pieces if isinstance(piece, str)]
            said += [*texts, *([] if answer is None else [answer])]
            form.append(tuple(media[each] if isinstance(each, int) else _edges(each) for each in pieces))
            if answer is not None:
                form.append((_edges(answer),))
        frame = self._frame(tuple(form))
        shown: list[int] = []
        around = tuple(_with_media(text, media, written, shown) for text in frame.around)
        return _Asked(tuple(text.strip() for text in said), around, frame.lead, tuple(shown))

    def decode(self, ids: Many[int]) -> str:
        return str(self._tokenizer.decode(list(ids), skip_special_tokens=True))

    def pieces(self, ids: Many[int]) -> list[str]:
        return [str(self._tokenizer.decode([i])) for i in ids]

    def save(self, folder: Path) -> None:
        """Writes the processor, with its tokenizer, as transformers reads it."""
        self._processor.save_pretrained(folder)

    def _encode_uncached(self, asked: _Asked, answer: str | None) -> tuple[tuple[int, ...], ...]:
        if any(map(self._control.search, asked.texts)):
            first, *others = asked.around
            context = self._ids(first, first=True)
            for text, behind in zip(asked.texts, others, strict=True):
                context = (*context, *self._plain(text), *self._ids(behind))
        else:
            context = self._ids(asked.whole, first=True)
        if answer is None:
            return context, ()
        return context, (*self._answer(asked, context, answer), self._stop_id)

    def _answer(self, asked: _Asked, context: tuple[int, ...], answer: str) -> tuple[int, ...]:
        if any(map(self._control.search, (*asked.texts, answer))):
            return self._plain(asked.lead + answer)
        whole = self._ids(asked.whole + asked.lead + answer, first=True)
        # The answer's tokens must not be merged with the context's last token, because generation starts behind the
        # unchanged context. Where the tokenizer would merge them, the answer is encoded by itself.
        return whole[len(context) :] if whole[: len(context)] == context else self._plain(asked.lead + answer)

    def _ids(self, text: str, *, first: bool = False) -> tuple[int, ...]:
        bos = self._tokenizer.bos_token
        special = first and not (bos is not None and text.startswith(bos))
        return tuple(self._tokenizer(text, add_special_tokens=special).input_ids)

    def _plain(self, text: str) -> tuple[int, ...]:
        return tuple(self._tokenizer(text, add_special_tokens=False, split_special_tokens=True).input_ids)

    def _one_id(self, token: str) -> int:
        ids = self._tokenizer(token, add_special_tokens=False).input_ids
        if len(ids) != 1:
            raise ValueError(f"the tokenizer has no token {token!r} of its own; is it that of another model?")
        return int(ids[0])

    def _frame_uncached(self, form: tuple[tuple[_Part, ...], ...]) -> _Frame:
        asked, answered = (self._rendered(form, answered=a) for a in (False, True))
        media = [part for turn in form for part in turn if isinstance(part, MediaText)]
        for medium, wanted in Counter(media).items():
            same = sum(each.marker == medium.marker for each in media)
            if asked.count(medium.marker) != max(wanted, same):
                raise ValueError(f"the chat template drops the {medium.content}: it leaves no {medium.marker!r}")
        texts = sum(not isinstance(part, MediaText) for turn in form for part in turn)
        around = _STAND_IN.split(asked)
        if _STAND_IN.findall(asked) != [_stand_in(number) for number in range(texts)]:
            raise ValueError("the chat template drops or repeats the question, or a turn before it")
        if answered.count(ANSWER) != 1:
            raise ValueError("the chat template drops or repeats the answer")
        # In front of a given answer, LLaVA-OneVision's template writes a blank that it does not write in a prompt for
        # generation. The answer has to be learnt behind the prompt from which generation starts, so the blank is left
        # out.
        lead = answered.removeprefix(asked).partition(ANSWER)[0] if answered.startswith(asked) else ""
        return _Frame(tuple(around), lead)

    def _rendered(self, form: tuple[tuple[_Part, ...], ...], *, answered: bool) -> str:
        numbers = count()
        turns: list[dict[str, Any]] = []
        for number, parts in enumerate(form):
            content = [
                {"type": part.content}
                if isinstance(part, MediaText)
                else {"type": "text", "text": f"{part.before}{_stand_in(next(numbers))}{part.behind}"}
                for part in parts
            ]
            turns.append({"role": ("user", "assistant")[number % 2], "content": content})
        if answered:
            turns.append({"role": "assistant", "content": [{"type": "text", "text": ANSWER}]})
        if not getattr(self._processor, "chat_template", None):
            raise ValueError("the processor has no chat template; take the model's instruct checkpoint")
        try:
            return str(self._processor.apply_chat_template(turns, tokenize=False, add_generation_prompt=not answered))
        except TemplateError as error:
            raise ValueError(f"the chat template refuses a question about an image: {error}") from error

    def _find_stop(self) -> int:
        tail = self._rendered(((_Edges("", ""),),), answered=True).partition(ANSWER)[2].strip()
        ending = self._control.match(tail)
        stop = ending.group() if ending else self._tokenizer.eos_token
        if stop is None:
            raise ValueError(
                "nothing ends the assistant's turn: neither the chat template nor an end-of-sequence token"
            )
        return self._one_id(stop)


def _edges(text: str) -> _Edges:
    bare = text.strip()
    if not bare:
        return _Edges("", "")
    before, _, behind = text.partition(bare)
    return _Edges(before, behind)


def _stand_in(number: int) -> str:
    return f"\ue000{number}\ue000"


def _with_media(text: str, media: Many[MediaText[Any]], written: Many[str], shown: list[int]) -> str:
    """Returns a text of the template with the media items written out, and adds their numbers to `shown`.

    A template may write all images before all videos, so that each marker takes the next item of its own.
    """
    if not media:
        return text

    def next_item(found: re.Match[str]) -> str:
        item = next(n for n, medium in enumerate(media) if medium.marker == found.group() and n not in shown)
        shown.append(item)
        return written[item]

    return re.sub("|".join(re.escape(medium.marker) for medium in media), next_item, text)
