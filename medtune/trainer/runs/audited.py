"""What an audit of a run is made of, without its model: the answers on disk, and the media that its probes read."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from medtune.data.prepared.read import Prepared
from medtune.data.types import MediaGroup, Prediction
from medtune.eval.audit.audited_phase import AuditedPhase, is_choice, subject_of
from medtune.eval.audit.image_cues import MAX_IMAGES, cue_probes, most_read, thumbnails_and_greys
from medtune.eval.audit.probes import Probe, drawn
from medtune.eval.audit.run_rows import thumbnail_probes
from medtune.eval.benchmark import Benchmark
from medtune.eval.predictions.files import MERGED
from medtune.eval.predictions.shards import stored_predictions
from medtune.trainer.recipe.schema import Recipe
from medtune.trainer.runs.run_folder import RunFolder

MAX_PROBED_IMAGES = 1200
"""The largest number of train images that the linear probe learns from; the vision tower has to encode each one."""


class AuditedRun(Protocol):
    """A run that was opened with its model or without."""

    @property
    def recipe(self) -> Recipe: ...
    @property
    def prepared(self) -> Prepared: ...
    @property
    def benchmark(self) -> Benchmark: ...
    @property
    def folder(self) -> RunFolder: ...
    @property
    def primary_parser(self) -> str: ...


@dataclass(frozen=True)
class AnsweredPhase:
    name: str  # "final" or "zero_shot".
    groups: tuple[MediaGroup, ...]  # The media groups with at least one answered question.
    predictions: tuple[Prediction, ...]  # The answers of the phase, as they are on disk.


def answered_phase(run: AuditedRun) -> AnsweredPhase:
    """Returns the last phase of a run, read from its folder."""
    folder = run.folder
    done = [phase for phase in (folder.final, folder.zero_shot) if (phase / MERGED).is_file()]
    if not done:
        raise FileNotFoundError(f"{folder.root}: no {MERGED} in final/ or zero_shot/; finish the run first")
    predictions = tuple(stored_predictions(done[0]).values())
    asked = {prediction.key.question_id for prediction in predictions}
    groups = run.prepared.groups(run.recipe.eval.split)
    chosen = tuple(group for group in groups if any(question.id in asked for question in group.questions))
    return AnsweredPhase(done[0].name, chosen, predictions)


class AuditedMedia(NamedTuple):
    """The media groups that the probes of an audit read, each of which has a question with options."""

    learnt: Sequence[MediaGroup]  # Those of the train split from which cues and thumbnails are learnt.
    encoded: Sequence[MediaGroup]  # Those of the train split that the vision tower encodes.
    asked: Sequence[MediaGroup]  # Those of the audited phase, of which all are read and encoded.


def audited_media(run: AuditedRun, groups: Sequence[MediaGroup]) -> AuditedMedia:
    """Returns the media that the probes of an audit read."""
    train = [group for group in run.prepared.groups("train") if any(map(is_choice, group.questions))]
    seed = run.recipe.train.seed
    return AuditedMedia(
        learnt=drawn(train, at_most=most_read(train, images=MAX_IMAGES), seed=seed),
        encoded=drawn(train, at_most=most_read(train, images=MAX_PROBED_IMAGES), seed=seed),
        asked=[group for group in groups if any(map(is_choice, group.questions))],
    )


def audited(run: AuditedRun, phase: AnsweredPhase, answers: Sequence[Prediction]) -> AuditedPhase:
    """Returns the phase with the answers that the audit asked for."""
    return subject_of(
        phase.name,
        [question for group in phase.groups for question in group.questions],
        [*phase.predictions, *answers],
        run.benchmark,
        parser=run.primary_parser,
        train=run.prepared.questions("train"),
    )


def image_probes(subject: AuditedPhase, read: AuditedMedia) -> list[Probe]:
    (small, greys), (small_asked, greys_asked) = (thumbnails_and_greys(part) for part in (read.learnt, read.asked))
    return [
        *cue_probes(subject.train, read.learnt, subject.questions, read.asked, (greys, greys_asked)),
        *thumbnail_probes(subject, small, small_asked),
    ]
