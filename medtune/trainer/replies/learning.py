"""Turns prompts into a pass that learns: draws replies with the weights of the step and pays them, or chooses pairs.

Replies grow on the same trees as in an evaluation, and the sequences that are learnt have the very tokens that were
drawn. All of it is done in evaluation mode and without gradients; the pass that learns comes behind it.

Shape legend: N replies, T target tokens.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from statistics import fmean, stdev
from typing import NamedTuple

import torch

from medtune.data.seeding import stable_int
from medtune.data.types import Question, Request
from medtune.eval.scoring.parse_replies import words_of
from medtune.models.answering import LaidOutRequest, LocalAnswerer, Replied
from medtune.models.contract import Assembled, Encoded, parameters_of_parts
from medtune.models.sequence.builder import Sequence as Layout
from medtune.models.sequence.builder import replied
from medtune.models.sequence.packing import PackedRows
from medtune.models.sharding.lock_step import InTurns, Turns, lock_step
from medtune.trainer.losses import compares_with_start, learns_from, steps_per_draw
from medtune.trainer.recipe.schema import EvalBlock, Stage
from medtune.trainer.replies.judged import DrawJudge, JudgedText
from medtune.trainer.replies.prompts import AskedPrompt, PromptBatch
from medtune.trainer.replies.start_weights import StartWeights
from medtune.trainer.replies.watched import FLAT, Watched
from medtune.trainer.rewards import Paid, WeighedRewards
from medtune.trainer.training.batches import LearntReplies, MicroBatch, packed, packing_of

MOST_SHOWN = 4
"""The draws to a question that are made to be looked at."""
ROUNDED = 1e-4
"""What is added to the standard deviation of a question's rewards. Source: TRL 1.16.0, GRPOTrainer."""

_Shown = tuple[int | None, Layout]
"""The number of the first media item that a sequence shows, None where it shows none; and the sequence."""
_Place = tuple[int, int]
"""The number of a question in a pass, and the number of a draw to it."""


class _Chosen(NamedTuple):
    """A reply that is learnt, with its advantage."""

    layout: Layout
    advantage: float


class PaidDraw(NamedTuple):
    """A reply that was drawn to a question."""

    question: Question
    paid: Paid


