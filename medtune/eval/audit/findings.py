"""Audits a benchmark without a model: finds questions with cues to the answer, duplicates and leaks between splits.

The blind solver answers questions from their words alone: it sees the question and its options, but no image. It is a
logistic regression with one row for each option of a question, which predicts whether this option is the answer. The
features of a row describe the option: its text, the task, the other options, its position, whether it is the longest or
the shortest, and whether the question mentions it. The answer to a question is its likeliest option. Each question is
answered by a classifier that was fitted on other patients.
"""

import re
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass

import numpy as np
from pydantic import with_config

from medtune.data.grouping import grouped
from medtune.data.prepared.lookalikes import MAX_DISTANCE, Look, lookalike_groups
from medtune.data.seeding import stable_order
from medtune.data.types import Interval, MediaGroup, Question
from medtune.eval.audit.habits import CUE_MARGIN, longest_option
from medtune.eval.audit.probes import Probe
from medtune.eval.audit.row import is_choice
from medtune.eval.data_label import DataLabel
from medtune.eval.results.phase_schema import Count
from medtune.eval.results.schema import DOCUMENT, Labelled
from medtune.eval.scoring.tables import Table, table_text
from medtune.eval.statistics import intervals
from medtune.eval.statistics.calibration import option_probabilities
from medtune.eval.statistics.intervals import METHOD

BLIND_MARGIN = 0.10
"""How far the accuracy of a classifier of words, or of single cues of an image, has to stay above guessing for a flag,
with its whole interval."""
SURE = 0.9
"""The probability from which an answer of that classifier is listed among the items."""
_SHOWN = 3

FOLDS = 5
MAX_QUESTIONS = 10_000
"""The largest number of questions. Of more questions, whole patients are drawn, to fit in less than a minute."""
INVERSE_PENALTY = 1.0
_WORD = re.compile(r"\w+")


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
            _repeated(everything, lambda q: (q.media_id, q.turns, q.text, frozenset(q.options))), len(everything),
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


def findings_text(findings: Sequence[Finding], *, title: str) -> str:
    """Returns the findings as a table of plain text, with each flag and its first items below it."""
    columns = ("finding", "value", "n", "95 % interval", "guessing", "items", "")
    rows = tuple(
        (
            each.title,
            each.value if each.ci95 else int(each.value),
            each.n,
            each.ci95 and each.ci95.text(),
            each.chance,
            len(each.items),
            "FLAG" if each.flag else "",
        )
        for each in findings
    )
    notes = [f"95 % intervals: {intervals.METHOD}."]
    for each in findings:
        if each.flag:
            more = ", ..." if len(each.items) > _SHOWN else ""
            items = f" (items {', '.join(each.items[:_SHOWN])}{more})" if each.items else ""
            notes.append(f"FLAG {each.title}: {each.flag}{items}")
    return table_text(Table(title, columns, rows, tuple(notes)))


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


def _repeated(questions: Iterable[Question], key: Callable[[Question], Hashable]) -> list[str]:
    return [each.id for same in grouped(questions, key).values() if len(same) > 1 for each in same]


def _contradictions(questions: Sequence[Question]) -> list[str]:
    answers: dict[Hashable, set[str]] = {}
    for q in questions:
        answers.setdefault((q.media_id, q.turns, q.text, frozenset(q.options)), set()).add(q.answer)
    return [q.id for q in questions if len(answers[q.media_id, q.turns, q.text, frozenset(q.options)]) > 1]


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


@dataclass(frozen=True, slots=True)
class BlindAnswer:
    """The answer that the classifier gives to one question."""

    question: Question
    answer: str
    share: float  # The probability of that option among the question's options, 0 to 1.


def blind_answers(questions: Sequence[Question], *, seed: int = 0) -> list[BlindAnswer]:
    """Returns the answers of a classifier that sees only words, in the order of the questions.

    Each question is answered by a classifier that was fitted without the questions about its patient. At most
    `MAX_QUESTIONS` questions are answered, and none if there are fewer than two patients.

    Source: Blind baselines of visual question answering: Goyal et al. 2017, arXiv:1612.00837.
    """
    from scipy.special import log_expit
    from sklearn.feature_extraction import FeatureHasher
    from sklearn.linear_model import LogisticRegression

    fold_of, chosen = _folds(questions, seed=seed)
    if len(set(fold_of.values())) < 2:
        return []
    rows = [(question, option) for question in chosen for option in question.options]
    matrix = FeatureHasher(n_features=2**18, alternate_sign=False).transform(_features(*row) for row in rows)
    is_answer = np.array([option == question.answer for question, option in rows])
    folds = np.array([fold_of[question.patient_id] for question, _ in rows])
    scores = np.zeros(len(rows))
    for fold in range(FOLDS):
        held = folds == fold
        if held.any() and len(set(is_answer[~held].tolist())) == 2:
            model = LogisticRegression(C=INVERSE_PENALTY, solver="liblinear").fit(matrix[~held], is_answer[~held])
            scores[held] = log_expit(model.decision_function(matrix[held]))
    found, first = [], 0
    for question in chosen:
        shares = option_probabilities(scores[first : first + len(question.options)].tolist())
        first += len(question.options)
        best = shares.index(max(shares))
        found.append(BlindAnswer(question, question.options[best], shares[best]))
    return found


def _folds(questions: Sequence[Question], *, seed: int) -> tuple[dict[str, int], list[Question]]:
    sizes = Counter(question.patient_id for question in questions)
    fold_of: dict[str, int] = {}
    taken = 0
    for number, patient in enumerate(stable_order(sizes, seed, "blind")):
        if taken and taken + sizes[patient] > MAX_QUESTIONS:
            break
        taken += sizes[patient]
        fold_of[patient] = number % FOLDS
    return fold_of, [question for question in questions if question.patient_id in fold_of]


def _features(question: Question, option: str) -> dict[str, float]:
    task, lengths = question.facets.get("task", ""), [len(each) for each in question.options]
    asked, said = set(_WORD.findall(question.text.lower())), _WORD.findall(option.lower())
    names = [
        f"option={option}",
        f"task={task} option={option}",
        f"question={question.text} option={option}",
        f"place={question.options.index(option)}",
        f"longest={len(option) == max(lengths)}",
        f"shortest={len(option) == min(lengths)}",
        f"mentioned={bool(asked & set(said))}",
        *(f"task={task} option={option} beside={other}" for other in question.options if other != option),
        *(f"word={word}" for word in said),
        *(f"asked={word} option={option}" for word in asked),
    ]
    return dict.fromkeys(names, 1.0)


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


def findings_file(
    findings: Sequence[Finding], label: DataLabel, *, benchmark: str, split: str, data_hash: str
) -> FindingsFile:
    return FindingsFile(
        **asdict(label), benchmark=benchmark, split=split, data_hash=data_hash, findings=tuple(findings)
    )
