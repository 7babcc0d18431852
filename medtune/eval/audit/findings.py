"""Audits a benchmark without a model: finds questions with cues to the answer, duplicates and leaks between splits."""

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from pydantic import with_config

from medtune.data.grouping import grouped
from medtune.data.prepared.lookalikes import MAX_DISTANCE, Look, lookalike_groups
from medtune.data.types import Interval, MediaGroup, Question
from medtune.eval.audit.audited_phase import is_choice
from medtune.eval.audit.blind_solver import MAX_QUESTIONS, blind_answers
from medtune.eval.audit.habits import CUE_MARGIN, longest_option
from medtune.eval.audit.probes import Probe
from medtune.eval.results.phase_schema import Count
from medtune.eval.results.schema import DOCUMENT, Labelled
from medtune.eval.statistics import intervals
from medtune.eval.statistics.intervals import METHOD

BLIND_MARGIN = 0.10
"""How far the accuracy of a classifier of words, or of single cues of an image, has to stay above guessing for a flag,
with its whole interval."""
SURE = 0.9
"""The probability from which an answer of that classifier is listed among the items."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One way in which a benchmark could be easier than it looks.

    Attributes:
        name: Name of the finding for programs, e.g. "longest_option".
        title: Name of the finding for readers.
        metric: Name of the measure: "accuracy" or "questions".
        value: Accuracy, or number of questions concerned.
        n: Number of questions that were looked at.
        ci95: 95 % interval of the accuracy, with patients as clusters; None if the value is a number of questions.
        chance: Accuracy of guessing; None if the value is a number of questions.
        items: Ids of the questions concerned.
        flag: The reason to be suspicious; None if there is none.
        note: Describes how the value was found.
    """

    name: str
    title: str
    metric: str
    value: float
    n: int
    ci95: Interval | None
    chance: float | None
    items: tuple[str, ...]
    flag: str | None
    note: str


def findings_of(
    groups: Mapping[str, Sequence[MediaGroup]], *, split: str, looks: Mapping[str, Look], probes: Sequence[Probe] = ()
) -> list[Finding]:
    """Returns all findings of a prepared benchmark.

    Args:
        split: The split whose questions are searched for cues. Duplicates and leaks are searched in all splits.
    """
    questions = [question for group in groups.get(split, ()) for question in group.questions]
    if not questions:
        raise ValueError(f"the split {split!r} has no question to audit; name another with --split")
    choices = [question for question in questions if is_choice(question)]
    found = [] if not choices else [_blind(choices), _constant(choices), _longest(choices)]
    found += [_probed(choices, probe) for probe in probes]
    everything = [question for part in groups.values() for group in part for question in group.questions]
    return [
        *found,
        _counted(
            "duplicate_questions", "the same question about the same image more than once",
            [each.id for same in grouped(everything, _wording).values() if len(same) > 1 for each in same],
            len(everything),
            "within any split",
        ),
        _counted(
            "contradictory_answers", "the same question about the same image with different answers",
            _contradictions(everything), len(everything), "options in any order",
        ),
        _counted(
            "patients_in_two_splits", "questions about patients who are in two splits",
            _crossing((q.patient_id, name, q.id) for name, _, q in _placed(groups)), len(everything),
            "training sees the patient that the test asks about",
        ),
        _counted(
            "images_in_two_splits", "questions about images whose pixels are in two splits",
            _crossing((str(ref.path), name, q.id) for name, group, q in _placed(groups) for ref in group.media),
            len(everything),
            "boxes left out",
        ),
        _counted(
            "look_alikes_in_two_splits", "questions about images that look alike in two splits",
            _look_alikes(groups, looks), len(everything),
            f"groups of images whose perceptual hashes differ in at most {MAX_DISTANCE} of 64 bits; "
            f"{len(looks)} images compared",
        ),
    ]  # fmt: skip


def _blind(questions: Sequence[Question]) -> Finding:
    answers = blind_answers(questions, seed=0)
    if not answers:
        note = "needs two patients"
        return Finding(
            "blind_solvability", "answered from the words alone", "accuracy", 0.0, 0, None, None, (), None, note
        )
    asked = [each.question for each in answers]
    solved = [each.question.id for each in answers if each.answer == each.question.answer and each.share >= SURE]
    note = f"logistic regression on words and options, fitted on other patients; items: solved with {SURE:.0%} or more"
    if len(asked) < len(questions):
        note += f"; {len(asked)} of {len(questions)} questions drawn (at most {MAX_QUESTIONS})"
    right = [float(each.answer == each.question.answer) for each in answers]
    return _cue("blind_solvability", "answered from the words alone", asked, right, solved, BLIND_MARGIN, note)


