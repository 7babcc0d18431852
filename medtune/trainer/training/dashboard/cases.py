"""Rows of single answers, which the dashboard shows with their images.

A row names no patient and no file. If images are withheld, so is every free text of a source or a model (the wording of
the question, replies, answers without options), because reports may name patients too.
"""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import PIL.Image

from medtune.data.grouping import grouped
from medtune.data.media.load import preview
from medtune.data.readable import readable_question
from medtune.data.types import MediaRef, Prediction
from medtune.eval.metric import ParsedReply
from medtune.eval.predictions.files import read_predictions
from medtune.eval.statistics.calibration import option_probabilities
from medtune.trainer.training.dashboard.sent_facets import EVERY_FACET, TASK, WITHHELD_TASK, SentFacets

MAX_CASES = 64
MAX_SIDE_PX = 512
WITHHELD = "(withheld: log.images)"
COLUMNS = (
    "question id", "task", "image", "question", "options", "answer", "read", "right", "reply",
    "probability of each option", "probability of the answer",
)  # fmt: skip
CaseCell = str | bool | float | PIL.Image.Image | None


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
