"""Measures what it takes to answer questions: some pieces of an evaluation, asked as the run asks them."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from medtune.data.types import MediaGroup
from medtune.eval.asking.answerer import Answerer, ToldAhead
from medtune.eval.asking.ask import visit_answers
from medtune.eval.asking.plan import Visit
from medtune.eval.audit.image_cues import cue_probes, thumbnails_and_greys
from medtune.models.contract import Transform
from medtune.models.media_reader import read_item
from medtune.trainer.experiment.audit import audited_media
from medtune.trainer.experiment.evaluate import LoadedModel
from medtune.trainer.experiment.experiment import Experiment
from medtune.trainer.hours.work import NOTHING, Asking, Chosen, Cost, Pieces, choose, has_cache, together
from medtune.trainer.launch.stop import listening

Clock = Callable[[], float]


@dataclass(frozen=True, slots=True)
class AnsweringTimes:
    """What it took to answer some questions."""

    groups: Pieces
    texts: Pieces  # The measured texts that are read without media.
    num_answers: int  # The number of answers to requests that were measured.

    def all(self, asking: Asking) -> Cost:
        """Returns the cost of everything that one device is asked."""
        return together([self.groups.all(len(asking.mine)), self.texts.all(len(asking.texts))])


def chosen_groups(asking: Asking, *, in_piece: int, pieces: int, seed: int) -> Chosen:
    """Returns the media groups of an evaluation that are measured, spread over the groups by their requests."""
    sizes = [sum(len(visit.requests) for visit in visits) for visits in asking.mine]
    return choose(sizes, in_piece=in_piece, pieces=pieces, seed=seed)


def measured_answers(
    model: LoadedModel, asking: Asking, chosen: Chosen, *, clock: Clock, again: bool
) -> AnsweringTimes:
    """Returns what it takes to answer the questions of the chosen groups.

    Args:
        again: Whether the run has read all media before, so that those that a cache keeps come from the cache.
    """
    recipe = model.experiment.recipe
    visits = [[visit for place in piece for visit in asking.mine[place]] for piece in (chosen.warm_up, *chosen.pieces)]
    per_group = max(1, math.ceil(len(asking.texts) / max(1, len(asking.mine))))
    texts = choose(
        [len(text.prompt.text) for text in asking.texts],
        in_piece=per_group * recipe.eval.batch_size,
        pieces=max(2, len(chosen.pieces)),
        seed=recipe.train.seed,
    )
    shown = [_without_media(asking, places) for places in (texts.warm_up, *texts.pieces)]
    if again and has_cache(model.assembled.transform):
        _fill_cache([visit for piece in visits for visit in piece], model.assembled.transform)
    with listening(at_once=True), model.answering() as answerer:
        took = [_timed(answerer, piece, clock) for piece in visits]
        took_texts = [_timed(answerer, piece, clock) for piece in shown]
    return AnsweringTimes(
        groups=_pieces(chosen, took[1:], of=len(asking.mine)),
        texts=_pieces(texts, took_texts[1:], of=len(asking.texts)),
        num_answers=sum(len(visit.requests) for piece in (*visits[1:], *shown[1:]) for visit in piece),
    )


def _pieces(chosen: Chosen, seconds: Sequence[float], *, of: int) -> Pieces:
    if not of:
        return NOTHING
    units = tuple(map(len, chosen.pieces))
    return Pieces(tuple(seconds), units, 1.0 if chosen.is_all else sum(units) / of)


def _without_media(asking: Asking, places: Sequence[int]) -> list[Visit]:
    if not places:
        return []
    nothing = replace(asking.plan[0][0].shown, media=())
    return [Visit(nothing, tuple(asking.texts[place] for place in places))]


def _timed(answerer: Answerer, visits: Sequence[Visit], clock: Clock) -> float:
    begun = clock()
    if isinstance(answerer, ToldAhead):
        answerer.expect([(visit.shown, visit.requests) for visit in visits])
    for visit in visits:
        for _ in visit_answers(answerer, visit):
            pass
    return clock() - begun


def _fill_cache(visits: Sequence[Visit], transform: Transform) -> None:
    for visit in visits:
        for ref in visit.shown.media:
            read_item(ref, transform)


_READ_IN_PIECE = 4
_ENCODED_IN_PIECE = 16


@dataclass(frozen=True, slots=True)
class Audited:
    num_read: int  # The number of media groups from which cues and thumbnails are read.
    num_encoded: int  # The number of media groups that the vision tower encodes.
    reading: Pieces
    encoding: Pieces

    @property
    def cost(self) -> Cost:
        """The cost of reading and encoding."""
        return together([self.reading.all(self.num_read), self.encoding.all(self.num_encoded)])


NO_AUDIT = Audited(0, 0, NOTHING, NOTHING)
"""The audit of a run without questions that have options."""


def measured_audit(
    experiment: Experiment, model: LoadedModel, groups: Sequence[MediaGroup], *, pieces: int, clock: Clock
) -> Audited:
    """Returns what the audit of a phase takes; fitting its classifiers is not measured."""
    media = audited_media(experiment, groups)
    if not media.asked:
        return NO_AUDIT
    seed = experiment.recipe.train.seed
    read, encoded = [*media.learnt, *media.asked], [*media.encoded, *media.asked] if media.encoded else []
    seen: list[int] = []

    def encode(part: Sequence[MediaGroup]) -> None:
        seen.append(len(model.vision_features(part)))

    def look(part: Sequence[MediaGroup]) -> None:
        cue_probes((), part, (), (), (thumbnails_and_greys(part)[1], {}))

    reading = _measured(look, read, _READ_IN_PIECE, pieces, seed=seed, clock=clock)
    encoding = _measured(encode, encoded, _ENCODED_IN_PIECE, pieces, seed=seed, clock=clock)
    # Without features of the first images, the audit asks for no others.
    asks = any(seen)
    return Audited(len(read), len(encoded) if asks else 0, reading, encoding if asks else NOTHING)


def _measured(
    work: Callable[[Sequence[MediaGroup]], None],
    groups: Sequence[MediaGroup],
    in_piece: int,
    pieces: int,
    *,
    seed: int,
    clock: Clock,
) -> Pieces:
    chosen = choose([len(group.media) for group in groups], in_piece=in_piece, pieces=pieces, seed=seed)
    took = []
    for places in (chosen.warm_up, *chosen.pieces):
        begun = clock()
        if places:
            work([groups[place] for place in places])
        took.append(clock() - begun)
    units = tuple(map(len, chosen.pieces))
    return Pieces(tuple(took[1:]), units, sum(units) / len(groups)) if groups else NOTHING
