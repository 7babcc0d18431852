"""Turns prompts into a pass that learns: draws replies with the weights of the step and pays them, or chooses pairs.

Replies grow on the same trees as in an evaluation, and the sequences that are learnt have the very tokens that were
drawn. All of it is done in evaluation mode and without gradients; the pass that learns comes behind it.

Shape legend: N replies, T target tokens.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from statistics import fmean, stdev
from typing import NamedTuple

import torch

from medtune.data.seeding import stable_int
from medtune.data.types import Request
from medtune.models.answering import LaidOutRequest, LocalAnswerer
from medtune.models.contract import Assembled, Encoded, parameters_of_parts
from medtune.models.sequence.builder import Sequence as Layout
from medtune.models.sequence.builder import replied
from medtune.models.sequence.packing import PackedRows
from medtune.models.sharding.lock_step import InTurns, Turns, lock_step
from medtune.trainer.losses import compares_with_start, learns_from, steps_per_draw
from medtune.trainer.recipe.schema import EvalBlock, Stage
from medtune.trainer.replies.prompts import AskedPrompt, PromptBatch
from medtune.trainer.replies.start_weights import StartWeights
from medtune.trainer.replies.watched import FLAT, Watched
from medtune.trainer.rewards import Paid, WeighedRewards
from medtune.trainer.training.batches import LearntReplies, MicroBatch, packed, packing_of

ROUNDED = 1e-4
"""What is added to the standard deviation of a question's rewards. Source: TRL 1.16.0, GRPOTrainer."""

_Shown = tuple[int | None, Layout]
"""The number of the first media item that a sequence shows, None where it shows none; and the sequence."""


class _Chosen(NamedTuple):
    """A reply that is learnt, with its advantage."""

    layout: Layout
    advantage: float


class _Learnt(NamedTuple):
    rows: PackedRows
    num_replies: int
    num_counted: int
    teaches: bool
    replies: LearntReplies


