"""Makes the audit of a run: all rows for which the run has answers.

Audit rows about answers that the model copies from the train split.

Copying shows on questions whose copied answer is wrong: a model that looks at the image has no reason to prefer that
wrong answer to the others.
"""

from collections.abc import Sequence
from dataclasses import replace
from statistics import fmean

from medtune.data.grouping import grouped
from medtune.data.types import Condition
from medtune.eval.audit.audited_phase import AuditedPhase, rights_in
from medtune.eval.audit.habits import (
    GUESSING,
    collapse_by_subtype,
    guessing_rows,
    most_frequent_answer_row,
    reading_rows,
)
from medtune.eval.audit.probes import Features, Probe, nearest_answers, regression_answers
from medtune.eval.audit.row import (
    BETTER,
    IMAGE_WORDS,
    NOT_BEATEN,
    ORDER_WORDS,
    Audit,
    AuditRow,
    accuracy_row,
    flagged,
    flagged_if_level,
    ids_of,
)
from medtune.eval.metric import ParsedReply, passes_text
from medtune.eval.statistics import intervals

LEAK_MARGIN = 0.10
"""How far the accuracy without the image may lie above the question prior. Our demo is accepted with this margin."""
PROMPT_LEAK = "prompt_leak"

_BLIND: dict[Condition, tuple[str, str]] = {
    "text_only": ("the same model without the image", "the prompt has no image at all"),
    "blank_image": ("the same model with a black image", "black, without boxes"),
    "other_image": ("the same model with another patient's image", "of the same kind, red box included"),
}

SHUFFLED = "shuffled_frames"
NAMED_SHARE = 0.9
"""The accuracy that a model which can use the answer format should reach. The value is our own choice."""
LOOK_ALIKE = "train_answer_copy"
PRIOR_COPY = "question_prior_copy"
LINEAR_PROBE = "linear_probe"


def blind_rows(subject: AuditedPhase) -> list[AuditRow]:
    """Returns the rows "text_only", "blank_image" and "other_image" if they were asked, and "prompt_leak".

    Use of the image is shown where the interval of the difference lies above 0 (`audit_of`). The row "prompt_leak"
    exists if "text_only" was asked. Its value is the accuracy without any image minus the accuracy of the question
    prior, or of guessing if that is higher or there is no train split. It is flagged if the whole interval lies above
    `LEAK_MARGIN`, because the model then finds the answer in the prompt.
    """
    rows = []
    for condition, (title, note) in _BLIND.items():
        seen = subject.seen(condition)
        if seen is None:
            continue
        right = rights_in(seen)
        rows.append(
            accuracy_row(condition, title, right, subject.patients, model=subject.right, phase=subject.phase, note=note)
        )
        if condition == "text_only":
            rows.append(_prompt_leak(subject, right))
    return rows


def _prompt_leak(subject: AuditedPhase, right: list[float]) -> AuditRow:
    learnt = subject.learnt
    floor = [1 / len(question.options) for question in subject.questions]
    floor_name = "guessing"
    if learnt:
        prior = subject.right_of(subject.answered(learnt.prior))
        if sum(prior) > sum(floor):
            floor, floor_name = prior, "the question prior"
    above = intervals.gain_interval(floor, right, subject.patients)
    value = (sum(right) - sum(floor)) / len(right)
    leaks = above.low > LEAK_MARGIN
    return AuditRow(
        PROMPT_LEAK,
        f"without the image, above {floor_name}",
        subject.phase,
        "accuracy difference",
        value,
        len(right),
        above,
        flag="the answer can be read from the prompt" if leaks else None,
        note=f"accuracy of text_only minus that of {floor_name}, paired by question",
    )


def copying_row(subject: AuditedPhase, name: str, title: str, copied: Sequence[str | None]) -> AuditRow | None:
    """Returns the row of how often the model gives the copied answer where it is wrong; None if it never is.

    The row is flagged if its whole interval is nearer to 1 than to guessing.
    """
    places = [
        number
        for number, (answer, question) in enumerate(zip(copied, subject.questions, strict=True))
        if answer is not None and answer != question.answer
    ]
    if not places:
        return None
    said = subject.answers
    same = [said[number].count(copied[number]) / len(said[number]) for number in places]
    asked = [subject.questions[number] for number in places]
    chance = sum(1 / len(question.options) for question in asked) / len(asked)
    interval = intervals.mean_interval(same, [question.patient_id for question in asked])
    value = sum(same) / len(same)
    flag = None
    if interval.low > (1 + chance) / 2:
        flag = f"the model copies: {value:.0%} of its answers follow it where it is wrong (guessing: {chance:.0%})"
    return AuditRow(
        name, title, subject.phase, "share", value, len(same), interval, flag=flag,
        note=f"of the questions where it is wrong; guessing would give {chance:.3f}", counts=ids_of(asked),
    )  # fmt: skip


def frame_order_rows(subject: AuditedPhase) -> list[AuditRow]:
    """Returns the row "shuffled_frames", and a row "shuffled_frames/TASK" for each task if there are several tasks.

    The list is empty if the condition "shuffled_frames" was not asked. The rows of single tasks are never flagged,
    because many questions about videos can be answered from one frame.
    """
    seen = subject.seen("shuffled_frames")
    if seen is None:
        return []
    right = rights_in(seen)
    everything = range(len(subject.questions))
    whole = _row(subject, right, everything, SHUFFLED, "the same model with the frames in another order")
    tasks = grouped(everything, lambda number: subject.questions[number].facets.get("task", ""))
    if len(tasks) < 2:
        return [whole]
    title = "frames in another order, "
    return [whole, *(_row(subject, right, part, f"{SHUFFLED}/{task}", title + task) for task, part in tasks.items())]


