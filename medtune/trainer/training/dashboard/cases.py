"""Shows single answers as rows of a W&B table, without the texts and images that may not leave the machine.

A row names no patient and no file. If images are withheld, so is every free text of a source or a model (the wording of
the question, replies, answers without options), because reports may name patients too.

Gives each metric its name on W&B, and says how W&B shows it.

W&B makes one section of panels for each first part of a name. The facet therefore comes first there:
"final/task=diagnosis/accuracy" becomes "task=diagnosis/final/accuracy", and all phases of a task stand together without
being arranged by hand.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import PIL.Image

from medtune.data.media.load import preview
from medtune.data.readable import readable_question
from medtune.data.types import MediaRef, Prediction
from medtune.eval.benchmark import Benchmark
from medtune.eval.parsed_reply import ParsedReply
from medtune.eval.predictions.files import read_predictions
from medtune.eval.statistics.calibration import option_probabilities

MAX_CASES = 64
MAX_SIDE_PX = 512
WITHHELD = "(withheld: log.images)"
COLUMNS = (
    "question id",
    "task",
    "image",
    "question",
    "options",
    "answer",
    "read",
    "right",
    "reply",
    "probability of each option",
    "probability of the answer",
)
Cell = str | bool | float | PIL.Image.Image | None


class Said(NamedTuple):
    """The model's answers to one question under the condition "image" in the first pass, by reading.

    Attributes:
        likelihood: The likelihoods of the options; None if this reading was not asked.
        generation: The generated reply; None if this reading was not asked.
    """

    likelihood: Prediction | None
    generation: Prediction | None


UNASKED = Said(None, None)


def case_rows(
    rows: Sequence[ParsedReply], media: Mapping[str, tuple[MediaRef, ...]], *, predictions: Path, images: bool
) -> list[list[Cell]]:
    """Returns one row for each shown question, with the reply of the first pass, in the order of `COLUMNS`.

    Args:
        rows: The scored replies of a phase.
        media: The media items that are shown together, by media id.
        predictions: The path of the phase's predictions.jsonl.
        images: Whether images and free texts may be shown.
    """
    said = _said(predictions)
    return [
        _row(row, media[row.question.media_id], said.get(row.question.id, UNASKED), images=images)
        for row in spread(rows)
    ]


def spread(rows: Sequence[ParsedReply], limit: int = MAX_CASES) -> list[ParsedReply]:
    """Returns at most `limit` rows, divided evenly over the tasks and evenly spaced in each.

    The same questions are chosen in every phase.
    """
    by_task: dict[str, list[ParsedReply]] = {}
    for row in rows:
        by_task.setdefault(row.question.facets.get("task", ""), []).append(row)
    room, chosen = limit, set()
    for place, found in enumerate(sorted(by_task.values(), key=len)):
        share = min(len(found), math.ceil(room / (len(by_task) - place)))
        share = min(share, room)
        room -= share
        chosen |= {found[number * len(found) // share].question.id for number in range(share)}
    return [row for row in rows if row.question.id in chosen]


def _said(path: Path) -> dict[str, Said]:
    found: dict[str, Said] = {}
    for prediction in read_predictions(path):
        key = prediction.key
        if key.condition == "image" and key.repeat == 0:
            earlier = found.get(key.question_id, UNASKED)
            found[key.question_id] = earlier._replace(**{key.reading: prediction})
    return found


def _row(row: ParsedReply, media: tuple[MediaRef, ...], said: Said, *, images: bool) -> list[Cell]:
    question = row.question
    is_fixed = bool(question.options)
    reply = said.generation.text if said.generation else None
    shares = _shares(said.likelihood, question.options)
    return [
        question.id,
        question.facets.get("task", ""),
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
    return picture


STEP = "trainer/global_step"
PHASES = ("zero_shot", "val", "final")
OVERALL = "overall"
PUBLISHED = "published_other_model_other_data"
BAND = ("", "_ci95_low", "_ci95_high")


@dataclass(frozen=True, slots=True)
class Definition:
    """How W&B shows one metric.

    Attributes:
        summary: Which of its points the table of runs shows, for instance "min,last" or "max,last"; None shows only the
            last.
        hidden: Whether the metric has no panel of its own.
    """

    summary: str | None
    hidden: bool


def panel_name(name: str) -> str:
    """Returns the W&B name of a metric of metrics.csv.

    Example:
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
