"""Answers requests about one media group, one row per option: the plain path."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from typing import NamedTuple

import torch

from medtune.data.images import Size
from medtune.data.types import Image, MediaGroup, MediaRef, Prediction, PredictionKey, Request
from medtune.models.contract import Encoded
from medtune.models.sequence.layout import Sequence as Layout
from medtune.models.sequence.layout import pad_rows
from medtune.models.vlm import Assembled


def budgeted(lengths: Sequence[int], *, batch_tokens: int) -> Iterator[list[int]]:
    """Yields lists of row indices, longest rows first, each list at most `batch_tokens` when padded.

    A row that is longer than the budget goes alone.
    """
    batch: list[int] = []
    for row in sorted(range(len(lengths)), key=lambda i: -lengths[i]):
        if batch and lengths[batch[0]] * (len(batch) + 1) > batch_tokens:
            yield batch
            batch = []
        batch.append(row)
    if batch:
        yield batch


class Shown(NamedTuple):
    """The group's image as the language model is shown it, and its size in pixels."""

    encoded: Encoded
    size: Size


class PlainAnswerer:
    """Encodes the group's image once, then reads every option and every reply from rows of their own."""

    def __init__(
        self,
        assembled: Assembled,
        *,
        load_media: Callable[[MediaRef], Image],
        device: torch.device,
        batch_tokens: int,
        max_new_tokens: int,
    ) -> None:
        self._assembled = assembled
        self._load_media = load_media
        self._device = device
        self._batch_tokens = batch_tokens
        self._max_new_tokens = max_new_tokens

    @torch.no_grad()
    def answer(self, group: MediaGroup, requests: Sequence[Request]) -> Iterator[Prediction]:
        """Yields one prediction per request."""
        shown = self._show(group) if any(r.condition != "text_only" for r in requests) else None
        for reading, same in groupby(sorted(requests, key=lambda r: r.reading), key=lambda r: r.reading):
            if reading == "likelihood":
                yield from self._likelihoods(list(same), shown)
            else:
                yield from self._generations(list(same), shown)

    def _show(self, group: MediaGroup) -> Shown:
        image, transform = self._load_media(group.media), self._assembled.transform
        height, width = image.pixels_HWC.shape[:2]
        return Shown(self._assembled.model.encode(transform.stack([transform(image)])), Size(width, height))

    def _layout(self, request: Request, answer: str | None, shown: Shown | None) -> Layout:
        return self._assembled.family.layout(
            request.prompt.text,
            answer,
            with_media=request.condition != "text_only",
            size=shown.size if shown else None,
        )

    def _likelihoods(self, requests: Sequence[Request], shown: Shown | None) -> Iterator[Prediction]:
        layouts = [self._layout(r, choice, shown) for r in requests for choice in r.prompt.choices]
        media_index = [-1 if r.condition == "text_only" else 0 for r in requests for _ in r.prompt.choices]
        sums = [0.0] * len(layouts)
        for batch in budgeted([len(s.ids) for s in layouts], batch_tokens=self._batch_tokens):
            rows = pad_rows(
                [layouts[i] for i in batch],
                [media_index[i] for i in batch],
                pad_id=self._assembled.family.pad_id,
                side="right",
            )
            read = self._assembled.model(rows.to(self._device), shown.encoded if shown else None)
            sums_B = torch.zeros(len(batch), device=self._device).index_add(0, read.row_T, read.logprobs_T)
            for i, value in zip(batch, sums_B.tolist(), strict=True):
                sums[i] = value
        first = 0
        for request in requests:
            mine = slice(first, first + len(request.prompt.choices))
            first = mine.stop
            yield Prediction(
                key=_key(request),
                options_shown=request.question.options,
                option_logprobs=tuple(sums[mine]),
                option_tokens=tuple(s.num_targets for s in layouts[mine]),
            )

    def _generations(self, requests: Sequence[Request], shown: Shown | None) -> Iterator[Prediction]:
        family = self._assembled.family
        layouts = [self._layout(r, None, shown) for r in requests]
        for batch in budgeted([len(s.ids) + self._max_new_tokens for s in layouts], batch_tokens=self._batch_tokens):
            rows = pad_rows(
                [layouts[i] for i in batch],
                [-1 if requests[i].condition == "text_only" else 0 for i in batch],
                pad_id=family.pad_id,
                side="left",
            )
            replies = self._assembled.model.generate(
                rows.to(self._device),
                shown.encoded if shown else None,
                max_new_tokens=self._max_new_tokens,
                stop_id=family.stop_id,
            )
            for i, ids in zip(batch, replies, strict=True):
                yield Prediction(
                    key=_key(requests[i]),
                    options_shown=requests[i].question.options,
                    text=family.decode(ids).strip(),
                    finish_reason="stop" if ids and ids[-1] == family.stop_id else "length",
                )


def _key(request: Request) -> PredictionKey:
    return PredictionKey(request.question.id, request.condition, request.reading, request.repeat)
