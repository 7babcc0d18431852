"""A twin of a processor that writes conversations about media without pixels, so that a sequence costs little.

The tokens of a medium depend on its size alone, not on its content. The twin's image and video processors are given
tensors without memory (the meta device), each size once; where a processor cannot take them, or makes something else of
them, they are given black media. The twin's tokenizer encodes a run of placeholders as a single one and repeats its id,
and it encodes hidden texts as plain text, whatever control tokens they spell out.
"""

import copy
import re
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import PIL.Image
import torch
from torch import Tensor
from transformers import BatchEncoding, BatchFeature

_LARGE = 4096
"""Number of elements above which the pixels of a black medium are not kept."""
_MERGED = 256
"""Number of the different arguments of a processor that are remembered."""
_HIDDEN = re.compile("\ue000([0-9a-f]*)\ue001", re.IGNORECASE)
_FAULTS = (ArithmeticError, AttributeError, LookupError, RuntimeError, TypeError, ValueError)
"""The errors that a processor may raise that cannot take tensors without memory."""


def blank_processor(processor: Any, placeholders: Mapping[int, str]) -> Any:
    """Returns the twin of a processor.

    Args:
        placeholders: The placeholders of visual tokens by their ids.
    """
    twin = copy.copy(processor)
    for name in ("image_processor", "video_processor"):
        if getattr(twin, name, None) is not None:
            setattr(twin, name, _OfSizes(getattr(twin, name)))
    twin.tokenizer = ShortTokenizer(processor.tokenizer, placeholders)
    if hasattr(processor, "_merge_kwargs"):
        twin._merge_kwargs = _remembering(twin._merge_kwargs)
    # Nothing is cut, and counting the placeholders in text and ids takes as long as writing them.
    twin._check_special_mm_tokens = lambda *_, **__: None
    return twin


def _remembering(merge: Callable[..., dict[str, Any]]) -> Callable[..., dict[str, Any]]:
    """Returns a processor's way to check its arguments, which takes as long as the rest, for equal arguments once."""
    merged: dict[str, dict[str, Any]] = {}

    def remembered(*given: Any, tokenizer_init_kwargs: Any = None, **named: Any) -> dict[str, Any]:
        key = f"{given} {named}"
        if key not in merged:
            if len(merged) == _MERGED:
                merged.clear()
            merged[key] = merge(*given, tokenizer_init_kwargs=tokenizer_init_kwargs, **named)
        return {name: dict(each) if isinstance(each, dict) else each for name, each in merged[key].items()}

    return remembered


def blank_image(width: int, height: int) -> Tensor:
    return torch.empty((3, height, width), dtype=torch.uint8, device="meta")


def blank_frames(count: int, width: int, height: int) -> Tensor:
    return torch.empty((count, 3, height, width), dtype=torch.uint8, device="meta")


def hidden(text: str) -> str:
    """Returns a stand-in for a text without the white space around it, with characters that occur in no template."""
    bare = text.strip()
    before, _, behind = text.partition(bare) if bare else ("", "", "")
    return f"{before}\ue000{bare.encode().hex()}\ue001{behind}"


class _OfSizes:
    """An image or video processor that prepares media of each size once, and keeps no pixels."""

    def __init__(self, own: Any) -> None:
        self._own = own
        self._made: dict[str, Mapping[str, Any]] = {}
        self._takes_blank: bool | None = None

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self._own, name)

    def __call__(self, *media: Any, **settings: Any) -> Any:
        told = {name: value for name, value in settings.items() if name not in ("images", "videos")}
        key = f"{_each(_size, [*media, settings.get('images'), settings.get('videos')])} {told}"
        if key not in self._made:
            self._made[key] = self._prepared(media, settings)
        return BatchFeature(dict(self._made[key]))

    def _prepared(self, media: tuple[Any, ...], settings: dict[str, Any]) -> dict[str, Any]:
        made = None if self._takes_blank is False else self._of_blank(media, settings)
        if made is None or not self._takes_blank:
            black = dict(self._own(*_each(_black, list(media)), **_each(_black, settings)))
            if self._takes_blank is None:
                self._takes_blank = made is not None and _is_same(made, black)
            made = black
        return {name: _each(_without_pixels, value) for name, value in made.items()}

    def _of_blank(self, media: tuple[Any, ...], settings: dict[str, Any]) -> dict[str, Any] | None:
        try:
            return dict(self._own(*media, **settings))
        except _FAULTS:
            return None


def _each(change: Callable[[Any], Any], value: Any) -> Any:
    if isinstance(value, list | tuple):
        return [_each(change, each) for each in value]
    if type(value) is dict:
        return {name: _each(change, each) for name, each in value.items()}
    return change(value)


def _size(medium: Any) -> Any:
    return medium.size if isinstance(medium, PIL.Image.Image) else tuple(getattr(medium, "shape", ())) or medium


def _black(medium: Any) -> Any:
    if not (isinstance(medium, Tensor) and medium.is_meta):
        return medium
    if medium.dim() == 3:
        return PIL.Image.new("RGB", (medium.shape[2], medium.shape[1]))
    return torch.zeros((), dtype=medium.dtype).expand(medium.shape)


