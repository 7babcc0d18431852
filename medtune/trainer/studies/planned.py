"""Plans the runs of a study: which are there already, in its folder or elsewhere, and which are still to be made."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from medtune.data.prepared.read import open_prepared
from medtune.eval.results.schema import ResultsFile
from medtune.eval.results.typed_json import read_json
from medtune.trainer.recipe.schema import Recipe
from medtune.trainer.runs.run_folder import RunFolder
from medtune.trainer.seen import ASKED, asked_hash, differences
from medtune.trainer.series.runs import PlannedRun
from medtune.trainer.studies.study import OpenedStudy, StudyRow, StudySet, data_given, recipe_of, settings, values_of

ROWS, DATA = "rows", "data"
_DEPTH = 4
"""How many folders deep finished runs are looked for."""


@dataclass(frozen=True)
class PlannedRow:
    """A run of a row: where it is made, and where it is already, if it is."""

    row: StudyRow
    of: StudySet
    seed: int | None  # The number of the run among the seeds; None for a single run.
    recipe: Recipe
    planned: PlannedRun
    found: Path | None = None  # The folder of an equal finished run; None where it is still to be made.

    @property
    def folder(self) -> Path:
        return self.found or self.planned.folder


def planned_rows(opened: OpenedStudy, out: Path, *, data: Path | None, reuse: Sequence[Path]) -> list[PlannedRow]:
    """Returns the runs of all rows with a recipe.

    Args:
        data: The prepared folder that replaces that of every recipe; None leaves theirs. For a study of several
            benchmarks, the folder that holds one of each, named by its benchmark.
        reuse: Folders in which equal finished runs are looked for, besides `out`.
    """
    finished = list(_finished([out / ROWS, *reuse]))
    found = []
    for row in opened.rows:
        if row.recipe is None:
            continue
        for of in opened.sets:
            given = data_given(opened, of, data)
            seeds = range(opened.study.seeds)
            found += [_planned(opened, row, of, number, out, given, finished) for number in seeds]
    return found


def _planned(
    opened: OpenedStudy,
    row: StudyRow,
    of: StudySet,
    number: int,
    out: Path,
    data: Path | None,
    finished: Sequence[RunFolder],
) -> PlannedRow:
    several = opened.study.seeds > 1
    recipe = recipe_of(opened, row, of)
    values = values_of(opened, row, of)
    if data is not None:
        values["data.root"] = str(data)
    if several:
        values["train.seed"] = recipe.train.seed + number
    row = StudyRow(row.name, row.published, row.recipe, values, parser=row.parser)
    recipe = recipe_of(opened, row, of)
    folder = out / ROWS / row.name
    folder = folder / of.name if len(opened.sets) > 1 else folder
    folder = folder / f"seed_{number}" if several else folder
    title = (
        f"row {row.name}"
        + (f", {of.name}" if len(opened.sets) > 1 else "")
        + (f", seed {recipe.train.seed}" if several else "")
    )
    planned = PlannedRun(title, folder, tuple(settings(values)))
    _refuse_other(opened, row, recipe, folder)
    there = next((each.root for each in finished if _is_equal(each, recipe, opened)), None)
    return PlannedRow(row, of, number if several else None, recipe, planned, there)


def _refuse_other(opened: OpenedStudy, row: StudyRow, recipe: Recipe, folder: Path) -> None:
    """Refuses a folder of this row that holds a run of other settings or data."""
    held = RunFolder(folder)
    if not held.environment.is_file() or not held.recipe.is_file():
        return
    recorded = held.recorded()
    if recorded.get(ASKED) != asked_hash(recipe):
        # What the run itself resolved, such as its precision, is no difference.
        changed = [
            each for each in differences(held.read_recipe(), recipe) if not each.endswith((" None here", " auto here"))
        ]
        raise ValueError(
            f"{folder}: row {row.name!r} of {opened.file} was made with other settings: "
            f"{'; '.join(changed) or 'its recipe or weights changed'}. Give another --out, or delete the folder"
        )
    now = open_prepared(recipe.data.root).data_hash
    if recorded["data_hash"] != now:
        raise ValueError(
            f"{folder}: row {row.name!r} of {opened.file}, data.root: {recipe.data.root} has the data hash {now[:12]}, "
            f"and the run there was asked {recorded['data_hash'][:12]}. Put its data back, or give another --out"
        )


def _is_equal(run: RunFolder, recipe: Recipe, opened: OpenedStudy) -> bool:
    recorded = run.recorded()
    if recorded.get(ASKED) != asked_hash(recipe) or recorded.get("limit") is not None:
        return False
    if not recipe.data.root.is_dir() or recorded["data_hash"] != open_prepared(recipe.data.root).data_hash:
        return False
    phases = read_json(run.results, ResultsFile).phases
    return opened.study.work == "eval" or {*opened.phases} <= {*phases}


def _finished(folders: Sequence[Path]) -> Iterator[RunFolder]:
    seen = set[Path]()
    for folder in folders:
        for depth in range(_DEPTH):
            for path in sorted(folder.glob("*/" * depth + "results.json")):
                run = RunFolder(path.parent)
                if path.parent.resolve() not in seen and run.environment.is_file() and run.recipe.is_file():
                    seen.add(path.parent.resolve())
                    yield run