def _constant(questions: Sequence[Question]) -> Finding:
    places = range(max(len(question.options) for question in questions))
    counts = [sum(_stands_at(question, place) for question in questions) for place in places]
    best = max(places, key=counts.__getitem__)
    right = [float(_stands_at(question, best)) for question in questions]
    items = [question.id for question in questions if _stands_at(question, best)]
    note = f"place {best + 1}, the best of all on these very questions"
    return _cue("constant_letter", "always the same place", questions, right, items, CUE_MARGIN, note)


def _longest(questions: Sequence[Question]) -> Finding:
    right = [float(longest_option(question) == question.answer) for question in questions]
    items = [question.id for question in questions if longest_option(question) == question.answer]
    note = "most characters; of several the one shown first"
    return _cue("longest_option", "always the longest option", questions, right, items, CUE_MARGIN, note)


def _probed(questions: Sequence[Question], probe: Probe) -> Finding:
    asked = questions if probe.asked is None else [questions[number] for number in probe.asked]
    right = [float(said == question.answer) for said, question in zip(probe.answers, asked, strict=True)]
    items = [question.id for question, is_right in zip(asked, right, strict=True) if is_right]
    return _cue(probe.name, probe.title, asked, right, items, BLIND_MARGIN, probe.note)


def _cue(
    name: str,
    title: str,
    questions: Sequence[Question],
    right: Sequence[float],
    items: Sequence[str],
    margin: float,
    note: str,
) -> Finding:
    chance = sum(1 / len(question.options) for question in questions) / len(questions)
    interval = intervals.mean_interval(right, [question.patient_id for question in questions])
    flag = f"surely more than {margin:.0%} above guessing" if interval.low > chance + margin else None
    value = sum(right) / len(right)
    return Finding(name, title, "accuracy", value, len(right), interval, chance, tuple(items), flag, note)


def _counted(name: str, title: str, items: Sequence[str], n: int, note: str) -> Finding:
    flag = f"{len(items)} questions" if items else None
    return Finding(name, title, "questions", float(len(items)), n, None, None, tuple(items), flag, note)


def _stands_at(question: Question, place: int) -> bool:
    return place < len(question.options) and question.options[place] == question.answer


def _placed(groups: Mapping[str, Sequence[MediaGroup]]) -> Iterable[tuple[str, MediaGroup, Question]]:
    return ((name, group, question) for name, part in groups.items() for group in part for question in group.questions)


def _wording(question: Question) -> Hashable:
    return question.media_id, question.turns, question.text, frozenset(question.options)


def _contradictions(questions: Sequence[Question]) -> list[str]:
    answers = {key: {each.answer for each in same} for key, same in grouped(questions, _wording).items()}
    return [question.id for question in questions if len(answers[_wording(question)]) > 1]


def _crossing(found: Iterable[tuple[str, str, str]]) -> list[str]:
    rows = list(found)
    splits: dict[str, set[str]] = {}
    for name, split, _ in rows:
        splits.setdefault(name, set()).add(split)
    # A question about several images is counted once.
    return list(dict.fromkeys(id_ for name, _, id_ in rows if len(splits[name]) > 1))


def _look_alikes(groups: Mapping[str, Sequence[MediaGroup]], looks: Mapping[str, Look]) -> list[str]:
    group_of = lookalike_groups(looks).several
    placed = (
        (group_of.get(ref.path.name), name, question.id)
        for name, group, question in _placed(groups)
        for ref in group.media
    )
    return _crossing((alike, name, question_id) for alike, name, question_id in placed if alike is not None)


@with_config(DOCUMENT)
@dataclass(frozen=True, kw_only=True)
class FindingsFile(Labelled):
    """The audit of a benchmark without a model: cues to the answers, duplicates and leaks between splits.

    Attributes:
        version: Version of the file's format.
        benchmark: Name of the benchmark in the catalog.
        split: The split whose questions were searched for cues.
        data_hash: SHA-256 of the prepared folder, in hex digits.
        findings: The ways in which the benchmark could be easier than it looks, flagged or not.
        interval_method: Name of the method of the 95 % intervals.
    """

    version: Count = 1
    benchmark: str
    split: str
    data_hash: str
    findings: tuple[Finding, ...]
    interval_method: str = METHOD
