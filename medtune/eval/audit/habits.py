"""Rows about how the model answers: one answer to everything, two readings that disagree, replies without an answer."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from medtune.data.types import Question
from medtune.eval.audit.row import AuditRow, Collapse, accuracy_row, flagged
from medtune.eval.audit.subject import Subject
from medtune.eval.scoring.parse_replies import LIKELIHOOD, PER_TOKEN
from medtune.eval.statistics import intervals

COLLAPSE_EXCESS = 0.15
"""How far above the truth's share the most frequent answer may be, with the whole interval: our own choice."""
ALWAYS = 0.95
"""The share from which one answer is given to practically everything: any sure excess is then a collapse."""
READING_MARGIN = 0.05
UNPARSABLE_LIMIT = 0.05
NO_TASK = "all"


def collapse_by_subtype(subject: Subject) -> dict[str, Collapse]:
    """Returns for each subtype the model's most frequent answer beside how often that is the truth.

    The keys are "TASK: SUBTYPE", or the task alone for its questions that have no subtype.
    """
    kinds: dict[str, list[int]] = {}
    for number, question in enumerate(subject.questions):
        kinds.setdefault(_kind(question), []).append(number)
    answers = subject.answers
    return {
        kind: _collapse([subject.questions[i] for i in numbers], [answers[i] for i in numbers])
        for kind, numbers in kinds.items()
    }


def most_frequent_answer_row(subject: Subject, collapse: dict[str, Collapse]) -> AuditRow:
    """Returns the subtype in which the most frequent answer is furthest above its share of the truth."""
    worst = max(collapse, key=lambda kind: collapse[kind].share - collapse[kind].truth_share)
    found = collapse[worst]
    names = [kind for kind, each in collapse.items() if each.flag]
    return AuditRow(
        "most_frequent_answer",
        "most frequent answer above its share of the truth, worst subtype",
        subject.phase,
        "share difference",
        found.share - found.truth_share,
        found.n,
        found.excess_ci95,
        flag=f"answers collapse to one in {', '.join(names)}" if names else None,
        note=f"{worst}: {found.answer!r} is {found.share:.0%} of the answers, {found.truth_share:.0%} of the truth",
    )


def reading_rows(subject: Subject) -> list[AuditRow]:
    """Returns likelihood_against_generation, where both readings exist, and unparsable_share, where one generated."""
    image = subject.parsed["image"]
    parsers = [name for name in image if name not in (LIKELIHOOD, PER_TOKEN)]
    rows = []
    is_likelihood = subject.parser in (LIKELIHOOD, PER_TOKEN)
    other = next(iter(parsers), None) if is_likelihood else (LIKELIHOOD if LIKELIHOOD in image else None)
    if other:
        said = [row.parsed for row in image[other]]
        agree = sum(one == two for one, two in zip(said, subject.answers, strict=True)) / len(said)
        row = accuracy_row(
            "likelihood_against_generation",
            f"the other reading of the same model ({other})",
            subject.right_of(said),
            subject.patients,
            model=subject.right,
            phase=subject.phase,
            note=f"both readings give the same answer to {agree:.0%} of the questions",
        )
        rows.append(flagged(row, _disagreement(row)))
    generation = other if is_likelihood else subject.parser
    if generation:
        rows.append(_unparsable(subject, generation))
    return rows


def _kind(question: Question) -> str:
    names = [question.facets[facet] for facet in ("task", "subtype") if facet in question.facets]
    return ": ".join(names) or NO_TASK


def _collapse(questions: Sequence[Question], said: Sequence[str | None]) -> Collapse:
    answer, _ = Counter(said).most_common(1)[0]
    given = [float(each == answer) for each in said]
    true = [float(question.answer == answer) for question in questions]
    excess = intervals.gain_interval(true, given, [question.patient_id for question in questions])
    share, truth_share = sum(given) / len(given), sum(true) / len(true)
    flag = None
    if excess.low > (0 if share >= ALWAYS else COLLAPSE_EXCESS):
        flag = f"{share:.0%} of the answers are {answer!r}, which is the truth for {truth_share:.0%}"
    return Collapse(answer, share, truth_share, excess, len(questions), flag)


def _disagreement(row: AuditRow) -> str | None:
    assert row.gap is not None
    low, high = row.gap.ci95
    if low <= 0 <= high or abs(row.gap.value) < READING_MARGIN:
        return None
    return f"the two readings differ by {row.gap.value:+.3f}"


def _unparsable(subject: Subject, parser: str) -> AuditRow:
    lost = [float(row.parsed is None) for row in subject.parsed["image"][parser]]
    value = sum(lost) / len(lost)
    flag = f"{value:.0%} of the replies hold no answer" if value > UNPARSABLE_LIMIT else None
    return AuditRow(
        "unparsable_share",
        f"replies without a readable answer ({parser})",
        subject.phase,
        "share",
        value,
        len(lost),
        intervals.mean_interval(lost, subject.patients),
        flag=flag,
        note="unanswered questions included; they count as wrong",
    )
