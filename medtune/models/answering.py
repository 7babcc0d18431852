"""Answers requests about media groups with a model in this process.

Several groups are answered in one forward pass, in which the common beginning of sequences is computed once, that of
options and of prompts as well, and replies grow as leaves of the same trees. With `share_prefix=False`, and for models
that cannot be told who sees whom, every option and every prompt gets a row of its own instead. Replies are greedy, or
drawn at a temperature, each with a seed of its own.
"""

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from itertools import groupby
from typing import NamedTuple

import torch
from torch import Tensor

from medtune.data.media.load import Shape
from medtune.data.seeding import stable_int
from medtune.data.types import MediaGroup, MediaRef, Prediction, PredictionKey, Request
from medtune.models.contract import Assembled, Encoded, MediaItem
from medtune.models.media_reader import MediaReader
from medtune.models.replies import Prompted, ReplyRow, Wanted, drawable, drawn, reply_rows
from medtune.models.sequence.builder import Sequence as Layout
from medtune.models.sequence.packing import ROW_TOKENS, Shown, balanced, batched, pack, pad_left
from medtune.models.sequence.tree import grow, grow_within
from medtune.models.sharding.lock_step import Turns
from medtune.models.target_logprobs import TargetLogprobs
from medtune.models.tuning.quantize import Precise

Options = tuple[Layout, ...]
ShownRequests = tuple[MediaGroup, Sequence[Request]]


class LaidOutRequest(NamedTuple):
    """A request with the sequences that the model reads for it."""

    request: Request
    # Number of the first media item that it shows, among those that are encoded together; None where it shows none.
    media: int | None
    layouts: Options  # One sequence for each option; where a reply is generated, only the sequence of the prompt.
    # The place of the right answer's sequence among `layouts`; None if nobody asked how it is read.
    target: int | None = None

    @property
    def grows(self) -> bool:
        """Whether a reply to it is generated; else its sequences are read as they are."""
        return self.request.reading == "generation" and self.target is None


class TargetRead(NamedTuple):
    """How a model reads an answer that it is given."""

    logprob: float  # Natural log-probability of the whole answer.
    num_tokens: int  # Number of its tokens.
    likeliest: int  # Number of its tokens that are the model's first choice in their place.