def _row(subject: AuditedPhase, right: Sequence[float], part: Sequence[int], name: str, title: str) -> AuditRow:
    row = accuracy_row(
        name,
        title,
        [right[number] for number in part],
        [subject.patients[number] for number in part],
        model=[subject.right[number] for number in part],
        phase=subject.phase,
        note="every frame is shown, the times are those of the clip",
    )
    return replace(row, counts=ids_of(subject.questions[number] for number in part))


def naming_rows(subject: AuditedPhase) -> list[AuditRow]:
    """Returns the row "stated_answer"; an empty list if the condition was not asked.

    The model sees the question's own image, and the prompt ends with the right answer in words. A model that fails here
    cannot answer in the wanted format: for instance, it cannot find the letter of an option. If it succeeds here, its
    mistakes elsewhere are due to answers that it does not know. The row is flagged if its whole interval lies below
    `NAMED_SHARE`.
    """
    seen = subject.seen("stated_answer")
    if seen is None:
        return []
    chance = sum(1 / len(question.options) for question in subject.questions) / len(subject.questions)
    row = accuracy_row(
        "stated_answer",
        "the same model with the right answer stated in words (letter binding)",
        rights_in(seen),
        subject.patients,
        model=subject.right,
        phase=subject.phase,
        note=f"own image; all that is left to do is to name the option; guessing gives {chance:.3f}",
    )
    fails = row.ci95 is not None and row.ci95.high < NAMED_SHARE
    flag = "the answer format is not learnt: the model cannot name the option that it is told" if fails else None
    return [flagged(row, flag)]


def permutation_rows(subject: AuditedPhase) -> list[AuditRow]:
    """Returns the rows "option_permutation" and "permuted_accuracy"; an empty list if the condition was not asked.

    Every option moves to another position, so that the second answer is the same option as before, or the option at the
    same position as before, or neither. The value of "option_permutation" is the share of answers that follow the
    option, among the questions whose answers could be read both times; of several passes, each with the image is
    compared with each under the other order. The row is flagged if more answers follow the
    position, or if the lead of the option over the position is not clearly above 0. If no question has two readable
    answers, the row is left out.
    """
    seen = subject.seen("permuted_options")
    if seen is None:
        return []
    pairs = [
        (row.question, [(before, after) for before in said if before for after in row.passes if after.parsed])
        for said, row in zip(subject.answers, seen, strict=True)
    ]
    pairs = [(question, read) for question, read in pairs if read]
    accuracy = accuracy_row(
        "permuted_accuracy",
        "the same model with the options in another order",
        rights_in(seen),
        subject.patients,
        model=subject.right,
        phase=subject.phase,
        note="no option stands where it stood",
    )
    if not pairs:
        return [accuracy]
    option = [fmean(before == after.parsed for before, after in read) for _, read in pairs]
    place = [
        fmean(question.options.index(before) == _place_chosen(after) for before, after in read)
        for question, read in pairs
    ]
    patients = [question.patient_id for question, _ in pairs]
    lead = intervals.gain_interval(place, option, patients)
    share = sum(option) / len(option), sum(place) / len(place)
    flag = None
    if share[1] > share[0]:
        flag = f"the answer follows the place of an option ({share[1]:.0%}), not the option ({share[0]:.0%})"
    elif lead.low <= 0:
        flag = f"the answer does not surely follow the option ({share[0]:.0%}) rather than its place ({share[1]:.0%})"
    follows = AuditRow(
        "option_permutation",
        "answers that follow the option when options are permuted",
        subject.phase,
        "share",
        share[0],
        len(pairs),
        intervals.mean_interval(option, patients),
        flag=flag,
        note=f"{share[1]:.3f} follow the place (letter); the rest neither",
        counts=ids_of(question for question, _ in pairs),
    )
    return [follows, accuracy]


def _place_chosen(row: ParsedReply) -> int:
    assert row.prediction is not None
    assert row.parsed is not None
    return (row.prediction.options_shown or row.question.options).index(row.parsed)


def audit_of(subject: AuditedPhase, probes: Sequence[Probe] = ()) -> Audit:
    """Returns the audit, with the model's own accuracy in the first row."""
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
    rows += [subject.probe_row(probe) for probe in probes]
    nearest = [probe.answers for probe in probes if probe.name == "nearest_thumbnail"]
    title = "answers that copy the train answer of the nearest look-alike"
    rows += [copying_row(subject, LOOK_ALIKE, title, answers) for answers in nearest]
    rows += [_prior_copy(subject), most_frequent_answer_row(subject, collapse), *reading_rows(subject)]
    words = dict.fromkeys([*GUESSING, *(probe.name for probe in probes)], (BETTER, NOT_BEATEN))
    words |= {SHUFFLED: ORDER_WORDS} | dict.fromkeys(_BLIND, IMAGE_WORDS)
    return Audit(flagged_if_level([row for row in rows if row], words), collapse)


def thumbnail_probes(subject: AuditedPhase, train_features: Features, features: Features) -> list[Probe]:
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


def feature_probe(subject: AuditedPhase, train_features: Features, features: Features) -> list[Probe]:
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


def _prior_copy(subject: AuditedPhase) -> AuditRow | None:
    if not subject.learnt:
        return None
    copied = subject.answered(subject.learnt.prior)
    title = "answers that copy the most frequent train answer to the question"
    return copying_row(subject, PRIOR_COPY, title, copied)