def _is_same(made: Any, black: Any) -> bool:
    if isinstance(made, Mapping):
        return made.keys() == black.keys() and all(_is_same(each, black[name]) for name, each in made.items())
    if isinstance(made, list | tuple):
        return len(made) == len(black) and all(map(_is_same, made, black))
    if not isinstance(made, Tensor):
        return bool(np.all(made == black))
    alike = isinstance(black, Tensor) and (made.shape, made.dtype) == (black.shape, black.dtype)
    return alike and (made.is_floating_point() if made.is_meta else torch.equal(made, black))


def _without_pixels(value: Any) -> Any:
    if not (isinstance(value, Tensor) and value.is_floating_point() and (value.is_meta or value.numel() > _LARGE)):
        return value
    return torch.zeros((), dtype=value.dtype).expand(value.shape)


class Written(NamedTuple):
    """A text that was encoded."""

    text: str  # The text, with one placeholder for each run of visual tokens.
    settings: Mapping[str, Any]  # The arguments of the tokenizer.


class ShortTokenizer:
    """A tokenizer that encodes a run of placeholders as one and repeats its id, and hidden texts as plain text.

    Attributes:
        last: The text that was encoded last; None where it could not be encoded so.
    """

    def __init__(self, own: Any, placeholders: Mapping[int, str]) -> None:
        self._own = own
        self._ids = list(placeholders)
        self._tokens = list(placeholders.values())
        self._runs = re.compile("|".join(f"((?:{re.escape(each)})+)" for each in self._tokens) or "(?!)")
        self.last: Written | None = None

    def __getattr__(self, name: str) -> Any:
        if name == "_own":
            raise AttributeError(name)
        return getattr(self._own, name)

    def __call__(self, text: Any, *more: Any, **settings: Any) -> Any:
        self.last = None
        is_one = isinstance(text, list) and len(text) == 1 and isinstance(text[0], str)
        if more or not is_one or settings.get("return_offsets_mapping"):
            return self._own(text, *more, **settings)
        tensors = settings.pop("return_tensors", None)
        lengths: list[int] = []

        def one(found: re.Match[str]) -> str:
            token = self._tokens[(found.lastindex or 1) - 1]
            lengths.append(len(found.group()) // len(token))
            return token

        short = self._runs.sub(one, text[0])
        made = self._encoded(short, settings)
        is_place = places_of(self._ids, made["input_ids"])
        times = np.ones(len(is_place), dtype=np.int64)
        if is_place.sum() == len(lengths):
            self.last = Written(short, settings)
            times[is_place] = lengths
        else:
            made = self._encoded(text[0], settings)
            times = np.ones(len(made["input_ids"]), dtype=np.int64)
        repeated = {name: np.repeat(each, times) for name, each in made.items()}
        rows = {name: each[None] if tensors else [each.tolist()] for name, each in repeated.items()}
        return _Repeated(rows, cache(lambda: self._own(text, **settings)))

    def behind(self, written: Written, ids: tuple[int, ...], more: str) -> tuple[int, ...]:
        """Returns the ids of what follows a text.

        Where the tokenizer would merge the end of the text with it, it is encoded by itself.

        Args:
            ids: The ids of the text.
        """
        joined = self._encoded(written.text + more, written.settings)["input_ids"].tolist()
        if tuple(joined[: len(ids)]) != ids:
            return tuple(self._encoded(more, {**written.settings, "add_special_tokens": False})["input_ids"].tolist())
        return tuple(joined[len(ids) :])

    def _encoded(self, text: str, settings: Mapping[str, Any]) -> dict[str, Any]:
        first, *others = _HIDDEN.split(text)
        made = {name: list(each[0]) for name, each in self._own([first], **settings).items()}
        for spelt, behind in zip(others[::2], others[1::2], strict=True):
            plain = bytes.fromhex(spelt).decode()
            for piece, how in ((plain, {"split_special_tokens": True}), (behind, {})):
                ids = self._own(piece, add_special_tokens=False, **how)["input_ids"] if piece else []
                for name, each in made.items():
                    each += ids if name == "input_ids" else [int(name == "attention_mask")] * len(ids)
        return {name: np.array(each, dtype=np.int64) for name, each in made.items()}


class _Repeated(BatchEncoding):
    """The encoding of a text whose runs were encoded as one; the place of a letter is asked of the whole text.

    Idefics3's processor asks for it, whether or not it uses the answer.
    """

    def __init__(self, rows: dict[str, Any], whole: Callable[[], BatchEncoding]) -> None:
        super().__init__(rows)
        self._encode_whole = whole

    def char_to_token(self, *place: Any, **named: Any) -> int:
        found: int = self._encode_whole().char_to_token(*place, **named)
        return found


def places_of(ids: Iterable[int], among: Any) -> Any:
    """Returns whether each element of an array is one of a few ids."""
    found = np.zeros(len(among), dtype=bool)
    for each in ids:
        found |= among == each
    return found
