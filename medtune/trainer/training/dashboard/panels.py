"""The names of metrics and panels on W&B, and the script of a workspace with these panels.

W&B makes one section of panels for each first part of a name, so the facet comes first:
"task=diagnosis/final/accuracy".
"""

import pprint
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from medtune.eval.benchmark import Benchmark
from medtune.trainer.throughput import PEAK_GB, QUESTIONS_PER_S, TARGETS_PER_S, TOKENS_PER_S, VISUAL_PER_S

STEP = "trainer/global_step"
PHASES = ("zero_shot", "val", "final")
OVERALL = "overall"
PUBLISHED = "published_other_model_other_data"
BAND = ("", "_ci95_low", "_ci95_high")
# A workspace exists only on W&B's server: it cannot be made offline, and an offline run cannot carry one. Its
# description can be made offline. It is a script that uses `wandb-workspaces`, a package of W&B that medtune does not
# need otherwise. After `wandb sync`, `python workspace.py ENTITY` saves the workspace. Only saving opens a connection
# (checked with wandb-workspaces 0.4.13 with sockets switched off).
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


@dataclass(frozen=True, slots=True)
class Definition:
    """How W&B shows one metric."""

    # Which of its points the table of runs shows, for instance "min,last" or "max,last"; None shows only the last.
    summary: str | None
    hidden: bool  # Whether the metric has no panel of its own.


def panel_name(name: str) -> str:
    """Returns the W&B name of a metric of metrics.csv.

    >>> panel_name("final/task=diagnosis/accuracy_n"), panel_name("final/accuracy"), panel_name("train/loss")
    ('task=diagnosis/final/accuracy_n', 'final/accuracy', 'train/loss')
    """
    phase, _, rest = name.partition("/")
    if phase not in PHASES or "=" not in rest:
        return name
    level, _, metric = rest.rpartition("/")
    return f"{level}/{phase}/{metric}"


def definition(name: str, benchmark: Benchmark) -> Definition:
    """Returns how W&B shows a metric; `name` is its name on W&B, as `panel_name` returns it."""
    metric = name.rsplit("/", 1)[-1]
    if metric == "loss":
        return Definition("min,last", hidden=False)
    if "val" in name.split("/") and metric in benchmark.metrics:
        return Definition(f"{'max' if benchmark.metrics[metric].higher_is_better else 'min'},last", hidden=False)
    return Definition(None, hidden=metric.endswith("_n"))


def reference_metrics(names: Iterable[str], benchmark: Benchmark) -> Mapping[str, float]:
    """Returns the published numbers to be logged with an evaluation, whose metrics have `names` in metrics.csv.

    Logged with every evaluation, they become horizontal lines in the panels. Their names say that they belong to other
    models and other data.
    """
    levels = {rest.rpartition("/")[0] for phase, _, rest in (n.partition("/") for n in names) if phase in PHASES}
    found = {}
    for reference in benchmark.references():
        level = "" if reference.facet is None else f"{reference.facet}={reference.level}"
        if level in levels:
            found["/".join(part for part in (level, PUBLISHED, reference.model) if part)] = reference.value
    return found


def workspace_script(benchmark: Benchmark, levels: Sequence[str], *, group: str, project: str) -> str:
    sections = [(level, _level_panels(level, benchmark)) for level in levels]
    sections.append(("cases", [("table", "", [f"{stage}/cases"]) for stage in ("final", "zero_shot")]))
    sections.append(("training", _training_panels()))
    return _SCRIPT.format(
        group=group, step=STEP, project=project, name=f"medtune {group}", sections=pprint.pformat(sections, width=110)
    )


def _level_panels(level: str, benchmark: Benchmark) -> list[Panel]:
    prefix = "" if level == OVERALL else f"{level}/"
    primary = benchmark.level_metric if prefix else benchmark.primary
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
        ("lines", "questions a second", [QUESTIONS_PER_S]),
        ("lines", "tokens a second", [TOKENS_PER_S, VISUAL_PER_S, TARGETS_PER_S]),
        ("lines", "peak memory, GB", [PEAK_GB]),
        ("table", "", ["model/trainable parts"]),
    ]