class Replied(NamedTuple):
    """A reply that a model generated."""

    request: Request
    ids: list[int]  # Its tokens, the end among them where it said one.
    prediction: Prediction


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
        top_p: float = 1.0,
        seed: int = 0,
        on_target: Callable[[str, TargetRead], None] | None = None,
        on_reply: Callable[[str, list[int]], None] | None = None,
        turns: Turns | None = None,
        reader: MediaReader | None = None,
    ) -> None:
        """Takes the model and the limits of a pass; `turns` is the agreement of ranks that share a divided model.

        `on_target` is called once for each question with its id and with how the model reads the right answer,
        `on_reply` with a question's id and the tokens of each reply, the end among them.
        `reader` reads the media, None in this process; the caller closes it.
        """
        self._assembled = assembled
        self._device = device
        self._batch_tokens = batch_tokens
        self._batch_groups = batch_size
        self._max_new_tokens = max_new_tokens
        self._precise = precise
        self._temperature = temperature
        self._top_p = top_p
        self._seed = seed
        self._on_target = on_target
        self._on_reply = on_reply
        self._turns = turns
        self._reader = reader or MediaReader(assembled.transform)
        self._share_prefix = share_prefix and assembled.model.plain_because is None
        self._row_tokens = ROW_TOKENS if self._share_prefix and assembled.model.packs_trees else 0
        self._blind: dict[Options, list[TargetRead]] = {}
        self._waiting: deque[ShownRequests] = deque()
        self._ready: dict[PredictionKey, Prediction] = {}
        self._read_already: list[MediaItem] | None = None
        self._told_reader = self._reader

    def expect(self, visits: Sequence[ShownRequests], reader: MediaReader | None = None) -> None:
        """Announces the requests that `answer` will get, in that order.

        Args:
            reader: The reader that was told of the media that these visits show; None tells that of the answerer.
        """
        self._waiting, self._read_already = deque(visits), None
        if reader is None:
            self._reader.expect(shown_by(visits))
        self._told_reader = reader or self._reader

    @property
    def waited_s(self) -> float:
        """The seconds that this answerer's own reader has let it wait for media."""
        return self._reader.waited_s

    def meet(self) -> None:
        """Waits until all ranks have their answers, and helps them meanwhile; with a whole model it does nothing."""
        if self._turns is not None:
            self._turns.meet()

    def answer(self, group: MediaGroup, requests: Sequence[Request]) -> Iterator[Prediction]:
        keys = [request.key for request in requests]
        if not self._ready.keys() >= set(keys):
            self._ready.update((told.key, told) for told in self._predictions((group, requests)))
        yield from (self._ready.pop(key) for key in keys)

    @torch.no_grad()
    def _predictions(self, visit: ShownRequests) -> list[Prediction]:
        with self._precise():
            items, asked = self._together(visit)
            encoded = self._assembled.model.encode(self._assembled.transform.stack(items)) if items else None
            # Options of the same text without media are computed once per evaluation.
            rest = [each for each in asked if each.grows or each.media is not None]
            blind = {each.layouts: each for each in asked if not each.grows and each.media is None}
            unseen = {layouts: each for layouts, each in blind.items() if layouts not in self._blind}
            found, replies = self._read([*rest, *unseen.values()], encoded)
            self._blind.update(zip(unseen, found[len(rest) :], strict=True))
            reads = iter([read for each, read in zip(rest, found, strict=False) if not each.grows])
            likelihoods = [
                self._likelihood(each, self._blind[each.layouts] if each.media is None else next(reads))
                for each in asked
                if not each.grows
            ]
            return [*filter(None, likelihoods), *(each.prediction for each in replies)]

    def _together(self, visit: ShownRequests) -> tuple[list[MediaItem], list[LaidOutRequest]]:
        if not self._waiting or _keys(self._waiting[0]) != _keys(visit):
            alone = self._reader.read(visit[0].media) if shown_by([visit]) else []
            return alone, self._laid_out_requests(visit, 0 if alone else None)
        items: list[MediaItem] = []
        asked: list[LaidOutRequest] = []
        tokens = groups = 0
        while self._waiting and groups < self._batch_groups:
            # The file is read before the sequences are laid out, because reading gives the clearest errors.
            shown = self._items(self._waiting[0]) if self._read_already is None else self._read_already
            more = self._laid_out_requests(self._waiting[0], len(items) if shown else None)
            tokens += self._computed([each.layouts[0] for each in more if each.layouts])
            self._read_already = shown if asked and tokens > self._batch_tokens else None
            if self._read_already is not None:
                break
            items += shown
            asked += more
            groups += bool(shown)
            self._waiting.popleft()
        return items, asked

    def _computed(self, layouts: Sequence[Layout]) -> int:
        if not self._share_prefix:
            return sum(len(layout.ids) for layout in layouts)
        return len(grow(layouts, range(len(layouts))).ids)

    def _items(self, visit: ShownRequests) -> list[MediaItem]:
        return self._told_reader.next() if shown_by([visit]) else []

    def _laid_out_requests(self, visit: ShownRequests, media: int | None) -> list[LaidOutRequest]:
        group, requests = visit
        shapes = () if media is None else tuple(map(self._assembled.transform.shape, group.media))
        asked = []

        def ask(request: Request, answers: Sequence[str | None], target: int | None) -> None:
            blind = media is None or request.condition == "text_only"
            layouts = tuple(self._layout(request, answer, () if blind else shapes) for answer in answers)
            asked.append(LaidOutRequest(request, None if blind else media, layouts, target))

        waiting = {request.question.id for request in requests} if self._on_target else set[str]()
        for request in requests:
            right, wants = request.prompt.target, request.question.id in waiting
            if request.reading == "likelihood":
                # The right answer is one of the options as a rule, and costs nothing more then.
                choices = request.prompt.choices
                answers = (*choices, right) if wants and right not in choices else choices
                ask(request, answers, answers.index(right) if wants else None)
                waiting.discard(request.question.id)
            else:
                ask(request, [None], None)
        for request in requests:
            if request.question.id in waiting:
                ask(request, [request.prompt.target], 0)
                waiting.discard(request.question.id)
        return asked

    def _layout(self, request: Request, answer: str | None, shapes: Sequence[Shape | None]) -> Layout:
        turns = request.question.turns
        try:
            return self._assembled.template.layout(request.prompt.text, answer, shapes=shapes, turns=turns)
        except ValueError as error:
            raise ValueError(f"question {request.question.id}: {error}") from error

    def _likelihood(self, asked: LaidOutRequest, read: Sequence[TargetRead]) -> Prediction | None:
        """Returns the prediction where options were asked for, and reports how the right answer is read."""
        if self._on_target is not None and asked.target is not None:
            self._on_target(asked.request.question.id, read[asked.target])
        if asked.request.reading != "likelihood":
            return None
        options = read[: len(asked.request.prompt.choices)]
        return Prediction(
            key=asked.request.key,
            options_shown=asked.request.question.options,
            option_logprobs=tuple(option.logprob for option in options),
            option_tokens=tuple(option.num_tokens for option in options),
        )

    @torch.no_grad()
    def replies(self, asked: Sequence[LaidOutRequest], encoded: Encoded | None) -> list[Replied]:
        """Returns a reply to each request, in any order; its prompt is the only one of its sequences."""
        return self._read(asked, encoded)[1]

    def _read(
        self, asked: Sequence[LaidOutRequest], encoded: Encoded | None
    ) -> tuple[list[list[TargetRead]], list[Replied]]:
        """Returns how the sequences of each request are read, and the replies to those whose replies grow.

        Where both are asked for with the same media, one pass reads what they share.
        """
        whose = [each for each in asked for _ in each.layouts]
        room = self._max_new_tokens
        sequences = [
            Prompted(layout, each.media, room if each.grows else 0) for each in asked for layout in each.layouts
        ]
        growing = {each.media for each in asked if each.grows}
        if growing and self._temperature:
            drawable(self._assembled.model)
        beside = {n: each for n, each in enumerate(sequences) if each.media in growing and self._share_prefix}
        alone = {n: each for n, each in enumerate(sequences) if n not in beside and not each.new_tokens}
        replies = [] if self._share_prefix else self._plain_replies([each for each in asked if each.grows], encoded)
        sums = torch.zeros(2, len(sequences))
        for read in self._read_alone(alone, encoded):
            sums += _sums(read, len(sequences))
        one_tree = self._assembled.model.mixes_images
        for row in reply_rows(beside, batch_tokens=self._batch_tokens, one_tree=one_tree):
            requests = {n: whose[n].request for n in row.numbers if sequences[n].new_tokens}
            grown, read = self._grown(row, requests, encoded)
            replies += grown
            sums += _sums(read, len(sequences))
        found = iter(sums.T.tolist())
        return [
            [
                TargetRead(logprob, layout.num_targets, int(likeliest))
                for layout, (logprob, likeliest) in zip(each.layouts, found, strict=False)
            ]
            for each in asked
        ], replies

    def _read_alone(self, sequences: Mapping[int, Prompted], encoded: Encoded | None) -> Iterator[TargetLogprobs]:
        for is_blind in (False, True):
            same = {n: each for n, each in sequences.items() if (each.media is None) == is_blind}
            trees = balanced(self._trees(same), row_tokens=self._row_tokens)
            for batch in batched(trees, batch_tokens=self._batch_tokens):
                rows = pack(batch, pad_id=self._assembled.template.pad_id)
                yield self._assembled.model(rows.to(self._device), None if is_blind else encoded)

    def _trees(self, sequences: Mapping[int, Prompted]) -> list[Shown]:
        trees: list[Shown] = []
        for media, numbers in groupby(sequences, key=lambda number: sequences[number].media):
            same = {number: sequences[number].layout for number in numbers}
            if self._share_prefix:
                grown = grow_within([*same.values()], [*same], max_tokens=self._batch_tokens)
            else:
                grown = [grow([layout], [number]) for number, layout in same.items()]
            trees += [Shown(tree, media) for tree in grown]
        return trees

    def _grown(
        self, row: ReplyRow, requests: Mapping[int, Request], encoded: Encoded | None
    ) -> tuple[list[Replied], TargetLogprobs]:
        """Returns the replies to those sequences of a row that have a request, and what is read of the others."""
        leaves = {n: leaf for n, leaf in zip(row.numbers, row.leaves, strict=True) if n in requests}
        stop_ids, how = self._assembled.template.stop_ids, (self._temperature, self._top_p)
        wanted = [
            Wanted(leaf, self._max_new_tokens, stop_ids, self._draw(requests[n]), *how) for n, leaf in leaves.items()
        ]
        rows = pack([row.trees], pad_id=self._assembled.template.pad_id).to(self._device)
        shown = None if row.trees[0].media is None else encoded
        if not wanted:
            return [], self._assembled.model(rows, shown)
        replies, read = self._assembled.model.reply(rows, shown, wanted)
        return [self._replied(requests[n], ids) for n, ids in zip(leaves, replies, strict=True)], read

    def _replied(self, request: Request, ids: list[int]) -> Replied:
        template = self._assembled.template
        if self._on_reply is not None:
            self._on_reply(request.question.id, ids)
        stopped = bool(ids) and ids[-1] in template.stop_ids
        said = Prediction(
            key=request.key,
            options_shown=request.question.options,
            text=(self._assembled.opened + template.decode(ids[:-1] if stopped else ids)).strip(),
            finish_reason="stop" if stopped else "length",
        )
        return Replied(request, ids, said)

    def _plain_replies(self, asked: Sequence[LaidOutRequest], encoded: Encoded | None) -> list[Replied]:
        template = self._assembled.template
        replied = []
        for batch in budgeted(asked, new_tokens=self._max_new_tokens, batch_tokens=self._batch_tokens):
            layouts = [each.layouts[0] for each in batch]
            rows = pad_left(layouts, [each.media for each in batch], pad_id=template.pad_id)
            with self._choosing([each.request for each in batch]):
                replies = self._assembled.model.generate(
                    rows.to(self._device),
                    None if batch[0].media is None else encoded,
                    max_new_tokens=self._max_new_tokens,
                    stop_ids=template.stop_ids,
                )
            replied += [self._replied(each.request, ids) for each, ids in zip(batch, replies, strict=True)]
        return replied

    def _choosing(self, asked: Sequence[Request]) -> AbstractContextManager[None]:
        if self._temperature == 0:
            return nullcontext()
        seeds = [self._draw(request) for request in asked]
        return drawn(self._assembled.model, temperature=self._temperature, seeds=seeds, top_p=self._top_p)

    def _draw(self, request: Request) -> int:
        return stable_int(self._seed, "reply", request.question.id, request.condition, request.repeat) >> 1


