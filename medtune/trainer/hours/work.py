"""Counts what one device does in a run, with the code that divides and orders the work of the run.

Of the devices of a run, that of rank 0 is counted, which never has less to do than another.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from medtune.data.types import Condition, MediaGroup, MediaRef, Request
from medtune.eval.asking.plan import ONCE, Visit, plan_visits
from medtune.models.contract import Transform
from medtune.models.media_reader import unchanged
from medtune.models.volumes.volume_parts import VolumeInput
from medtune.trainer.experiment.experiment import Experiment
from medtune.trainer.training.batches import MicroBatches
from medtune.trainer.training.callbacks.checkpoints import is_validated
from medtune.trainer.training.stages import PlannedStage
from medtune.trainer.training.states.saving import is_saved


@dataclass(frozen=True, slots=True)
class Asking:
    """What is asked in an evaluation.

    Attributes:
        plan: All visits of all devices, by media group.
        mine: The visits of one device, by media group, without the requests in `texts`.
        texts: The requests of one device that show nothing and read likelihoods, one for each text: a text that comes
            again is not read again.
    """

    plan: Sequence[tuple[Visit, ...]]
    mine: Sequence[tuple[Visit, ...]]
    texts: Sequence[Request]

    @property
    def questions(self) -> int:
        """The number of questions, each counted once, on all devices."""
        return len({request.question.id for request in self.requests})

    @property
    def requests(self) -> list[Request]:
        """All requests of all devices."""
        return [request for visits in self.plan for visit in visits for request in visit.requests]


def asking(
    experiment: Experiment,
    groups: Sequence[MediaGroup],
    conditions: Sequence[Condition],
    *,
    world_size: int,
    repeats: Mapping[Condition, int] = ONCE,
) -> Asking:
    """Returns what an evaluation asks; the arguments are those of `evaluate_phase`, and the number of devices."""
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
    """Returns the number of validations of a stage."""
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
            fresh = [] if batches.is_blind(draw) else [ref for ref in group.media if changed or ref not in seen]
            number += len(fresh) if step in steps else 0
            seen.update(() if changed else fresh)
    return number


def has_cache(transform: Transform) -> bool:
    """Returns whether volumes are kept in the form that the model reads once they were read from their files."""
    return isinstance(transform, VolumeInput) and transform.cache is not None
