"""Writes a script that arranges the panels of a recipe's runs in a W&B workspace.

A workspace exists only on W&B's server: it cannot be made offline, and an offline run cannot carry one. Its description
can be made offline. It is a script that uses `wandb-workspaces`, a package of W&B that medtune does not need otherwise.
After `wandb sync`, `python workspace.py ENTITY` saves the workspace. Only saving opens a connection (checked with
wandb-workspaces 0.4.13 with sockets switched off).
"""

import pprint
from collections.abc import Sequence

from medtune.eval.benchmark import Benchmark
from medtune.trainer.training.dashboard.cases import BAND, OVERALL, PUBLISHED, STEP

_SCRIPT = '''"""The W&B workspace of the recipe {group!r}, written by medtune.

    pip install wandb-workspaces
    wandb sync RUN/wandb/offline-run-*       # where the run was offline
    python workspace.py ENTITY [PROJECT]

Published lines are of other models on other data.
"""

import sys

import wandb_workspaces.reports.v2 as panels
import wandb_workspaces.workspaces as workspaces

STEP = {step!r}
SECTIONS = {sections}


def panel(kind, title, names):
    """Returns one panel of a section."""
    if kind == "lines":
        return panels.LinePlot(title=title, x=STEP, y=names, smoothing_type="none")
    if kind == "bars":
        return panels.BarPlot(title=title, metrics=names)
    return panels.WeavePanelSummaryTable(table_name=names[0])


def workspace(entity, project={project!r}):
    """Returns the workspace, not saved yet."""
    return workspaces.Workspace(
        entity=entity,
        project=project,
        name={name!r},
        sections=[
            workspaces.Section(name=name, is_open=place < 3, panels=[panel(*each) for each in found])
            for place, (name, found) in enumerate(SECTIONS)
        ],
        settings=workspaces.WorkspaceSettings(x_axis=STEP, group_by_prefix="first"),
    )


if __name__ == "__main__":
    saved = workspace(*sys.argv[1:])
    saved.save()
    print(saved.url)
'''

Panel = tuple[str, str, list[str]]


def workspace_script(benchmark: Benchmark, levels: Sequence[str], *, group: str, project: str) -> str:
    """Returns the text of the script.

    Args:
        benchmark: The benchmark of the run.
        levels: "overall" and the tasks, as "task=NAME".
        group: The name of the recipe; all runs of a recipe share it.
        project: The name of the project on W&B.
    """
    sections = [(level, _level_panels(level, benchmark)) for level in levels]
    sections.append(("cases", [("table", "", [f"{stage}/cases"]) for stage in ("final", "zero_shot")]))
    sections.append(("training", _training_panels()))
    return _SCRIPT.format(
        group=group,
        step=STEP,
        project=project,
        name=f"medtune {group}",
        sections=pprint.pformat(sections, width=110),
    )


def _level_panels(level: str, benchmark: Benchmark) -> list[Panel]:
    prefix = "" if level == OVERALL else f"{level}/"
    primary = benchmark.primary
    facet, _, name = level.partition("=")
    published = [
        f"{prefix}{PUBLISHED}/{reference.model}"
        for reference in benchmark.references()
        if (reference.facet, reference.level) == ((None, None) if level == OVERALL else (facet, name))
    ]
    band = [f"{prefix}val/{primary}{end}" for end in BAND]
    final = [f"{prefix}{stage}/{primary}" for stage in ("zero_shot", "final")]
    beside: Panel = ("lines", f"validation: {primary}; published: other models, other data", [band[0], *published])
    return [
        ("lines", f"validation: {primary} with its 95 % interval", band),
        *([beside] if published else []),
        ("bars", f"before and after: {primary}", final),
        ("bars", "after, ends of the 95 % interval", [f"{prefix}final/{primary}{end}" for end in BAND[1:]]),
    ]


def _training_panels() -> list[Panel]:
    return [
        ("lines", "loss", ["train/loss"]),
        ("lines", "gradient norm", ["train/gradient_norm"]),
        ("table", "", ["model/trainable parts"]),
    ]
