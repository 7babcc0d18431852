"""Makes the audit of a run: all rows for which the run has answers."""

from collections.abc import Sequence

from medtune.eval.audit.blindness import blind_rows
from medtune.eval.audit.copying import copying_row
from medtune.eval.audit.frame_order import frame_order_rows
from medtune.eval.audit.guessing import guessing_rows
from medtune.eval.audit.habits import collapse_by_subtype, most_frequent_answer_row, reading_rows
from medtune.eval.audit.naming import naming_rows
from medtune.eval.audit.permutation import permutation_rows
from medtune.eval.audit.probes import Features, Probe, nearest_answers, regression_answers
from medtune.eval.audit.row import Audit, AuditRow, accuracy_row, flagged_if_level
from medtune.eval.audit.subject import Subject
from medtune.eval.passes_text import passes_text

LOOK_ALIKE = "train_answer_copy"
PRIOR_COPY = "question_prior_copy"
LINEAR_PROBE = "linear_probe"


def audit_of(subject: Subject, probes: Sequence[Probe] = ()) -> Audit:
    """Returns the audit, with the model's own accuracy in the first row.

    Args:
        subject: The answers that are audited; a condition that was not asked has no row.
        probes: The answers of simple classifiers of the images; each of them has a row.
    """
    own = accuracy_row(
        "model",
        f"the {subject.phase.replace('_', '-')} model",
        subject.right,
        subject.patients,
        model=None,
        phase=subject.phase,
        note="; ".join(filter(None, [f"answers read by {subject.parser!r}", passes_text(subject.num_passes)])),
    )
    collapse = collapse_by_subtype(subject)
    rows: list[AuditRow | None] = [own, *guessing_rows(subject), *blind_rows(subject)]
    rows += [*frame_order_rows(subject), *permutation_rows(subject), *naming_rows(subject)]
    rows += [flagged_if_level(subject.probe_row(probe)) for probe in probes]
    rows += [_look_alike(subject, probe) for probe in probes if probe.name == "nearest_thumbnail"]
    rows += [_prior_copy(subject), most_frequent_answer_row(subject, collapse), *reading_rows(subject)]
    return Audit(tuple(row for row in rows if row), collapse)


def thumbnail_probes(subject: Subject, train_features: Features, features: Features) -> list[Probe]:
    """Returns the probes "thumbnail_regression" and "nearest_thumbnail"; an empty list without a train split."""
    if not subject.train:
        return []
    where = f"16 x 16 grey pixels, box drawn, of {len(train_features)} train images"
    given = subject.train, train_features, subject.questions, features
    return [
        Probe(
            "thumbnail_regression",
            "logistic regression on thumbnails",
            regression_answers(*given),
            f"one per question set; standardised {where}",
        ),
        Probe(
            "nearest_thumbnail",
            "train answer of the nearest look-alike",
            nearest_answers(*given),
            f"same question, nearest {where}",
        ),
    ]


def feature_probe(subject: Subject, train_features: Features, features: Features) -> list[Probe]:
    """Returns the probe "linear_probe" on features of the model's vision tower; an empty list without a train split."""
    if not subject.train:
        return []
    width = len(next(iter(features.values())))
    return [
        Probe(
            LINEAR_PROBE,
            "logistic regression on the vision features",
            regression_answers(subject.train, train_features, subject.questions, features),
            f"one per question set; {width} standardised features of {len(train_features)} train images",
        )
    ]


def _look_alike(subject: Subject, nearest: Probe) -> AuditRow | None:
    title = "answers that copy the train answer of the nearest look-alike"
    return copying_row(subject, LOOK_ALIKE, title, nearest.answers)


def _prior_copy(subject: Subject) -> AuditRow | None:
    if not subject.learnt:
        return None
    copied = subject.answered(subject.learnt.prior)
    title = "answers that copy the most frequent train answer to the question"
    return copying_row(subject, PRIOR_COPY, title, copied)
