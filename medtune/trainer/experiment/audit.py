"""The audit of a run's last phase: from the answers on disk, and with what the model says when asked again."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from tqdm import tqdm

from medtune.data.types import MediaGroup, Prediction, Reading
from medtune.eval.asking.ask import audited
from medtune.eval.audit.probes import drawn, thumbnails
from medtune.eval.audit.row import Audit, audit_text
from medtune.eval.audit.run_rows import LINEAR_PROBE, audit_of, feature_probe, thumbnail_probes
from medtune.eval.audit.subject import is_choice, subject_of
from medtune.eval.predictions.shards import MERGED, stored_predictions
from medtune.eval.results.build import audit_file
from medtune.eval.results.schema import AuditFile
from medtune.eval.results.typed_json import read_json, write_document
from medtune.eval.scoring.parse_replies import LIKELIHOOD, PER_TOKEN
from medtune.models.endpoint.served import Served
from medtune.models.read_media import read_item
from medtune.models.vlm import Assembled
from medtune.trainer.experiment.evaluate import Experiment, answer_groups, primary_parser
from medtune.trainer.experiment.run_folder import RunFolder

MAX_THUMBNAILS = 5000
"""Train images that the thumbnails are made of: some seconds on one core."""
MAX_PROBED_IMAGES = 1200
"""Train images that the linear probe learns from: the vision tower has to encode each of them."""
_IMAGES_AT_ONCE = 16


@dataclass(frozen=True)
class AnsweredPhase:
    """The phase of a run that is audited.

    Attributes:
        name: "final" or "zero_shot".
        groups: Those of whose questions any was answered.
    """

    name: str
    groups: tuple[MediaGroup, ...]
    predictions: tuple[Prediction, ...]


def answered_phase(experiment: Experiment, folder: RunFolder) -> AnsweredPhase:
    """Returns a run's last phase as it lies on disk.

    Raises:
        FileNotFoundError: The run has answered nothing yet.
        ValueError: The prepared folder is another one than the run saw.
    """
    done = [phase for phase in (folder.final, folder.zero_shot) if (phase / MERGED).is_file()]
    if not done:
        raise FileNotFoundError(f"{folder.root}: no {MERGED} in final/ or zero_shot/; finish the run first")
    saw = json.loads((folder.root / "environment.json").read_text("utf-8"))["data_hash"]
    if saw != experiment.prepared.data_hash:
        raise ValueError(
            f"{experiment.prepared.root} holds other data (hash {experiment.prepared.data_hash[:16]}) than the run saw "
            f"({saw[:16]}); put the run's prepared folder there"
        )
    predictions = tuple(stored_predictions(done[0]).values())
    asked = {prediction.key.question_id for prediction in predictions}
    groups = experiment.prepared.groups(experiment.recipe.eval.split)
    chosen = tuple(group for group in groups if any(question.id in asked for question in group.questions))
    return AnsweredPhase(done[0].name, chosen, predictions)


def audit_without_asking(experiment: Experiment, folder: RunFolder, model: Assembled | Served) -> str:
    """Writes audit.json with the rows that need no new answers, unless the phase has one; returns what to say."""
    phase = answered_phase(experiment, folder)
    if not _has_choices(phase):
        return "audit: no question has options, so nothing could be guessed"
    if folder.audit.is_file() and _audited_phase(folder.audit) == phase.name:
        return f"audit: {folder.audit}"
    audit = _audit(experiment, phase, (), model)
    write_document(folder.audit, audit_file(audit, experiment.label))
    flags = [f"  {row.title}: {row.flag}" for row in audit.flagged]
    more = f"`medtune audit {folder.root}` asks the model for the others"
    said = f"audit: {folder.audit}, {len(audit.rows)} rows, {len(flags)} flagged; {more}"
    return "\n".join([said, *flags, *_left_out(experiment, audit)])


def audit_with_model(experiment: Experiment, folder: RunFolder, phase: AnsweredPhase, model: Assembled | Served) -> str:
    """Asks the model what the phase did not, writes audit.json and returns its table.

    Raises:
        ValueError: No question has options.
    """
    if not _has_choices(phase):
        raise ValueError(f"{folder.root}: no question has options; an audit asks whether answers could be guessed")
    reading = _reading(experiment)
    asked = {prediction.key.condition for prediction in phase.predictions if prediction.key.reading == reading}
    conditions = [condition for condition in audited(phase.groups) if condition not in asked]
    answers: Sequence[Prediction] = ()
    if conditions:
        answers = answer_groups(
            experiment,
            model,
            phase.groups,
            out_dir=folder.audit_answers,
            readings=[reading],
            conditions=conditions,
            title="audit",
        )
    audit = _audit(experiment, phase, answers, model)
    write_document(folder.audit, audit_file(audit, experiment.label))
    text = audit_text(audit, title=f"Audit of {folder.root} ({phase.name.replace('_', '-')})")
    return "\n".join([text, *experiment.label.notes(), *_left_out(experiment, audit)])


@torch.no_grad()
def vision_features(assembled: Assembled, groups: Sequence[MediaGroup]) -> dict[str, NDArray[np.float32]]:
    """Returns media id -> the vision tower's features of the image with its boxes drawn, all tokens in one row.

    Empty for a model whose images differ in how many features they have.
    """
    model, transform = assembled.model, assembled.transform
    found: dict[str, NDArray[np.float32]] = {}
    was_training = model.training
    model.eval()
    for start in tqdm(range(0, len(groups), _IMAGES_AT_ONCE), desc="probe", unit="batch"):
        batch = groups[start : start + _IMAGES_AT_ONCE]
        features_MX = model.features(transform.stack([read_item(group.media, transform) for group in batch]))
        if features_MX is None:
            break
        found.update(zip((group.media_id for group in batch), features_MX.float().cpu().numpy(), strict=True))
    model.train(was_training)
    return found


def _audit(
    experiment: Experiment, phase: AnsweredPhase, answers: Sequence[Prediction], model: Assembled | Served
) -> Audit:
    subject = subject_of(
        phase.name,
        [question for group in phase.groups for question in group.questions],
        [*phase.predictions, *answers],
        experiment.benchmark,
        parser=primary_parser(experiment.recipe, experiment.benchmark),
        train=experiment.prepared.questions("train"),
    )
    train = [group for group in experiment.prepared.groups("train") if any(map(is_choice, group.questions))]
    groups = [group for group in phase.groups if any(map(is_choice, group.questions))]
    seed = experiment.recipe.train.seed
    small = [thumbnails(part) for part in (drawn(train, at_most=MAX_THUMBNAILS, seed=seed), groups)]
    probes = thumbnail_probes(subject, small[0], small[1])
    if train and isinstance(model, Assembled):
        probed = drawn(train, at_most=MAX_PROBED_IMAGES, seed=seed)
        seen = [vision_features(model, part) for part in (probed, groups)]
        probes += feature_probe(subject, seen[0], seen[1]) if all(seen) else []
    return audit_of(subject, probes)


def _left_out(experiment: Experiment, audit: Audit) -> list[str]:
    if not any(map(is_choice, experiment.prepared.questions("train"))) or LINEAR_PROBE in [
        row.name for row in audit.rows
    ]:
        return []
    if experiment.recipe.model.endpoint is not None:
        return [f"  no {LINEAR_PROBE}: the vision tower is behind the endpoint"]
    return [f"  no {LINEAR_PROBE}: images differ in how many features this model's vision tower gives"]


def _has_choices(phase: AnsweredPhase) -> bool:
    return any(is_choice(question) for group in phase.groups for question in group.questions)


def _reading(experiment: Experiment) -> Reading:
    parser = primary_parser(experiment.recipe, experiment.benchmark)
    return "likelihood" if parser in (LIKELIHOOD, PER_TOKEN) else "generation"


def _audited_phase(path: Path) -> str:
    return read_json(path, AuditFile).rows[0].phase
