"""Makes the gallery: right and wrong answers with their images, up to a number of questions and of bytes.

Shapes: H height, W width, C channels.
"""

import base64
import io
import shlex
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import PIL.Image

from medtune.data.media.load import preview
from medtune.data.readable import readable_question, spoken
from medtune.data.types import MediaRef, Question
from medtune.eval.report.answers import CHANGES, AnsweredQuestion, answered_questions, chosen, with_replies
from medtune.eval.report.charts.bars import BarLink
from medtune.eval.report.run_data import RunData
from medtune.eval.report.table import phase_title

MAX_ITEMS = 60
MAX_IMAGE_BYTES = 4_000_000
LONG_SIDE_PX = 480
JPEG_QUALITY = 82
MAX_TEXT = 600
_LONGEST_EARLIER = 300
"""The most characters of earlier turns that are shown in front of a question."""

_CHANGE_TITLES = {
    "broken": "broken by training",
    "still wrong": "wrong before and after",
    "fixed": "fixed by training",
    "still right": "right before and after",
}


@dataclass(frozen=True, slots=True)
class Picture:
    uri: str | None  # The image as a data: URI; None if the gallery has no bytes left for it.
    width: int  # Width in pixels.
    height: int  # Height in pixels.
    alt: str  # The description for readers who cannot see the image.


NO_PICTURE = Picture(None, 0, 0, "")
"""Stands for the picture of a question without media."""


@dataclass(frozen=True, slots=True)
class OptionRow:
    text: str
    is_true: bool  # True if it is the right answer.
    # (title of the phase, probability), 0 to 1; empty if replies were only generated.
    probabilities: tuple[tuple[str, float], ...]
    chosen_by: tuple[str, ...]  # Titles of the phases whose answer it was.


@dataclass(frozen=True, slots=True)
class ShownReply:
    phase: str
    said: str | None  # The answer that the parser read; None if it could read none.
    outcome: str  # "right", "wrong", "unreadable", "graded" or "unscored".
    reply: str | None  # The generated text; None if there is none.


@dataclass(frozen=True, slots=True)
class Item:
    number: int  # Its place in the gallery, from 1.
    question_id: str
    task: str  # Its task in words; "" if it has none.
    question: str  # Its text, behind the earlier turns of its conversation.
    truth: str  # The right answer with its unit.
    outcome: str  # "right", "wrong", "graded" or "unscored" in the last phase.
    change: str  # The effect of training on the answer, in words; "" if there is none to tell.
    facets: tuple[tuple[str, str], ...]  # (name, level) of its other facets.
    groups: tuple[str, ...]  # "facet=level" of all its facets, as the files name them.
    options: tuple[OptionRow, ...]  # Its options in order.
    replies: tuple[ShownReply, ...]
    picture: Picture


@dataclass(frozen=True, slots=True)
class Gallery:
    items: tuple[Item, ...]
    num_questions: int
    num_patients: int | None  # Number of patients that they are about; None if the prepared folder is missing.
    counts: tuple[tuple[str, int], ...]  # (outcome or change in words, number of questions of the run).
    wrong: Mapping[str, int] = field(default_factory=dict)  # "facet=level" -> number of wrong answers in the run.
    phase: str = ""  # The last evaluation.
    passes: int = 1  # Number of times that each question was asked; the reply of the first pass is shown and counted.
    missing: str | None = None  # The reason why there are no questions; None if there are some.

    def first_wrong(self, facet: str) -> dict[str, BarLink]:
        """Returns for each level of a facet where the first of its wrong answers stands, if one is shown."""
        found: dict[str, list[int]] = {}
        for item in self.items:
            for group in item.groups if item.outcome == "wrong" else ():
                found.setdefault(group, []).append(item.number)
        links = {}
        for group, numbers in found.items():
            name, _, level = group.partition("=")
            if name == facet:
                command = f"medtune explain RUN {shlex.quote(f'phases.{self.phase}.by.{name}.{level}')} --all"
                links[level] = BarLink(numbers[0], group, len(numbers), self.wrong[group], command)
        return links

    @property
    def groups(self) -> dict[str, tuple[tuple[str, str], ...]]:
        """The levels that items have of each facet that is no task: (as items name it, in words)."""
        found: dict[str, dict[str, str]] = {}
        for group in sorted({group for item in self.items for group in item.groups}):
            name, _, level = group.partition("=")
            if name != "task":
                found.setdefault(spoken(name), {})[group] = spoken(level)
        return {name: tuple(levels.items()) for name, levels in found.items() if len(levels) > 1}

    @property
    def tasks(self) -> tuple[str, ...]:
        return tuple(sorted({item.task for item in self.items if item.task}))

    @property
    def changes(self) -> tuple[str, ...]:
        return tuple(title for title in _CHANGE_TITLES.values() if any(item.change == title for item in self.items))

    @property
    def outcomes(self) -> tuple[str, ...]:
        return tuple(sorted({item.outcome for item in self.items}, reverse=True))


