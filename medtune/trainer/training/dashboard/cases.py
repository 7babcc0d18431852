"""What the dashboard shows: rows of single answers, the names of metrics and panels, and a script for W&B's workspace.

A row names no patient and no file. If images are withheld, so is every free text of a source or a model (the wording of
the question, replies, answers without options), because reports may name patients too. W&B makes one section of panels
for each first part of a name, so the facet comes first: "task=diagnosis/final/accuracy".
"""

import math
import pprint
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import PIL.Image

from medtune.data.grouping import grouped
from medtune.data.media.load import preview
from medtune.data.readable import readable_question
from medtune.data.types import MediaRef, Prediction
from medtune.eval.benchmark import Benchmark
from medtune.eval.metric import ParsedReply
from medtune.eval.predictions.files import read_predictions
from medtune.eval.statistics.calibration import option_probabilities
from medtune.trainer.throughput import PEAK_GB, QUESTIONS_PER_S, TARGETS_PER_S, TOKENS_PER_S, VISUAL_PER_S
from medtune.trainer.training.dashboard.sent_facets import EVERY_FACET, TASK, WITHHELD_TASK, SentFacets

MAX_CASES = 64
MAX_SIDE_PX = 512
WITHHELD = "(withheld: log.images)"
COLUMNS = (
    "question id", "task", "image", "question", "options", "answer", "read", "right", "reply",
    "probability of each option", "probability of the answer",
)  # fmt: skip
CaseCell = str | bool | float | PIL.Image.Image | None

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


class CaseAnswers(NamedTuple):
    """The model's answers to one question under the condition "image" in the first pass, by reading."""

    likelihood: Prediction | None  # The likelihoods of the options; None if this reading was not asked.
    generation: Prediction | None  # The generated reply; None if this reading was not asked.


UNASKED = CaseAnswers(None, None)


def case_rows(
    rows: Sequence[ParsedReply],
    media: Mapping[str, tuple[MediaRef, ...]],
    *,
    predictions: Path,
    images: bool,
    facets: SentFacets = EVERY_FACET,
) -> list[list[CaseCell]]:
    """Returns one row for each shown question, with the reply of the first pass, in the order of `COLUMNS`."""
    said = _answers_by_question(predictions)
    return [
        _row(row, media[row.question.media_id], said.get(row.question.id, UNASKED), images=images, facets=facets)
        for row in spread(rows)
    ]


def spread(rows: Sequence[ParsedReply], limit: int = MAX_CASES) -> list[ParsedReply]:
    """Returns at most `limit` rows, divided evenly over the tasks and evenly spaced in each.

    The same questions are chosen in every phase.
    """
    by_task = grouped(rows, lambda row: row.question.facets.get("task", ""))
    room, chosen = limit, set()
    for place, found in enumerate(sorted(by_task.values(), key=len)):
        share = min(len(found), math.ceil(room / (len(by_task) - place)))
        share = min(share, room)
        room -= share
        chosen |= {found[number * len(found) // share].question.id for number in range(share)}
    return [row for row in rows if row.question.id in chosen]


def _answers_by_question(path: Path) -> dict[str, CaseAnswers]:
    found: dict[str, CaseAnswers] = {}
    for prediction in read_predictions(path):
        key = prediction.key
        if key.condition == "image" and key.repeat == 0:
            earlier = found.get(key.question_id, UNASKED)
            found[key.question_id] = earlier._replace(**{key.reading: prediction})
    return found


def _row(
    row: ParsedReply, media: tuple[MediaRef, ...], said: CaseAnswers, *, images: bool, facets: SentFacets
) -> list[CaseCell]:
    question, task = row.question, row.question.facets.get(TASK, "")
    is_fixed, is_task_sent = bool(question.options), facets.takes(TASK, task)
    reply = said.generation.text if said.generation else None
    shares = _shares(said.likelihood, question.options)
    return [
        # `prepare` puts the task in front of an id.
        question.id if is_task_sent else question.id.rpartition("-")[2],
        task if is_task_sent else WITHHELD_TASK,
        _picture(media) if images and media else None,
        readable_question(question) if images else WITHHELD,
        " | ".join(question.options),
        question.answer if images or is_fixed else WITHHELD,
        row.parsed if images or is_fixed or row.parsed is None else WITHHELD,
        None if row.unscored else row.passes[0].correct,
        reply if images or reply is None else WITHHELD,
        " | ".join(f"{name} {share:.3f}" for name, share in sorted(shares.items(), key=lambda each: -each[1])),
        shares.get(question.answer),
    ]


def _shares(likelihood: Prediction | None, options: Sequence[str]) -> dict[str, float]:
    if likelihood is None or not likelihood.option_logprobs:
        return {}
    return dict(zip(likelihood.options_shown or options, option_probabilities(likelihood.option_logprobs), strict=True))


def _picture(media: tuple[MediaRef, ...]) -> PIL.Image.Image:
    picture = PIL.Image.fromarray(preview(media).pixels_HWC)
    picture.thumbnail((MAX_SIDE_PX, MAX_SIDE_PX))
    red, green, blue = picture.split()
    # W&B writes a grey picture as such in a third of the time.
    return red if red == green == blue else picture


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
