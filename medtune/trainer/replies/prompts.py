"""Makes the batches of prompts to which a step's replies are drawn, or whose options are compared."""

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from medtune.data.types import REJECTED, MediaGroup, Prompt, Question
from medtune.models.contract import MediaBatch
from medtune.models.sequence.builder import Sequence as Layout
from medtune.trainer.losses import learns_from, steps_per_draw
from medtune.trainer.recipe.replies import Pairs
from medtune.trainer.recipe.schema import Stage
from medtune.trainer.training.batches import MicroBatches
from medtune.trainer.training.sampling import Draw

NUM_SHOWN = 4
"""The number of questions whose draws are shown."""
_MOST_LOOKED_AT = 64


class AskedPrompt(NamedTuple):
    """A question of which replies are learnt."""

    member: int  # The number of its training set in the mixture.
    question: Question
    prompt: Prompt
    layout: Layout  # The sequence of the prompt, without an answer.
    known: tuple[Layout, ...]  # With the true answer, then with each worse one; empty where replies are drawn.


class PromptBatch(NamedTuple):
    """The prompts of one forward pass on one device, before there are replies to them."""

    number: int  # The running number of the forward pass on its device.
    within: int  # The number of the pass within its step.
    step: int  # The step at which the replies are drawn.
    is_first: bool  # Whether it is this step; otherwise the draws of a step before are learnt once more.
    groups: tuple[tuple[AskedPrompt, ...], ...]
    borrowed: tuple[Layout, ...]  # A sequence of each borrowed group, with its true answer.
    shown: tuple[int | None, ...]  # The number of the first media item of each group; borrowed ones stand last.
    media: MediaBatch
    step_replies: int  # The number of replies in the whole step, over all devices and forward passes.
    num_shown: int  # The number of groups that count and are shown with their media.
    question_ids: tuple[str, ...]


class PromptMaker:
    """Makes a stage's batches of prompts; as the `make` of MicroBatches, it runs in the processes that load data.

    Each question of the mixture has to have a pair, if the stage learns pairs.
    """

    def __init__(self, stage: Stage) -> None:
        learns = learns_from(stage.loss)
        self._pairs = pairs_of(stage)
        self._replies = stage.replies.draws if learns == "draws" else 2
        self._steps_per_draw = steps_per_draw(stage)

    def __call__(self, batches: MicroBatches, number: int) -> PromptBatch:
        sequences, order = batches.sequences, batches.order
        step, within = divmod(number, order.accumulate)
        whole = order.step_groups(step)
        mine = order.micro_batch(step, within, batches.rank)
        groups = tuple(asked_prompts(batches, draw, self._pairs) for draw in mine)
        borrowed = batches.borrowed(mine, whole)
        shown, media = batches.shown((*mine, *borrowed))
        drawn_at, learnt_before = divmod(step, self._steps_per_draw)
        return PromptBatch(
            number=number,
            within=within,
            step=drawn_at * self._steps_per_draw,
            is_first=learnt_before == 0,
            groups=groups,
            borrowed=tuple(sequences.layouts(draw)[0] for draw in borrowed),
            shown=tuple(shown),
            media=media,
            step_replies=self._replies * sum(len(batches.mixture.group(draw).questions) for draw in whole),
            num_shown=sum(not sequences.is_blind(draw) for draw in mine),
            question_ids=tuple(asked.question.id for group in groups for asked in group),
        )


def asked_prompts(batches: MicroBatches, draw: Draw, pairs: Pairs | None) -> tuple[AskedPrompt, ...]:
    """Returns the prompts of a drawn group's questions, with the replies of their pairs that stand in the data."""
    mixture, sequences = batches.mixture, batches.sequences
    group, shapes = mixture.group(draw), sequences.shapes(draw)
    render = mixture.members[draw.member].render
    found = []
    for question in group.questions:
        prompt = render(question)
        texts = known_replies(question, prompt, pairs)
        layout, *known = [sequences.layout(group, question, prompt, text, shapes) for text in (None, *texts)]
        found.append(AskedPrompt(draw.member, question, prompt, layout, tuple(known)))
    return tuple(found)


def shown_prompts(batches: MicroBatches, *, step: int) -> PromptBatch:
    """Returns the prompts whose draws are shown as a training goes on: of the first groups, one question of each."""
    row, groups = batches.mixture.row(), list[Draw]()
    for draw in map(row.__getitem__, range(_MOST_LOOKED_AT)):
        if all((draw.member, draw.group) != (each.member, each.group) for each in groups):
            groups.append(draw)
        if len(groups) == NUM_SHOWN:
            break
    shown, media = batches.shown(groups)
    asked = tuple(asked_prompts(batches, draw, None)[:1] for draw in groups)
    return PromptBatch(
        number=0,
        within=0,
        step=step,
        is_first=True,
        groups=asked,
        borrowed=(),
        shown=tuple(shown),
        media=media,
        step_replies=0,
        num_shown=len(groups),
        question_ids=tuple(each.question.id for group in asked for each in group),
    )


def pairs_of(stage: Stage) -> Pairs | None:
    """Returns the pairs that a stage learns; None where it learns none."""
    return stage.replies.pairs if learns_from(stage.loss) == "pairs" else None


def has_pair(question: Question, pairs: Pairs | None) -> bool:
    """Returns whether a question has a worse reply of this kind, or needs none."""
    if pairs == "options":
        return len(question.options) > 1
    return pairs != "rejected" or bool(question.printed.get(REJECTED))


def known_replies(question: Question, prompt: Prompt, pairs: Pairs | None) -> tuple[str, ...]:
    """Returns the true answer and the worse replies that stand in the data; none where replies are drawn."""
    if pairs == "options":
        wrong = (
            said for option, said in zip(question.options, prompt.choices, strict=True) if option != question.answer
        )
        return (prompt.target, *wrong)
    return (prompt.target, question.printed[REJECTED]) if pairs == "rejected" else ()


def paired(groups: Sequence[MediaGroup], pairs: Pairs | None) -> list[MediaGroup]:
    """Returns the groups with those of their questions that have a pair, without groups that have none."""
    kept = [tuple(question for question in group.questions if has_pair(question, pairs)) for group in groups]
    return [replace(group, questions=asked) for group, asked in zip(groups, kept, strict=True) if asked]
