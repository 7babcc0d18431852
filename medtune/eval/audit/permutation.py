"""Audit rows about the same questions with permuted options: does the answer follow the option or its position?"""

from statistics import fmean

from medtune.data.types import Question
from medtune.eval.audit.row import AuditRow, accuracy_row
from medtune.eval.audit.subject import Subject, rights_in
from medtune.eval.parsed_reply import ParsedReply
from medtune.eval.statistics import intervals


def permutation_rows(subject: Subject) -> list[AuditRow]:
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
    place = [fmean(_place(question, before) == _shown(after) for before, after in read) for question, read in pairs]
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
    )
    return [follows, accuracy]


def _place(question: Question, answer: str) -> int:
    return question.options.index(answer)


def _shown(row: ParsedReply) -> int:
    assert row.prediction is not None
    assert row.parsed is not None
    return (row.prediction.options_shown or row.question.options).index(row.parsed)
