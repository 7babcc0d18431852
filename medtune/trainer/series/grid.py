"""Makes one run for every combination of the values in a recipe's grid, and a table of all runs."""

import csv
from collections.abc import Callable, Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any

from medtune.eval.data_label import recorded_label
from medtune.eval.parsed_reply import passes_text
from medtune.eval.results.schema import ResultsFile
from medtune.eval.results.typed_json import read_json
from medtune.eval.scoring.tables import Cell, Table, table_text
from medtune.eval.statistics.patient_swaps import holm, p_text
from medtune.trainer.commands.arguments import ACCEPT_CHANGED_DATA
from medtune.trainer.experiment.run_folder import RunFolder, write_json
from medtune.trainer.launch.started import how_started

GRID = "grid.json"
_LOSS = "train/loss"
_ENDS = 5
"""The number of logged points at the beginning and at the end over which the table averages the loss."""


def run_grid(
    start: Callable[[Sequence[str]], int],
    arguments: Sequence[str],
    *,
    out: Path,
    grid: Mapping[str, Sequence[str]],
    resume: bool,
) -> int:
    """Starts the runs one after another, writes OUT/grid.json and prints its table; returns the exit status.

    Each run has the folder OUT/VALUE-VALUE-... With `resume`, finished runs are kept and an unfinished one is
    continued. If a run fails, the series ends with its exit status.

    Args:
        start: Runs `medtune ARGUMENTS` and returns the exit status.
        arguments: The arguments of each run, without --out and --resume; those of runs that go on among them.
        out: The folder that holds the runs.
        grid: For each dotted key of the recipe, the values that it takes.
        resume: Whether OUT may hold runs already.
    """
    if how_started().how != "alone":
        raise ValueError(
            "a grid starts its own processes; leave torchrun and srun with several tasks out and set train.devices"
        )
    cells = [dict(zip(grid, values, strict=True)) for values in product(*grid.values())]
    for cell in cells:
        folder = RunFolder(out / cell_name(cell))
        if resume and folder.results.is_file():
            continue
        again = ["--resume"] if resume and folder.recipe.is_file() else []
        mine = [each for each in arguments if again or each != ACCEPT_CHANGED_DATA]
        print(f"\n{', '.join(f'{key}={value}' for key, value in cell.items())}", flush=True)
        settings = ["grid=null", *(f"{key}={value}" for key, value in cell.items())]
        status = start([*mine, *again, "--out", str(folder.root), "--set", *settings])
        if status:
            return status
    rows = [_measured(out, cell) for cell in cells]
    write_json(out / GRID, {"version": 1, "runs": rows})
    print(f"\n{table_text(grid_table(rows))}\ngrid: {out / GRID}")
    return 0


def cell_name(cell: Mapping[str, str]) -> str:
    """Returns the name of the folder of a combination."""
    return "-".join(str(value).replace("/", "_") for value in cell.values())


def _measured(out: Path, cell: Mapping[str, str]) -> dict[str, Any]:
    folder = RunFolder(out / cell_name(cell))
    results = read_json(folder.results, ResultsFile)
    with (folder.root / "metrics.csv").open(newline="") as file:
        losses = [float(row[_LOSS]) for row in csv.DictReader(file) if row.get(_LOSS)]
    ends = min(_ENDS, len(losses))
    zero_shot, final = results.phases["zero_shot"], results.phases["final"]
    return {
        "settings": dict(cell),
        **results.label.facts(),
        "loss": [sum(part) / ends for part in (losses[:ends], losses[-ends:])],
        "metric": results.primary.name,
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
    columns = (*names, "first loss", "last loss", "zero-shot", "final", "gain", "p (patients, Holm)", *tasks)
    note = f"Losses are means of {_ENDS} steps; scores are {first['metric']}, by task those of the final model."
    tests = "p: before and after are swapped for whole patients; Holm's correction over the runs."
    note += "".join(f" Scores: {passes_text(repeats)}." for repeats in {row["repeats"] for row in rows} if repeats > 1)
    said = dict.fromkeys(text for row in rows for text in recorded_label(row).notes())
    return Table(f"{len(rows)} runs", columns, tuple(body), (note, tests, *said))