class ReplyLearning:
    """The replies of a stage whose loss learns from draws or pairs.

    Attributes:
        rewards: What draws are paid; the data say it, because each member of a mixture has a benchmark of its own.
        start: Keeps the weights with which the stage began; None where the loss does not compare with them.
        watched: What the draws and the loss tell.
    """

    def __init__(self, assembled: Assembled, stage: Stage, *, limits: EvalBlock, seed: int) -> None:
        self._assembled = assembled
        self._settings = stage.replies
        self._learns = learns_from(stage.loss)
        self._draws = self._learns == "draws" or self._settings.pairs == "draws"
        self._temperature = self._settings.temperature if self._learns == "draws" else 1.0
        self._steps_per_draw = steps_per_draw(stage)
        self._batch_tokens = limits.batch_tokens
        self._seed = seed
        self._kept: dict[int, _Learnt] = {}
        self.rewards: WeighedRewards | None = None
        self.start = StartWeights(assembled.model) if compares_with_start(stage.loss) else None
        self.watched = Watched()

    def learnt(self, batch: PromptBatch, *, device: torch.device, in_turns: InTurns | None) -> MicroBatch:
        """Returns the pass that learns replies to the prompts; every rank has to call it with its own."""
        if batch.is_first:
            with self._unchanged(), lock_step(self._assembled.model, in_turns=in_turns) as turns:
                found = self._first(batch, device, turns)
            self._kept[batch.within] = found
        else:
            found = self._kept[batch.within]
            found = found._replace(replies=found.replies._replace(num_drawn=0))
        return MicroBatch(
            number=batch.number,
            rows=found.rows,
            media=batch.media,
            step_target_tokens=len(found.rows.target_id_T),
            step_replies=batch.step_replies,
            num_replies=found.num_replies,
            num_counted=found.num_counted,
            num_shown=batch.num_shown,
            question_ids=batch.question_ids,
            replies=found.replies,
            teaches=found.teaches,
        )

    @contextmanager
    def _unchanged(self) -> Iterator[None]:
        model = self._assembled.model
        model.eval()
        try:
            with torch.no_grad():
                yield
        finally:
            model.train()
            # What autocast made of the weights without gradients must not serve the pass that learns.
            torch.clear_autocast_cache()

    def _first(self, batch: PromptBatch, device: torch.device, turns: Turns | None) -> _Learnt:
        model = self._assembled.model
        encoded = None if batch.media is None else model.encode(batch.media)
        spare: list[_Shown] = list(zip(batch.shown[len(batch.groups) :], batch.borrowed, strict=True))
        if self._draws:
            groups, unlearnt = self._drawn(batch, encoded, device)
            # A pass has to read something, so that all devices run the same layers.
            spare = spare if any(groups) or spare else unlearnt[:1]
        else:
            groups = self._from_known(batch, encoded, device)
        counted = [each for group in groups for each in group]
        layouts = [*([each.layout for each in group] for group in groups), *([each] for _, each in spare)]
        shown = [*batch.shown[: len(batch.groups)], *(media for media, _ in spare)]
        rows = self._packed(layouts, shown).to(device)
        temperature = self._temperature
        old_T = None
        if self._steps_per_draw > 1:
            old_T = model(rows, encoded, lambda read: read.logprobs(temperature))
        start_T = None
        if self.start is not None:
            with self.start.in_place(turns):
                began = model.encode(batch.media) if encoded is not None and self._media_learn() else encoded
                start_T = model(rows, began, lambda read: read.logprobs(temperature))
        advantage_N = torch.tensor([*(each.advantage for each in counted), *(0.0 for _ in spare)], device=device)
        most = self._settings.max_new_tokens
        drawn = self._settings.draws * len(batch.question_ids) if self._draws else 0
        known = LearntReplies(advantage_N, old_T, start_T, temperature, most, drawn)
        teaches = bool(counted) and (self._learns == "pairs" or any(each.advantage for each in counted))
        return _Learnt(rows, len(advantage_N), len(counted), teaches, known)

    def _media_learn(self) -> bool:
        own = parameters_of_parts(self._assembled.model)
        return any(parameter.requires_grad for part in ("vision", "projector") for _, parameter in own[part])

    def _packed(self, layouts: Sequence[Sequence[Layout]], shown: Sequence[int | None]) -> PackedRows:
        packing, pad_id = packing_of(self._assembled), self._assembled.family.pad_id
        there = [(group, media) for group, media in zip(layouts, shown, strict=True) if group]
        kept, media = [group for group, _ in there], [media for _, media in there]
        return packed(kept, media, share_prefix=packing.share_prefix, row_tokens=packing.row_tokens, pad_id=pad_id)

    def _drawn(
        self, batch: PromptBatch, encoded: Encoded | None, device: torch.device
    ) -> tuple[list[list[_Chosen]], list[_Shown]]:
        """Returns the draws that are learnt, for each group; and a draw of each question, whether or not it is."""
        asked = [(each, shown) for group, shown in zip(batch.groups, batch.shown, strict=False) for each in group]
        replies = self._replies(asked, encoded, device, step=batch.step)
        waiting = iter(replies)
        groups = [[each for _ in group for each in self._of_question(next(waiting))] for group in batch.groups]
        return groups, [(shown, draws[0][0]) for (_, shown), draws in zip(asked, replies, strict=True)]

    def _replies(
        self,
        asked: Sequence[tuple[AskedPrompt, int | None]],
        encoded: Encoded | None,
        device: torch.device,
        *,
        step: int,
    ) -> list[list[tuple[Layout, Paid]]]:
        """Returns the draws to each question with what they are paid."""
        settings, rewards = self._settings, self.rewards
        assert rewards is not None
        answerer = LocalAnswerer(
            self._assembled,
            device=device,
            batch_tokens=self._batch_tokens,
            max_new_tokens=settings.max_new_tokens,
            precise=nullcontext,
            temperature=settings.temperature,
            top_p=settings.top_p,
            seed=stable_int(self._seed, "draw", step) >> 1,
        )
        requests = [
            LaidOutRequest(Request(each.question, each.prompt, "generation", repeat=draw), shown, (each.layout,))
            for each, shown in asked
            for draw in range(settings.draws)
        ]
        # A question that stands twice in a step draws alike both times.
        said = {(each.request.question.id, each.request.repeat): each for each in answerer.replies(requests, encoded)}
        found: list[list[tuple[Layout, Paid]]] = []
        for each, _ in asked:
            mine = [said[each.question.id, draw] for draw in range(settings.draws)]
            paid = [
                rewards.of(
                    each.member, each.question, one.prediction, num_tokens=len(one.ids), most=settings.max_new_tokens
                )
                for one in mine
            ]
            for one in paid:
                self.watched.paid(one, patient_id=each.question.patient_id)
            found.append([(replied(each.layout, one.ids), of) for one, of in zip(mine, paid, strict=True)])
        return found

    def _of_question(self, draws: Sequence[tuple[Layout, Paid]]) -> list[_Chosen]:
        totals = [paid.total for _, paid in draws]
        is_flat = max(totals) - min(totals) == 0
        self.watched.add(FLAT, float(is_flat))
        if self._learns == "pairs":
            best, worst = totals.index(max(totals)), totals.index(min(totals))
            return [] if is_flat else [_Chosen(draws[number][0], 0.0) for number in (best, worst)]
        if is_flat and self.start is None:
            return []
        spread = stdev(totals) + ROUNDED if self._settings.scale_rewards == "group" else 1.0
        mean = fmean(totals)
        return [_Chosen(layout, (paid.total - mean) / spread) for layout, paid in draws]

    def _from_known(self, batch: PromptBatch, encoded: Encoded | None, device: torch.device) -> list[list[_Chosen]]:
        """Returns for each question the true answer and the worse reply that the model finds most likely."""
        # Of a single worse reply nothing has to be read.
        several = [[each for each in group if len(each.known) > 2] for group in batch.groups]
        layouts = [[layout for each in group for layout in each.known[1:]] for group in several]
        places: dict[str, int] = {}
        if any(layouts):
            rows = self._packed(layouts, batch.shown[: len(layouts)]).to(device)
            number = sum(map(len, layouts))
            sums = iter(self._assembled.model(rows, encoded).sums(number).tolist())
            for each in (each for group in several for each in group):
                wrong = [next(sums) for _ in each.known[1:]]
                places[each.question.id] = wrong.index(max(wrong))
        return [
            [
                _Chosen(layout, 0.0)
                for each in group
                for layout in (each.known[0], each.known[1 + places.get(each.question.id, 0)])
            ]
            for group in batch.groups
        ]