class DrawnTo(NamedTuple):
    prompt: AskedPrompt
    shown: int | None  # The number of the first media item that it shows; None where it shows none.
    draws: Sequence[Replied]


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
        judge: Scores the draws to questions that only a judge scores; None where no judge is asked.
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
        self.judge: DrawJudge | None = None
        self.start = StartWeights(assembled.model) if compares_with_start(stage.loss) else None
        self.watched = Watched()

    def learnt(self, batch: PromptBatch, *, device: torch.device, in_turns: InTurns | None) -> MicroBatch:
        """Returns the pass that learns replies to the prompts; every rank has to call it with its own."""
        if batch.is_first:
            found = self._first(batch, device, in_turns)
            self._kept[batch.within] = found
        else:
            found = self._kept[batch.within]
            found = found._replace(replies=found.replies._replace(num_drawn=0))
        return MicroBatch(
            number=batch.number,
            media=batch.media,
            step_target_tokens=len(found.rows.target_id_T),
            step_replies=batch.step_replies,
            num_shown=batch.num_shown,
            question_ids=batch.question_ids,
            **found._asdict(),
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

    def _first(self, batch: PromptBatch, device: torch.device, in_turns: InTurns | None) -> _Learnt:
        model = self._assembled.model
        with self._unchanged():
            with lock_step(model, in_turns=in_turns):
                encoded = None if batch.media is None else model.encode(batch.media)
                said = self._drawn_replies(batch, encoded, device) if self._draws else []
            # Ranks fall into step while they use the model, so that what they exchange otherwise stands between.
            verdicts = self._verdicts(said)
            with lock_step(model, in_turns=in_turns) as turns:
                return self._pass(batch, encoded, said, verdicts, device, turns)

    def _pass(
        self,
        batch: PromptBatch,
        encoded: Encoded | None,
        said: Sequence[DrawnTo],
        verdicts: Mapping[_Place, str | None],
        device: torch.device,
        turns: Turns | None,
    ) -> _Learnt:
        model = self._assembled.model
        spare: list[_Shown] = list(zip(batch.shown[len(batch.groups) :], batch.borrowed, strict=True))
        if self._draws:
            paid = self._paid(said, verdicts)
            self._count(said, paid, verdicts)
            waiting = iter(paid)
            groups = [[chosen for _ in group for chosen in self._of_question(next(waiting))] for group in batch.groups]
            # A pass has to read something, so that all devices run the same layers.
            spare = spare if any(groups) or spare else [(said[0].shown, paid[0][0][0])]
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
        num_drawn = self._settings.draws * len(batch.question_ids) if self._draws else 0
        known = LearntReplies(advantage_N, old_T, start_T, temperature, most, num_drawn)
        teaches = bool(counted) and (self._learns == "pairs" or any(each.advantage for each in counted))
        return _Learnt(rows, len(advantage_N), len(counted), teaches, known)

    def _media_learn(self) -> bool:
        own = parameters_of_parts(self._assembled.model)
        return any(parameter.requires_grad for part in ("vision", "projector") for _, parameter in own[part])

    def _packed(self, layouts: Sequence[Sequence[Layout]], shown: Sequence[int | None]) -> PackedRows:
        packing, pad_id = packing_of(self._assembled), self._assembled.template.pad_id
        there = [(group, media) for group, media in zip(layouts, shown, strict=True) if group]
        kept, media = [group for group, _ in there], [media for _, media in there]
        return packed(kept, media, share_prefix=packing.share_prefix, row_tokens=packing.row_tokens, pad_id=pad_id)

    def _drawn_replies(
        self, batch: PromptBatch, encoded: Encoded | None, device: torch.device, *, most: int | None = None
    ) -> list[DrawnTo]:
        """Returns the questions of the groups that count with the draws to each, at most so many."""
        settings = self._settings
        number = settings.draws if most is None else min(settings.draws, most)
        asked = [(each, shown) for group, shown in zip(batch.groups, batch.shown, strict=False) for each in group]
        answerer = LocalAnswerer(
            self._assembled,
            device=device,
            batch_tokens=self._batch_tokens,
            max_new_tokens=settings.max_new_tokens,
            precise=nullcontext,
            temperature=settings.temperature,
            top_p=settings.top_p,
            seed=stable_int(self._seed, "draw", batch.step) >> 1,
        )
        requests = [
            LaidOutRequest(Request(each.question, each.prompt, "generation", repeat=draw), shown, (each.layout,))
            for each, shown in asked
            for draw in range(number)
        ]
        # Members of a mixture may have questions of one id.
        said = {id(each.request): each for each in answerer.replies(requests, encoded)}
        draws = iter(said[id(each.request)] for each in requests)
        return [DrawnTo(each, shown, [next(draws) for _ in range(number)]) for each, shown in asked]

    def drawn(self, batch: PromptBatch, *, device: torch.device, in_turns: InTurns | None) -> list[PaidDraw]:
        """Returns draws to prompts with what they are paid, which nothing is learnt from and which are not counted.

        Every rank has to call it with the same prompts.
        """
        with self._unchanged():
            with lock_step(self._assembled.model, in_turns=in_turns):
                encoded = None if batch.media is None else self._assembled.model.encode(batch.media)
                said = self._drawn_replies(batch, encoded, device, most=MOST_SHOWN)
            paid = self._paid(said, self._verdicts(said))
        return [PaidDraw(each.prompt.question, one) for each, row in zip(said, paid, strict=True) for _, one in row]

    def _verdicts(self, said: Sequence[DrawnTo]) -> Mapping[_Place, str | None]:
        """Returns the judge's replies to the draws that wait for one; every rank has to call it with its own."""
        if self.judge is None or self.rewards is None:
            return {}
        waiting = {
            (place, number): JudgedText(prompt.member, prompt.question, words_of(one.prediction))
            for place, (prompt, _, draws) in enumerate(said)
            for number, one in enumerate(draws)
            if self.rewards.scores[prompt.member].waits_for_judge(prompt.question, one.prediction)
        }
        return dict(zip(waiting, self.judge.verdicts([*waiting.values()]), strict=True))

    def _paid(self, said: Sequence[DrawnTo], verdicts: Mapping[_Place, str | None]) -> list[list[tuple[Layout, Paid]]]:
        """Returns the draws to each question with what they are paid."""
        rewards, most = self.rewards, self._settings.max_new_tokens
        assert rewards is not None
        found = []
        for place, (prompt, _, draws) in enumerate(said):
            member, question = prompt.member, prompt.question
            paid = [
                rewards.of(member, question, one.prediction, num_tokens=len(one.ids), most=most,
                           verdict=verdicts.get((place, number)))
                for number, one in enumerate(draws)
            ]  # fmt: skip
            found.append([(replied(prompt.layout, one.ids), each) for one, each in zip(draws, paid, strict=True)])
        return found

    def _count(
        self,
        said: Sequence[DrawnTo],
        paid: Sequence[Sequence[tuple[Layout, Paid]]],
        verdicts: Mapping[_Place, str | None],
    ) -> None:
        for verdict in verdicts.values():
            self.watched.add("unjudged", float(verdict is None))
        for each, row in zip(said, paid, strict=True):
            for _, one in row:
                self.watched.paid(one, patient_id=each.prompt.question.patient_id)

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
