"""Answers requests about one media group: the image is encoded once, and what sequences share is computed once.

`share_prefix=False` is the plain twin: the same code with a row for every option. A model that cannot be told who sees
whom has nothing else. Replies are greedy, or drawn at a temperature, each by a seed of its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from itertools import groupby
from typing import NamedTuple

import torch

from medtune.data.media import Shape
from medtune.data.seeding import stable_int
from medtune.data.types import MediaGroup, Prediction, PredictionKey, Request
from medtune.models.contract import Encoded
from medtune.models.drawing import drawn
from medtune.models.precision import Precise
from medtune.models.reading import read_item
from medtune.models.sequence.layout import Sequence as Layout
from medtune.models.sequence.packing import Shown, balanced, batched, pack
from medtune.models.sequence.prompts import pad_left
from medtune.models.sequence.tree import grow, grow_within
from medtune.models.vlm import Assembled

Options = tuple[Layout, ...]


class Look(NamedTuple):
    """The group's media item as the language model is shown it, and its shape as the sequence needs it."""

    encoded: Encoded
    shape: Shape | None


class LocalAnswerer:
    """Reads option log-likelihoods and generates replies with a model in this process."""

    def __init__(
        self,
        assembled: Assembled,
        *,
        device: torch.device,
        batch_tokens: int,
        max_new_tokens: int,
        precise: Precise,
        share_prefix: bool = True,
        temperature: float = 0.0,
        seed: int = 0,
    ) -> None:
        self._assembled = assembled
        self._device = device
        self._batch_tokens = batch_tokens
        self._max_new_tokens = max_new_tokens
        self._precise = precise
        self._temperature = temperature
        self._seed = seed
        self._share_prefix = share_prefix and assembled.model.plain_because is None
        self._blind: dict[Options, list[float]] = {}

    @torch.no_grad()
    def answer(self, group: MediaGroup, requests: Sequence[Request]) -> Iterator[Prediction]:
        """Yields one prediction per request."""
        with self._precise():
            look = self._look(group) if any(r.condition != "text_only" for r in requests) else None
            for (reading, blind), same in groupby(sorted(requests, key=_kind), key=_kind):
                shown = None if blind else look
                if reading == "likelihood":
                    yield from self._likelihoods(list(same), shown)
                else:
                    yield from self._generations(list(same), shown)

    def _look(self, group: MediaGroup) -> Look:
        transform = self._assembled.transform
        item = read_item(group.media, transform)
        return Look(self._assembled.model.encode(transform.stack([item])), transform.shape(group.media))

    def _layout(self, request: Request, answer: str | None, look: Look | None) -> Layout:
        with_media, shape = look is not None, look.shape if look else None
        try:
            return self._assembled.family.layout(request.prompt.text, answer, with_media=with_media, shape=shape)
        except ValueError as error:
            raise ValueError(f"question {request.question.id}: {error}") from error

    def _likelihoods(self, requests: Sequence[Request], look: Look | None) -> Iterator[Prediction]:
        asked = [
            tuple(self._layout(request, choice, look) for choice in request.prompt.choices) for request in requests
        ]
        for request, options, sums in zip(requests, asked, self._sums(asked, look), strict=True):
            yield Prediction(
                key=_key(request),
                options_shown=request.question.options,
                option_logprobs=tuple(sums),
                option_tokens=tuple(option.num_targets for option in options),
            )

    def _sums(self, asked: Sequence[Options], look: Look | None) -> list[list[float]]:
        """Returns the log-probability of each option; the same text without an image is asked once per evaluation."""
        if look is not None:
            return self._read(asked, look)
        new = list(dict.fromkeys(options for options in asked if options not in self._blind))
        self._blind.update(zip(new, self._read(new, None), strict=True))
        return [self._blind[options] for options in asked]

    def _read(self, asked: Sequence[Options], look: Look | None) -> list[list[float]]:
        model, layouts = self._assembled.model, [layout for options in asked for layout in options]
        numbers = range(len(layouts))
        if self._share_prefix:
            trees = grow_within(layouts, numbers, max_tokens=self._batch_tokens)
        else:
            trees = [grow([layout], [number]) for number, layout in zip(numbers, layouts, strict=True)]
        shown = [Shown(tree, None if look is None else 0) for tree in trees]
        sums = torch.zeros(len(layouts))
        for batch in batched(balanced(shown, row_tokens=0), batch_tokens=self._batch_tokens):
            rows = pack(batch, pad_id=self._assembled.family.pad_id)
            read = model(rows.to(self._device), look.encoded if look else None)
            sums += read.sums(len(layouts)).cpu()
        found = iter(sums.tolist())
        return [[next(found) for _ in options] for options in asked]

    def _generations(self, requests: Sequence[Request], look: Look | None) -> Iterator[Prediction]:
        family = self._assembled.family
        waiting = [(request, self._layout(request, None, look)) for request in requests]
        for batch in budgeted(waiting, new_tokens=self._max_new_tokens, batch_tokens=self._batch_tokens):
            shown = [None if look is None else 0] * len(batch)
            rows = pad_left([layout for _, layout in batch], shown, pad_id=family.pad_id)
            with self._choosing([request for request, _ in batch]):
                replies = self._assembled.model.generate(
                    rows.to(self._device),
                    look.encoded if look else None,
                    max_new_tokens=self._max_new_tokens,
                    stop_id=family.stop_id,
                )
            for (request, _), ids in zip(batch, replies, strict=True):
                yield Prediction(
                    key=_key(request),
                    options_shown=request.question.options,
                    text=family.decode(ids).strip(),
                    finish_reason="stop" if ids and ids[-1] == family.stop_id else "length",
                )

    def _choosing(self, asked: Sequence[Request]) -> AbstractContextManager[None]:
        """Returns the context in which these are generated, a row each: greedily, or drawn by seeds of their own."""
        if self._temperature == 0:
            return nullcontext()
        seeds = [stable_int(self._seed, "reply", r.question.id, r.condition, r.repeat) for r in asked]
        return drawn(self._assembled.model, temperature=self._temperature, seeds=[seed >> 1 for seed in seeds])


def budgeted(
    waiting: Sequence[tuple[Request, Layout]], *, new_tokens: int, batch_tokens: int
) -> Iterator[list[tuple[Request, Layout]]]:
    """Yields batches of prompts, longest first, each at most `batch_tokens` when padded and answered.

    A prompt that is longer than the budget goes alone.
    """
    batch: list[tuple[Request, Layout]] = []
    for one in sorted(waiting, key=lambda one: -len(one[1].ids)):
        if batch and (len(batch[0][1].ids) + new_tokens) * (len(batch) + 1) > batch_tokens:
            yield batch
            batch = []
        batch.append(one)
    if batch:
        yield batch


def _kind(request: Request) -> tuple[str, bool]:
    return request.reading, request.condition == "text_only"


def _key(request: Request) -> PredictionKey:
    return PredictionKey(request.question.id, request.condition, request.reading, request.repeat)