def gallery(run: RunData) -> Gallery:
    """Returns the gallery; it is empty and gives the reason if the prepared folder is missing or has changed."""
    try:
        answered = answered_questions(run)
    except FileNotFoundError as error:
        if Path(error.filename or str(error).partition(":")[0]).is_relative_to(run.folder):
            raise
        return Gallery((), 0, None, (), missing=f"The prepared folder is not at hand ({error}).")
    except ValueError as error:
        if "prepared again since" not in str(error):
            raise
        return Gallery((), 0, None, (), missing=f"The prepared folder has changed ({error}).")
    picked = with_replies(run, chosen(answered, at_most=MAX_ITEMS))
    return Gallery(
        items=_items(picked),
        num_questions=len(answered),
        num_patients=len({one.question.patient_id for one in answered}),
        counts=_counts(answered),
        wrong=Counter(
            f"{name}={level}"
            for one in answered
            if _outcome(one) == "wrong"
            for name, level in one.question.facets.items()
        ),
        phase=[*run.phases][-1],
        passes=max(phase.overall.repeats for phase in run.phases.values()),
    )


def _items(picked: Sequence[AnsweredQuestion]) -> tuple[Item, ...]:
    uris: dict[str, Picture] = {}
    left = MAX_IMAGE_BYTES
    items = []
    for number, one in enumerate(picked, start=1):
        media_id = one.question.media_id
        known = uris.get(media_id) or (picture(one.media) if one.media else NO_PICTURE)
        uris[media_id] = known
        if known.uri and len(known.uri) > left:
            known = Picture(None, known.width, known.height, known.alt)
        left -= len(known.uri or "")
        items.append(_item(number, one, known))
    return tuple(items)


def picture(media: Sequence[MediaRef]) -> Picture:
    """Returns the images that are shown together with their boxes drawn, reduced to `LONG_SIDE_PX`, as a data URI."""
    shown = PIL.Image.fromarray(preview(media).pixels_HWC)
    shown.thumbnail((LONG_SIDE_PX, LONG_SIDE_PX), PIL.Image.Resampling.LANCZOS)
    encoded = io.BytesIO()
    # Without subsampling, because the thin red boxes would fade otherwise.
    shown.save(encoded, "JPEG", quality=JPEG_QUALITY, subsampling=0)
    uri = "data:image/jpeg;base64," + base64.b64encode(encoded.getvalue()).decode("ascii")
    num_boxes = sum(len(ref.boxes) for ref in media)
    boxes = {0: "", 1: " with a red box drawn on it"}.get(num_boxes, f" with {num_boxes} red boxes")
    which = "The image that was" if len(media) == 1 else f"The {len(media)} images that were"
    return Picture(uri, shown.width, shown.height, f"{which} asked about{boxes}")


def _item(number: int, one: AnsweredQuestion, shown: Picture) -> Item:
    question, titles = one.question, {name: phase_title(name) for name in one.answers}
    options = tuple(
        OptionRow(
            text=_cut(option),
            is_true=option == question.answer,
            probabilities=tuple(
                (titles[name], answer.probabilities[option])
                for name, answer in one.answers.items()
                if answer.probabilities
            ),
            chosen_by=tuple(titles[name] for name, answer in one.answers.items() if answer.said == option),
        )
        for option in question.options
    )
    replies = tuple(
        ShownReply(
            titles[name],
            None if answer.said is None else _cut(answer.said),
            answer.outcome,
            None if answer.reply is None else _cut(answer.reply),
        )
        for name, answer in one.answers.items()
    )
    return Item(
        number=number,
        question_id=question.id,
        task=spoken(question.facets.get("task", "")),
        question=asked_text(question),
        truth=_cut(question.answer + (f" {question.unit}" if question.unit else "")),
        outcome=_outcome(one),
        change=_CHANGE_TITLES.get(one.change, ""),
        facets=tuple((spoken(name), spoken(value)) for name, value in question.facets.items() if name != "task"),
        groups=tuple(f"{name}={value}" for name, value in question.facets.items()),
        options=options,
        replies=replies,
        picture=shown,
    )


def asked_text(question: Question) -> str:
    """Returns what was asked, cut to a readable length, behind the end of the conversation's earlier turns."""
    return readable_question(replace(question, text=_cut(question.text)), longest=_LONGEST_EARLIER)


def _outcome(one: AnsweredQuestion) -> str:
    return "wrong" if one.last.outcome == "unreadable" else one.last.outcome


def _counts(answered: Sequence[AnsweredQuestion]) -> tuple[tuple[str, int], ...]:
    changes = [one.change for one in answered]
    if any(changes):
        return tuple((_CHANGE_TITLES[name], changes.count(name)) for name in CHANGES if name)
    outcomes = [_outcome(one) for one in answered]
    return tuple((name, outcomes.count(name)) for name in ("wrong", "right", "graded", "unscored") if name in outcomes)


def _cut(text: str) -> str:
    return text if len(text) <= MAX_TEXT else f"{text[:MAX_TEXT]} ... ({len(text):,} characters)"
