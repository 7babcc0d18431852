"""Makes the confusion matrices and the tables of sensitivity, specificity and ROC area by answer class."""

import math
from collections.abc import Iterator
from dataclasses import dataclass

from medtune.data.readable import spoken
from medtune.eval.report.run_data import RunData
from medtune.eval.report.table import NONE, Cell, ReportTable, count, phase_title, plain, span, word
from medtune.eval.scoring.answer_classes import AnswerClass, ClassScore, TaskClasses

MAX_OPEN = 4
"""The number of tasks whose matrices are shown at once; with more tasks, those of the others are folded away."""
MAX_NAMED = 5
"""The number of classes up to which the columns of a matrix are named; those of more classes are numbered."""
UNREAD = "unread"
_SHADES = 5
_MAX_BESIDE = 8
_MEASURES = ("sensitivity", "specificity", "ROC area")


@dataclass(frozen=True, slots=True)
class MatrixCell:
    count: int
    shade: int  # Share of the row's replies, from 0 for none to 5 for nearly all, which is shown as a colour too.
    is_right: bool  # True if the answer is the true one.


@dataclass(frozen=True, slots=True)
class MatrixRow:
    """A row of a confusion matrix: the questions with one true answer."""

    name: str
    cells: tuple[MatrixCell, ...]


@dataclass(frozen=True, slots=True)
class Matrix:
    caption: str
    # (short, whole) name of each answer that was read; both are the same if there are few.
    columns: tuple[tuple[str, str], ...]
    rows: tuple[MatrixRow, ...]  # One row for each true answer, in the order of the columns.


@dataclass(frozen=True, slots=True)
class TaskMatrices:
    title: str
    matrices: tuple[Matrix, ...]  # The matrices in the order of the phases.

    @property
    def is_wide(self) -> bool:
        """True if a matrix needs the whole width of the page."""
        return any(len(matrix.rows) > _MAX_BESIDE for matrix in self.matrices)


@dataclass(frozen=True, slots=True)
class AnswerClasses:
    table: ReportTable  # Sensitivity, specificity and ROC area of each answer.
    brier: ReportTable  # The Brier score of each task; it has no rows if there is no likelihood reading.
    shown: tuple[TaskMatrices, ...]
    folded: tuple[TaskMatrices, ...]


def answer_classes(run: RunData) -> AnswerClasses | None:
    """Returns the part of the report on single answers; None if no task has answer classes."""
    names = list(dict.fromkeys(task.name for phase in run.phases.values() for task in phase.classes))
    if not names:
        return None
    tasks = [_by_phase(run, name) for name in names]
    matrices = tuple(
        TaskMatrices(spoken(name), tuple(_matrix(task, phase_title(phase)) for phase, task in found.items()))
        for name, found in zip(names, tasks, strict=True)
    )
    return AnswerClasses(_class_table(run, tasks), _brier_table(run, tasks), matrices[:MAX_OPEN], matrices[MAX_OPEN:])


def matrix_table(matrix: Matrix) -> ReportTable:
    rows = tuple((word(row.name), *(count(cell.count) for cell in row.cells)) for row in matrix.rows)
    return ReportTable(matrix.caption, ("true answer", *(short for short, _ in matrix.columns)), rows, sortable=False)


def _by_phase(run: RunData, name: str) -> dict[str, TaskClasses]:
    return {phase: task for phase, scores in run.phases.items() for task in scores.classes if task.name == name}


def _matrix(task: TaskClasses, phase: str) -> Matrix:
    names = [each.name for each in task.classes]
    few = len(names) <= MAX_NAMED
    shown = names if few else [f"{number} {name}" for number, name in enumerate(names, start=1)]
    columns = [(name if few else str(number), name) for number, name in enumerate(names, start=1)]
    return Matrix(
        caption=f"{spoken(task.name)}, {phase}: {task.n:,} questions",
        columns=(*columns, (UNREAD, UNREAD)),
        rows=tuple(
            MatrixRow(name, tuple(_cells(line, place)))
            for place, (name, line) in enumerate(zip(shown, task.confusion, strict=True))
        ),
    )


def _cells(line: tuple[int, ...], place: int) -> Iterator[MatrixCell]:
    total = sum(line)
    for column, number in enumerate(line):
        yield MatrixCell(number, math.ceil(_SHADES * number / total) if total else 0, column == place)


def _class_table(run: RunData, tasks: list[dict[str, TaskClasses]]) -> ReportTable:
    columns = ["task", "answer", "questions with it"]
    for measure in _MEASURES:
        columns += [f"{measure}, {phase_title(name)}" for name in run.phases]
    rows, reasons = [], dict[str, None]()
    for found in tasks:
        for name in _shown_classes(*found.values()):
            known = {phase: one for phase, task in found.items() for one in task.classes if one.name == name}
            one = list(known.values())[-1]
            row = [word(spoken(list(found.values())[-1].name)), word(name), count(one.support)]
            for measure in _MEASURES:
                scores = [_class_score(known.get(phase), measure) for phase in run.phases]
                row += [_score(score) for score in scores]
                reasons |= dict.fromkeys(score.reason for score in scores if score and score.reason)
            rows.append(tuple(row))
    return ReportTable("Each answer against the others of its task", tuple(columns), tuple(rows), _notes(run, reasons))


def _class_score(one: AnswerClass | None, measure: str) -> ClassScore | None:
    if one is None:
        return None
    return {"sensitivity": one.sensitivity, "specificity": one.specificity, "ROC area": one.auc}[measure]


def _shown_classes(*tasks: TaskClasses) -> list[str]:
    names = list(dict.fromkeys(one.name for task in tasks for one in task.classes))
    if {name.casefold() for name in names} == {"yes", "no"}:
        return [name for name in names if name.casefold() == "yes"]
    return names


def _notes(run: RunData, reasons: dict[str, None]) -> tuple[str, ...]:
    notes = [
        "Sensitivity: share of the questions with this true answer that were answered so. Specificity: share of the "
        "others that were not. ROC area: how often a question with this true answer has the higher probability of it "
        "than another one (0.5 is chance). In brackets: 95 % intervals with patients as clusters.",
        "An unread reply lowers the sensitivity of the true answer, and is no false alarm for another one.",
    ]
    if reasons:
        notes.append(f"No number: {'; '.join(reasons)}.")
    left_out: dict[str, list[str]] = {}
    for name, reason in run.last.without_classes.items():
        left_out.setdefault(reason, []).append(spoken(name))
    notes += [f"Not here: {', '.join(names)} ({reason})." for reason, names in left_out.items()]
    return tuple(notes)


def _brier_table(run: RunData, tasks: list[dict[str, TaskClasses]]) -> ReportTable:
    rows = [
        (
            word(spoken(next(iter(found.values())).name)),
            *(_score(found[phase].brier if phase in found else None) for phase in run.phases),
            count(list(found.values())[-1].brier.n),
        )
        for found in tasks
        if any(task.brier.n for task in found.values())
    ]
    columns = ("task", *(f"Brier score, {phase_title(name)}" for name in run.phases), "questions")
    note = (
        "Half the sum of the squared distances of the options' probabilities from the truth: 0 is best, 1 is worst; "
        "equal probabilities for two options give 0.25, for four 0.375."
    )
    return ReportTable("Brier score of the probabilities", columns, tuple(rows), (note,))


def _score(score: ClassScore | None) -> Cell:
    if score is None or score.value is None:
        return Cell(NONE, None, "muted")
    reach = f" ({span(score.ci95, 2)})" if score.ci95 else ""
    return Cell(f"{plain(score.value, 2)}{reach}", score.value)
