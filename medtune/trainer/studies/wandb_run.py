"""Sends the tables of a study to W&B, as one run with a table for each of the paper's and one row for each run."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from medtune.data.readable import without_paths
from medtune.eval.scoring.tables import Table, finite_table
from medtune.eval.studies.page import StudyReport, study_tables
from medtune.trainer.recipe.schema import LogBlock
from medtune.trainer.training.dashboard.wandb_reach import refused_in_a_line, wandb_mode, wandb_settings


def send_study(report: StudyReport, out: Path, log: LogBlock) -> str:
    """Writes the run, sends it where W&B can be reached, and returns a sentence about it; "" where W&B is disabled."""
    mode = wandb_mode(log)
    if mode == "disabled":
        return ""
    import wandb

    config = {"study": report.name, "scale": report.scale, "benchmarks": list(report.benchmarks), "title": report.title}
    with refused_in_a_line():
        run = wandb.init(
            project=log.project,
            name=f"study {report.name} {report.scale}",
            job_type="study",
            dir=str(out),
            mode=mode,
            config={**config, "banners": [list(each) for each in report.banners]},
            settings=wandb.Settings(**wandb_settings()),
            reinit="create_new",
        )
    tables = {f"study/{name}": _sent(table, wandb) for name, table in _public(study_tables(report)).items()}
    values = {
        f"study/{cell.table}/{cell.row}/{cell.column}": cell.ours for cell in report.cells if cell.ours is not None
    }
    run.log({**tables, **values})
    name, kept = run.name, Path(run.dir).parent
    try:
        run.finish()
    except TimeoutError:
        return f"W&B did not take the end of {name}, which is kept. This sends it: wandb sync {kept}"
    return f"W&B: {mode}, {name}"


def _sent(table: Table, wandb: Any) -> object:
    made = finite_table(table)
    # A column of W&B's table holds one type.
    rows = [
        [None if cell is None else str(cell) if isinstance(cell, str) else float(cell) for cell in row]
        for row in made.rows
    ]
    return wandb.Table(columns=list(made.columns), data=rows, allow_mixed_types=True)


def _public(tables: Mapping[str, Table]) -> dict[str, Table]:
    """Returns the tables without the folders of this machine."""
    found = {}
    for name, table in tables.items():
        rows = tuple(
            tuple(without_paths(cell) if isinstance(cell, str) else cell for cell in row) for row in table.rows
        )
        found[name] = Table(table.title, table.columns, rows, table.notes, table.digits)
    return found
