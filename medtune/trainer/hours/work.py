"""Counts what one device does in a run, with the code that divides and orders the work of the run.

Of the devices of a run, that of rank 0 is counted, which never has less to do than another.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from medtune.data.types import Condition, MediaGroup, MediaRef, Request
from medtune.eval.asking.plan import ONCE, Visit, plan_visits
from medtune.eval.statistics.intervals import t_quantile
from medtune.models.contract import Transform
from medtune.models.media_reader import unchanged
from medtune.models.volumes.volume_parts import VolumeInput
from medtune.trainer.experiment.experiment import Experiment
from medtune.trainer.training.batches import MicroBatches
from medtune.trainer.training.checkpoints import is_saved, is_validated
from medtune.trainer.training.stages import PlannedStage


@dataclass(frozen=True, slots=True)
class Asking:
    """What is asked in an evaluation."""

    plan: Sequence[tuple[Visit, ...]]  # All visits of all devices, by media group.
    mine: Sequence[tuple[Visit, ...]]  # The visits of one device, by media group, without the requests in `texts`.
    # The requests of one device that show nothing and read likelihoods, one for each text: a text that comes again is
    # not read again.
    texts: Sequence[Request]

    @property
    def questions(self) -> int:
        """The number of questions, each counted once, on all devices."""
        return len({request.question.id for request in self.requests})

    @property
    def requests(self) -> list[Request]:
        return [request for visits in self.plan for visit in visits for request in visit.requests]


def asking(
    experiment: Experiment,
    groups: Sequence[MediaGroup],
    conditions: Sequence[Condition],
    *,
    world_size: int,
    repeats: Mapping[Condition, int] = ONCE,
) -> Asking:
    """Returns what an evaluation asks; the arguments are those of `answer_groups`, and the number of devices."""
    recipe = experiment.recipe
    plan = plan_visits(
        groups,
        experiment.benchmark,
        answer_format=recipe.model.answer_format,
        readings=recipe.eval.known_readings,
        conditions=conditions,
        seed=recipe.train.seed,
        repeats=repeats,
    )
    return asking_of(plan, world_size=world_size)


def asking_of(plan: Sequence[tuple[Visit, ...]], *, world_size: int) -> Asking:
    """Returns what a plan asks of one of several devices."""
    mine, texts = [], dict[tuple[object, ...], Request]()
    for visits in plan[::world_size]:
        for visit in visits:
            for request in visit.requests:
                if _is_text(request, visit):
                    prompt = request.prompt
                    texts.setdefault((prompt.text, prompt.choices, request.question.turns), request)
        mine.append(
            tuple(
                replace(visit, requests=kept)
                for visit in visits
                if (kept := tuple(request for request in visit.requests if not _is_text(request, visit)))
            )
        )
    return Asking(plan, mine, tuple(texts.values()))


def _is_text(request: Request, visit: Visit) -> bool:
    return request.reading == "likelihood" and (request.condition == "text_only" or not visit.shown.media)


def num_validations(planned: PlannedStage, *, every_steps: int) -> int:
    last = planned.stage.steps
    return sum(is_validated(step, every_steps=every_steps, last=last) for step in range(1, last + 1))


def num_further_states(planned: PlannedStage, *, every_steps: int, saved_every: int | None) -> int:
    """Returns the number of states of a stage that are saved by the number of steps and not after a validation."""
    last = planned.stage.steps
    return sum(
        is_saved(planned.first_step + step, every_steps=saved_every)
        and not is_validated(step, every_steps=every_steps, last=last)
        for step in range(1, last + 1)
    )


def volumes_from_files(batches: MicroBatches, steps: range) -> int:
    """Returns how many volumes all devices together read from their files in these steps, and not from the cache.

    Those are the volumes that no earlier step has read, and those that training changes, which the cache does not hold.
    Where there is no cache, it is 0: every step then costs what every other one costs.
    """
    if not has_cache(batches.transform):
        return 0
    seen, number = set[MediaRef](), 0
    for step in range(steps.stop):
        for draw in batches.order.step_groups(step):
            group = batches.mixture.group(draw)
            changed = batches.mixture.change(draw, group) is not unchanged
            fresh = (
                [] if batches.sequences.is_blind(draw) else [ref for ref in group.media if changed or ref not in seen]
            )
            number += len(fresh) if step in steps else 0
            seen.update(() if changed else fresh)
    return number


def has_cache(transform: Transform) -> bool:
    """Returns whether volumes are kept in the form that the model reads once they were read from their files."""
    return isinstance(transform, VolumeInput) and transform.cache is not None


@dataclass(frozen=True, slots=True)
class Chosen:
    """The items that are measured, by their places among all."""

    warm_up: tuple[int, ...]  # Those that are done first and not counted.
    pieces: tuple[tuple[int, ...], ...]  # Those that are measured, piece by piece.
    is_all: bool


def choose(sizes: Sequence[int], *, in_piece: int, pieces: int, seed: int) -> Chosen:
    """Returns pieces that are spread evenly over the items, from the smallest to the largest.

    The items are taken in the order of their sizes at equal distances from a drawn start, so that each has the same
    chance to be measured, and dealt out to the pieces in turn. The mean over the measured ones therefore estimates the
    mean over all without bias, and the pieces differ as far as chance lets them. Few items are all measured, in their
    own order and without a warm-up.

    Args:
        pieces: Number of measured pieces, at least 2; one more is the warm-up.

    >>> choose([1] * 5, in_piece=2, pieces=3, seed=0)
    Chosen(warm_up=(), pieces=((0, 1), (2, 3), (4,)), is_all=True)
    >>> few = choose(range(100), in_piece=2, pieces=3, seed=0)
    >>> len(few.warm_up), [len(piece) for piece in few.pieces], few.is_all
    (2, [2, 2, 2], False)

    Source: Systematic sampling with a fractional interval and interpenetrating subsamples: Cochran, Sampling Techniques
    (1977), chapter 8.
    """
    wanted = in_piece * (pieces + 1)
    if len(sizes) <= wanted:
        whole = range(len(sizes))
        return Chosen((), tuple(tuple(whole[at : at + in_piece]) for at in whole[::in_piece]), True)
    draw = np.random.default_rng(seed)
    by_size = sorted(range(len(sizes)), key=lambda place: (sizes[place], place))
    start, turn = float(draw.random()), int(draw.integers(pieces + 1))
    taken = [by_size[math.floor((start + number) * len(sizes) / wanted)] for number in range(wanted)]
    dealt = [tuple(sorted(taken[(turn + place) % (pieces + 1) :: pieces + 1])) for place in range(pieces + 1)]
    return Chosen(dealt[0], tuple(dealt[1:]), False)


@dataclass(frozen=True, slots=True)
class Cost:
    """Seconds of some work."""

    seconds: float
    half_s: float = 0.0  # Half the width of its 95 % interval; 0 where all of the work was measured.

    def times(self, factor: float) -> Cost:
        return Cost(self.seconds * factor, self.half_s * factor)


def together(costs: Iterable[Cost]) -> Cost:
    """Returns the cost of several works, which were measured independently of one another.

    >>> together([Cost(10, 3), Cost(20, 4)])
    Cost(seconds=30, half_s=5.0)
    """
    each = list(costs)
    return Cost(sum(cost.seconds for cost in each), math.hypot(*(cost.half_s for cost in each)))


@dataclass(frozen=True, slots=True)
class Pieces:
    """Work that was measured in pieces."""

    seconds: tuple[float, ...]  # The seconds of each piece.
    units: tuple[int, ...]  # The number of units in each piece, e.g. of images.
    share: float = 0.0  # The share of all units that the pieces hold; 1 if nothing is left to be estimated.

    @property
    def rates_s(self) -> list[float]:
        """The seconds of a unit in each piece."""
        return [seconds / units for seconds, units in zip(self.seconds, self.units, strict=True)]

    @property
    def unit(self) -> Cost:
        """The cost of a unit: the ratio of the sums, with the t interval of the pieces' deviations from it.

        >>> Pieces((2.0, 4.0), (1, 1)).unit.seconds
        3.0
        """
        number, units = len(self.seconds), sum(self.units)
        if not units:
            return Cost(0.0)
        mean = sum(self.seconds) / units
        if number < 2 or self.share >= 1:
            return Cost(mean)
        apart = sum((s - mean * n) ** 2 for s, n in zip(self.seconds, self.units, strict=True))
        error = math.sqrt(apart / (number * (number - 1)) * max(0.0, 1 - self.share)) * number / units
        return Cost(mean, t_quantile(number - 1) * error)

    def all(self, units: float) -> Cost:
        """Returns the cost of so many units; what was measured as a whole is not scaled."""
        is_whole = self.share >= 1 and units == sum(self.units)
        return Cost(sum(self.seconds)) if is_whole else self.unit.times(units)


NOTHING = Pieces((), (), 1.0)
"""No work."""
