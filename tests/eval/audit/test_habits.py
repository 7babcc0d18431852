from medtune.data.types import Condition, Question
from medtune.eval.audit.audited_phase import AuditedPhase
from medtune.eval.audit.habits import collapse_by_subtype, most_frequent_answer_row
from medtune.eval.metric import ParsedReply

NUMBERS = ("one", "two", "three", "four")


def _asked(kind: str, patient: int, answer: str, **facets: str) -> Question:
    return Question(f"{kind}{patient}", f"m{patient}", "?", NUMBERS, answer, "choice", f"p{patient}", facets=facets)


def _subject() -> AuditedPhase:
    """Returns a subject that answers "one" to all questions about counts, and all other questions right."""
    rows: list[ParsedReply] = []
    for patient in range(40):
        truth = NUMBERS[patient % 4]
        counted = _asked("count", patient, truth, task="measurement", subtype="lesion count")
        sized = [_asked(f"size{n}-", patient, truth, task="measurement", subtype="lesion size") for n in range(4)]
        plain = _asked("plain", patient, truth, task="recognition")
        rows.append(ParsedReply(counted, None, "one"))
        rows += [ParsedReply(question, None, question.answer) for question in (*sized, plain)]
    questions = tuple(row.question for row in rows)
    return AuditedPhase("final", "likelihood", questions, {"image": {"likelihood": rows}}, ())


def test_collapse_in_one_subtype_is_found_although_the_task_is_balanced() -> None:
    found = collapse_by_subtype(_subject())
    assert set(found) == {"measurement: lesion count", "measurement: lesion size", "recognition"}
    counts = found["measurement: lesion count"]
    assert (counts.answer, counts.share, counts.truth_share, counts.n) == ("one", 1.0, 0.25, 40)
    assert [kind for kind, each in found.items() if each.flag] == ["measurement: lesion count"]


def test_the_row_names_the_worst_subtype() -> None:
    subject = _subject()
    row = most_frequent_answer_row(subject, collapse_by_subtype(subject))
    assert (row.value, row.n) == (0.75, 40)
    assert row.flag == "answers collapse to one in measurement: lesion count"
    assert row.note == "measurement: lesion count: 'one' is 100% of the answers, 25% of the truth"
    assert "worst subtype" in row.title


def test_questions_without_any_facet_are_one_group() -> None:
    question = _asked("plain", 0, "two")
    rows: dict[Condition, dict[str, list[ParsedReply]]] = {
        "image": {"likelihood": [ParsedReply(question, None, "two")]}
    }
    assert set(collapse_by_subtype(AuditedPhase("final", "likelihood", (question,), rows, ()))) == {"all"}
