"""Compares the runs of a grid: one for each combination of the values of some settings."""

from collections.abc import Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any

from medtune.eval.comparing.verdict import difference_word
from medtune.eval.data_label import recorded_label
from medtune.eval.metric import passes_text
from medtune.eval.results.metrics_file import read_metrics
from medtune.eval.results.schema import ResultsFile
from medtune.eval.results.typed_json import read_json
from medtune.eval.scoring.tables import Cell, Table, table_text
from medtune.eval.statistics.patient_swaps import holm, p_text
from medtune.trainer.runs.run_folder import RunFolder, write_json
from medtune.trainer.series.runs import PlannedRun, Series

GRID = "grid.json"
_LOSS = "train/loss"
_ENDS = 5
"""The number of logged points at the beginning and at the end over which the table averages the loss."""


def grid(out: Path, values: Mapping[str, Sequence[str]]) -> Series:
    """Returns the runs OUT/VALUE-VALUE-..., one for each combination of the values of the grid."""
    cells = [dict(zip(values, each, strict=True)) for each in product(*values.values())]
    runs = []
    for cell in cells:
        settings = [f"{key}={value}" for key, value in cell.items()]
        runs.append(PlannedRun(", ".join(settings), out / cell_name(cell), ("grid=null", *settings)))
    return Series("a grid", tuple(runs), lambda: _pooled(out, cells))


def _pooled(out: Path, cells: Sequence[Mapping[str, str]]) -> str:
    rows = [_cell_record(out, cell) for cell in cells]
    write_json(out / GRID, {"version": 1, "runs": rows})
    return f"{table_text(grid_table(rows))}\ngrid: {out / GRID}"


def cell_name(cell: Mapping[str, str]) -> str:
    return "-".join(str(value).replace("/", "_") for value in cell.values())


def _cell_record(out: Path, cell: Mapping[str, str]) -> dict[str, Any]:
    folder = RunFolder(out / cell_name(cell))
    results = read_json(folder.results, ResultsFile)
    losses = [row.value for row in read_metrics(folder.root / "metrics.csv") if row.name == _LOSS]
    ends = min(_ENDS, len(losses))
    zero_shot, final = results.phases["zero_shot"], results.phases["final"]
    return {
        "settings": dict(cell),
        **results.label.facts(),
        "loss": [sum(part) / ends for part in (losses[:ends], losses[-ends:])],
        "metric": results.primary.name,
        "higher_is_better": results.primary.higher_is_better,
        "zero_shot": zero_shot.overall.value,
        "final": final.overall.value,
        "gain": results.gain.value if results.gain else None,
        "permutation_p": results.gain.permutation_p if results.gain else None,
        "repeats": final.overall.repeats,
        "by_task": {task: found.value for task, found in final.by.get("task", {}).items()},
    }


def grid_table(rows: Sequence[Mapping[str, Any]]) -> Table:
    """Returns a table with one row for each combination: first and last loss, the scores, also by task, and the gain.

    The p values of the gains are from swaps of whole patients, after Holm's correction over the combinations.

    Source: section 4.2 b of CTLesionVQA, arXiv 2505.18915, which compares architectures by type of question.
    """
    first = rows[0]
    tasks = sorted({task for row in rows for task in row["by_task"]})
    tested = [place for place, row in enumerate(rows) if row["permutation_p"] is not None]
    adjusted = dict(zip(tested, holm([rows[place]["permutation_p"] for place in tested]).p_values, strict=True))
    body: list[tuple[Cell, ...]] = [
        (
            *row["settings"].values(),
            *row["loss"],
            row["zero_shot"],
            row["final"],
            row["gain"],
            p_text(adjusted[place]) if place in adjusted else None,
            *(row["by_task"].get(task) for task in tasks),
        )
        for place, row in enumerate(rows)
    ]
    names = [key.rpartition(".")[2] for key in first["settings"]]
    difference = difference_word(higher_is_better=first["higher_is_better"])
    columns = (*names, "first loss", "last loss", "zero-shot", "final", difference, "p (patients, Holm)", *tasks)
    note = f"Losses are means of {_ENDS} steps; scores are {first['metric']}, by task those of the final model."
    tests = "p: before and after are swapped for whole patients; Holm's correction over the runs."
    note += "".join(f" Scores: {passes_text(repeats)}." for repeats in {row["repeats"] for row in rows} if repeats > 1)
    said = dict.fromkeys(text for row in rows for text in recorded_label(row).notes())
    return Table(f"{len(rows)} runs", columns, tuple(body), (note, tests, *said))
