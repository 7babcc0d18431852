"""Puts the finished rows of a study together into what its page shows."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from medtune.eval.studies.cells import StudyAnswers, StudyCell, study_cells
from medtune.eval.studies.page import StudyReport, StudyRun
from medtune.trainer.studies.answers import CollectedRow, collected, result_of
from medtune.trainer.studies.planned import planned_rows
from medtune.trainer.studies.study import FULL, OpenedStudy, data_given


def study_report(opened: OpenedStudy, out: Path, *, data: Path | None, reuse: Sequence[Path] = ()) -> StudyReport:
    """Returns what the finished rows of a study say; rows without answers are named.

    Args:
        data: As in `planned_rows`.
        reuse: As in `planned_rows`.
    """
    folders: dict[tuple[str, str], list[Path]] = {}
    for each in planned_rows(opened, out, data=data, reuse=reuse):
        if result_of(each.folder) is not None:
            folders.setdefault((each.row.name, each.of.name), []).append(each.folder)
    found = []
    for row in opened.rows:
        for of in opened.sets:
            runs = folders.get((row.name, of.name), [])
            is_whole = row.recipe is None or len(runs) == opened.study.seeds
            found.append(collected(opened, row, of, runs if is_whole else (), data_given(opened, of, data)))
    cells = study_cells(opened.tables, [each.answers for each in found])
    for answers in (each.answers for each in found):
        _check_filled(opened, answers, cells)
    return StudyReport(
        name=opened.name,
        title=opened.title,
        scale=opened.scale,
        benchmarks=tuple(opened.study.sets),
        source="; ".join(dict.fromkeys(table.source for table in opened.tables)),
        banners=_banners(opened, found),
        tables=opened.tables,
        rows=tuple(each.answers for each in found),
        cells=tuple(cells),
        runs=tuple(_with_relative_folder(run, out) for each in found for run in each.runs),
        left_out=opened.study.left_out if opened.scale == FULL else {},
        missing=tuple(
            f"{each.answers.name}, {each.answers.benchmark}" if len(opened.sets) > 1 else each.answers.name
            for each in found
            if not each.answers.runs
        ),
        fetch=opened.study.fetch,
        billions={row.name: row.billions for row in opened.rows if row.billions is not None},
    )


def _check_filled(opened: OpenedStudy, answers: StudyAnswers, cells: Sequence[StudyCell]) -> None:
    columns = {
        (table.name, each.name)
        for table in opened.tables
        for each in table.columns
        if each.benchmark == answers.benchmark
    }
    own = [cell for cell in cells if cell.row == answers.name and (cell.table, cell.column) in columns]
    if answers.runs and all(cell.ours is None for cell in own):
        tables = ", ".join(table.name for table in opened.tables)
        raise ValueError(
            f"{opened.file}: row {answers.name!r}: its answers fill no cell of {tables}: its data have no such "
            "questions"
        )


def _with_relative_folder(run: StudyRun, out: Path) -> StudyRun:
    folder = Path(run.folder)
    return replace(run, folder=str(folder.relative_to(out))) if folder.is_relative_to(out) else run


def _banners(opened: OpenedStudy, found: Sequence[CollectedRow]) -> tuple[tuple[str, str], ...]:
    titles = {each.name: f"{each.benchmark.title}: " if len(opened.sets) > 1 else "" for each in opened.sets}
    return tuple(
        dict.fromkeys(
            (name, titles[row.answers.benchmark] + meaning)
            for row in found
            if row.label
            for name, meaning in row.label.banners()
        )
    )
