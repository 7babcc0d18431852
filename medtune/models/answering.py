"""Answers requests about media groups with a model in this process.

Several groups are answered in one forward pass, in which the common beginning of sequences is computed once. With
`share_prefix=False`, and for models that take no attention mask of their own, every option gets a row of its own
instead. Replies are greedy, or drawn at a temperature, each with a seed of its own.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from itertools import groupby
from typing import NamedTuple

import torch

from medtune.data.media.load import Shape
from medtune.data.seeding import stable_int
from medtune.data.types import MediaGroup, Prediction, PredictionKey, Request
from medtune.models.contract import Assembled, Encoded, MediaItem
from medtune.models.media_item import read_item
from medtune.models.reply_sampling import drawn
from medtune.models.sequence.layout import Sequence as Layout
from medtune.models.sequence.packing import Shown, balanced, batched, pack
from medtune.models.sequence.prompts import pad_left
from medtune.models.sequence.tree import grow, grow_within
from medtune.models.tuning.precision import Precise

Options = tuple[Layout, ...]
Visit = tuple[MediaGroup, Sequence[Request]]


class Asked(NamedTuple):
    """A request with the sequences that the model reads for it.

    Attributes:
        request: The request.
        media: Number of the first media item that it shows, among those that are encoded together; None where it shows
            none.
        layouts: One sequence for each option; where a reply is generated, only the sequence of the prompt.
    """

    request: Request
    media: int | None
    layouts: Options


class LocalAnswerer:
    """Reads the log-likelihoods of options and generates replies with a model in this process.

    Once `expect` has announced the requests, it answers up to `batch_size` groups in one forward pass, as long as their
    sequences together have no more than `batch_tokens` tokens.
    """

    def __init__(
        self,
        assembled: Assembled,
        *,
        device: torch.device,
        batch_tokens: int,
        max_new_tokens: int,
        precise: Precise,
        batch_size: int = 1,
        share_prefix: bool = True,
        temperature: float = 0.0,
        seed: int = 0,
    ) -> None:
        self._assembled = assembled
        self._device = device
        self._batch_tokens = batch_tokens
        self._batch_groups = batch_size
        self._max_new_tokens = max_new_tokens
        self._precise = precise
        self._temperature = temperature
        self._seed = seed
        self._share_prefix = share_prefix and assembled.model.plain_because is None
        self._blind: dict[Options, list[float]] = {}
        self._waiting: deque[Visit] = deque()
        self._ready: dict[PredictionKey, Prediction] = {}
        self._read_already: list[MediaItem] | None = None

    def expect(self, visits: Sequence[Visit]) -> None:
        """Announces the requests that `answer` will get, in that order."""
        self._waiting, self._read_already = deque(visits), None

    def answer(self, group: MediaGroup, requests: Sequence[Request]) -> Iterator[Prediction]:
        """Yields one prediction per request."""
        keys = [_key(request) for request in requests]
        if not self._ready.keys() >= set(keys):
            self._ready.update((told.key, told) for told in self._told((group, requests)))
        yield from (self._ready.pop(key) for key in keys)

    @torch.no_grad()
    def _told(self, visit: Visit) -> list[Prediction]:
        """Returns the predictions of a visit and of those after it that are answered together with it."""
        with self._precise():
            items, asked = self._together(visit)
            encoded = self._assembled.model.encode(self._assembled.transform.stack(items)) if items else None
            options = [each for each in asked if each.request.reading == "likelihood"]
            replies = [each for each in asked if each.request.reading == "generation"]
            return [*self._likelihoods(options, encoded), *self._generations(replies, encoded)]

    def _together(self, visit: Visit) -> tuple[list[MediaItem], list[Asked]]:
        """Returns the media items of as many visits as fit into one pass, and their requests."""
        if not self._waiting or _keys(self._waiting[0]) != _keys(visit):
            alone = self._items(visit)
            return alone, self._asked(visit, 0 if alone else None)
        items: list[MediaItem] = []
        asked: list[Asked] = []
        tokens = groups = 0
        while self._waiting and groups < self._batch_groups:
            # The file is read before the sequences are laid out, because reading gives the clearest errors.
            shown = self._items(self._waiting[0]) if self._read_already is None else self._read_already
            more = self._asked(self._waiting[0], len(items) if shown else None)
            tokens += sum(len(layout.ids) for each in more for layout in each.layouts[:1])
            self._read_already = shown if asked and tokens > self._batch_tokens else None
            if self._read_already is not None:
                break
            items += shown
            asked += more
            groups += bool(shown)
            self._waiting.popleft()
        return items, asked

    def _items(self, visit: Visit) -> list[MediaItem]:
        """Returns the visit's media items; an empty list where no request shows them."""
        group, requests = visit
        seen = any(request.condition != "text_only" for request in requests)
        return [read_item(ref, self._assembled.transform) for ref in group.media] if seen else []

    def _asked(self, visit: Visit, media: int | None) -> list[Asked]:
        group, requests = visit
        shapes = () if media is None else tuple(map(self._assembled.transform.shape, group.media))
        asked = []
        for request in requests:
            blind = media is None or request.condition == "text_only"
            answers = request.prompt.choices if request.reading == "likelihood" else (None,)
            layouts = tuple(self._layout(request, answer, () if blind else shapes) for answer in answers)
            asked.append(Asked(request, None if blind else media, layouts))
        return asked

    def _layout(self, request: Request, answer: str | None, shapes: Sequence[Shape | None]) -> Layout:
        turns = request.question.turns
        try:
            return self._assembled.family.layout(request.prompt.text, answer, shapes=shapes, turns=turns)
        except ValueError as error:
            raise ValueError(f"question {request.question.id}: {error}") from error

    def _likelihoods(self, asked: Sequence[Asked], encoded: Encoded | None) -> Iterator[Prediction]:
        """Yields predictions with the log-probability of each option.

        Options of the same text without media are computed once per evaluation.
        """
        seeing = [(each.layouts, each.media) for each in asked if each.media is not None]
        unseen = dict.fromkeys(each.layouts for each in asked if each.media is None)
        new = [(options, None) for options in unseen if options not in self._blind]
        sums = iter(self._read(seeing, encoded))
        self._blind.update(zip((options for options, _ in new), self._read(new, None), strict=True))
        for each in asked:
            yield Prediction(
                key=_key(each.request),
                options_shown=each.request.question.options,
                option_logprobs=tuple(self._blind[each.layouts] if each.media is None else next(sums)),
                option_tokens=tuple(option.num_targets for option in each.layouts),
            )

    def _read(self, asked: Sequence[tuple[Options, int | None]], encoded: Encoded | None) -> list[list[float]]:
        """Returns the log-probability of each option of each question."""
        sums = torch.zeros(sum(len(options) for options, _ in asked))
        for batch in batched(balanced(self._trees(asked), row_tokens=0), batch_tokens=self._batch_tokens):
            rows = pack(batch, pad_id=self._assembled.family.pad_id)
            read = self._assembled.model(rows.to(self._device), encoded)
            sums += read.sums(len(sums)).cpu()
        found = iter(sums.tolist())
        return [[next(found) for _ in options] for options, _ in asked]

    def _trees(self, asked: Sequence[tuple[Options, int | None]]) -> list[Shown]:
        """Returns the trees of all options, which are numbered consecutively; a tree shows the media of one group."""
        trees: list[Shown] = []
        first = 0
        for media, same in groupby(asked, key=lambda one: one[1]):
            layouts = [layout for options, _ in same for layout in options]
            numbers = range(first, first + len(layouts))
            first = numbers.stop
            if self._share_prefix:
                grown = grow_within(layouts, numbers, max_tokens=self._batch_tokens)
            else:
                grown = [grow([layout], [number]) for number, layout in zip(numbers, layouts, strict=True)]
            trees += [Shown(tree, media) for tree in grown]
        return trees

    def _generations(self, asked: Sequence[Asked], encoded: Encoded | None) -> Iterator[Prediction]:
        family = self._assembled.family
        for batch in budgeted(asked, new_tokens=self._max_new_tokens, batch_tokens=self._batch_tokens):
            layouts = [each.layouts[0] for each in batch]
            rows = pad_left(layouts, [each.media for each in batch], pad_id=family.pad_id)
            with self._choosing([each.request for each in batch]):
                replies = self._assembled.model.generate(
                    rows.to(self._device),
                    None if batch[0].media is None else encoded,
                    max_new_tokens=self._max_new_tokens,
                    stop_ids=family.stop_ids,
                )
            for (request, *_), ids in zip(batch, replies, strict=True):
                stopped = bool(ids) and ids[-1] in family.stop_ids
                yield Prediction(
                    key=_key(request),
                    options_shown=request.question.options,
                    text=family.decode(ids[:-1] if stopped else ids).strip(),
                    finish_reason="stop" if stopped else "length",
                )

    def _choosing(self, asked: Sequence[Request]) -> AbstractContextManager[None]:
        """Returns the context in which replies are generated: greedily, or drawn with a seed for each request."""
        if self._temperature == 0:
            return nullcontext()
        seeds = [stable_int(self._seed, "reply", r.question.id, r.condition, r.repeat) for r in asked]
        return drawn(self._assembled.model, temperature=self._temperature, seeds=[seed >> 1 for seed in seeds])


def budgeted(asked: Sequence[Asked], *, new_tokens: int, batch_tokens: int) -> Iterator[list[Asked]]:
    """Yields batches of prompts, longest first, with at most `batch_tokens` tokens, padding and replies included.

    Prompts with media and prompts without are in different batches. A prompt that is longer than the limit is a batch
    of its own.

    Args:
        asked: The requests with their prompts.
        new_tokens: Largest length of a reply, in tokens.
        batch_tokens: Largest number of tokens of a batch.
    """
    for _, same in groupby(sorted(asked, key=_order), key=_is_blind):
        batch: list[Asked] = []
        for one in same:
            if batch and (len(batch[0].layouts[0].ids) + new_tokens) * (len(batch) + 1) > batch_tokens:
                yield batch
                batch = []
            batch.append(one)
        yield batch


def _is_blind(asked: Asked) -> bool:
    return asked.media is None


def _order(asked: Asked) -> tuple[bool, int]:
    return _is_blind(asked), -len(asked.layouts[0].ids)


def _keys(visit: Visit) -> list[PredictionKey]:
    return [_key(request) for request in visit[1]]


def _key(request: Request) -> PredictionKey:
    return PredictionKey(request.question.id, request.condition, request.reading, request.repeat)