def shown_by(visits: Sequence[ShownRequests]) -> list[tuple[MediaRef, ...]]:
    return [
        group.media
        for group, requests in visits
        if group.media and any(request.condition != "text_only" for request in requests)
    ]


def budgeted(asked: Sequence[LaidOutRequest], *, new_tokens: int, batch_tokens: int) -> Iterator[list[LaidOutRequest]]:
    """Yields batches of prompts, longest first, with at most `batch_tokens` tokens, padding and replies included.

    Prompts with media and prompts without are in different batches. A prompt that is longer than the limit is a batch
    of its own.
    """
    for _, same in groupby(sorted(asked, key=_order), key=_is_blind):
        batch: list[LaidOutRequest] = []
        for one in same:
            if batch and (len(batch[0].layouts[0].ids) + new_tokens) * (len(batch) + 1) > batch_tokens:
                yield batch
                batch = []
            batch.append(one)
        yield batch


def _sums(read: TargetLogprobs, num_sequences: int) -> Tensor:
    return torch.stack([read.sums(num_sequences), read.likeliest(num_sequences)]).cpu()


def _is_blind(asked: LaidOutRequest) -> bool:
    return asked.media is None


def _order(asked: LaidOutRequest) -> tuple[bool, int]:
    return _is_blind(asked), -len(asked.layouts[0].ids)


def _keys(visit: ShownRequests) -> list[PredictionKey]:
    return [request.key for request in visit[1]]
