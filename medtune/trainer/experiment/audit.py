"""Audits the last phase of a run: how far its answers could have been guessed without looking at the image.

The audit uses the answers on disk, and where it needs others it asks the model again.
"""

from collections.abc import Sequence

from medtune.data.types import Prediction, Reading
from medtune.eval.asking.conditions import audit_conditions
from medtune.eval.audit.audited_phase import is_choice
from medtune.eval.audit.row import Audit
from medtune.eval.audit.run_rows import LINEAR_PROBE, audit_of, feature_probe
from medtune.eval.audit.text import audit_text
from medtune.eval.results.build import audit_file
from medtune.eval.results.schema import AuditFile
from medtune.eval.results.typed_json import read_json, write_document
from medtune.eval.scoring.parse_replies import LIKELIHOOD, PER_TOKEN
from medtune.trainer.experiment.evaluate import AskedModel, answer_groups
from medtune.trainer.experiment.experiment import Experiment
from medtune.trainer.runs.audited import AnsweredPhase, answered_phase, audited, audited_media, image_probes


def audit_without_asking(experiment: Experiment, model: AskedModel) -> str:
    """Writes audit.json with the rows that need no new answers, and returns a message for the user.

    Nothing is written if audit.json describes this phase already, or if no question has options.
    """
    phase, folder = answered_phase(experiment), experiment.folder
    if not _has_choices(phase):
        return "audit: no question has options, so nothing could be guessed"
    if folder.audit.is_file() and read_json(folder.audit, AuditFile).rows[0].phase == phase.name:
        return f"audit: {folder.audit}"
    audit = _audit(experiment, phase, (), model)
    write_document(folder.audit, audit_file(audit, experiment.label))
    flags = [f"  {row.title}: {row.flag}" for row in audit.flagged]
    more = f"`medtune audit {folder.root}` asks the model for the others"
    said = f"audit: {folder.audit}, {len(audit.rows)} rows, {len(flags)} flagged; {more}"
    return "\n".join([said, *flags, *_left_out(experiment, audit)])


def audit_with_model(experiment: Experiment, phase: AnsweredPhase, model: AskedModel) -> str:
    """Asks the model under the conditions that the phase left out, writes audit.json and returns its table as text."""
    folder = experiment.folder
    if not _has_choices(phase):
        raise ValueError(f"{folder.root}: no question has options; an audit asks whether answers could be guessed")
    parser = experiment.primary_parser
    reading: Reading = "likelihood" if parser in (LIKELIHOOD, PER_TOKEN) else "generation"
    asked = {prediction.key.condition for prediction in phase.predictions if prediction.key.reading == reading}
    conditions = [condition for condition in audit_conditions(phase.groups) if condition not in asked]
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


def _audit(experiment: Experiment, phase: AnsweredPhase, answers: Sequence[Prediction], model: AskedModel) -> Audit:
    subject, read = audited(experiment, phase, answers), audited_media(experiment, phase.groups)
    probes = image_probes(subject, read)
    if read.encoded:
        seen = [model.vision_features(part) for part in (read.encoded, read.asked)]
        probes += feature_probe(subject, seen[0], seen[1]) if all(seen) else []
    return audit_of(subject, probes)


def _left_out(experiment: Experiment, audit: Audit) -> list[str]:
    if not any(map(is_choice, experiment.prepared.questions("train"))) or LINEAR_PROBE in [
        row.name for row in audit.rows
    ]:
        return []
    if experiment.recipe.model.endpoint is not None:
        return [f"  no {LINEAR_PROBE}: the vision tower is behind the endpoint"]
    if experiment.recipe.train.divides_weights:
        return [f"  no {LINEAR_PROBE}: no device holds the whole vision tower ({experiment.recipe.train.strategy})"]
    return [f"  no {LINEAR_PROBE}: images differ in how many features this model's vision tower gives"]


def _has_choices(phase: AnsweredPhase) -> bool:
    return any(is_choice(question) for group in phase.groups for question in group.questions)
