"""Fetal-Gauge rebuilt from public sets: planes, completeness, orientation and red boxes, as the paper describes them.

Layout: one folder (or link) per set that you have, named as in medtune/data/sets: acouslic, fetal_planes_db, fpus23,
hc18, jnu_ifm, pbf_us1, psfhs. Each holds its release as it was published. All of them become one prepared folder, so
that an image that two sets share is found, and their patients stay in one split.

Source: Alasmawi et al., arXiv 2512.22278, sections on construction. Which 13 sets the paper used, its prompts and its
splits are not published: questions and terms are ours.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from medtune.data.catalog import nearest
from medtune.data.choices import choice_question
from medtune.data.masks import box_size
from medtune.data.public_set import Frame, PublicSet, public_set, read_set, sub_folders
from medtune.data.raw_folder import raw_folder
from medtune.data.source import Source, SourceTable
from medtune.data.sources.fetal_gauge_rebuilt import vocabulary
from medtune.data.sources.fetal_phantom.questions import ORIENTATION_TEXT, ORIENTATION_WORDS
from medtune.data.types import Box, MediaRef, Question, Split

SETS = ("acouslic", "fetal_planes_db", "fpus23", "hc18", "jnu_ifm", "pbf_us1", "psfhs")
PLANE_TEXT = "Which plane does this ultrasound image show?"
VIEW_TEXT = "Is this view of the fetal abdomen complete enough to measure the abdominal circumference?"
GROUNDING_TEXT = "What does the red bounding box mark?"
NUM_OPTIONS = 4
# The paper puts small sets into test as a whole and does not say which are small: this number of images is ours.
SMALL_BELOW = 500


class _Subject(NamedTuple):
    """What is asked about, and what all its questions share."""

    set_name: str
    frame: Frame
    is_phantom: bool
    split: Split | None
    seed: int

    @property
    def media_id(self) -> str:
        return f"{self.set_name} {self.frame.name}"

    def ask(
        self, task: str, text: str, answer: str, labels: tuple[str, ...], *, box: Box | None = None, number: int = 0
    ) -> Question:
        media_id = self.media_id if box is None else f"{self.media_id} boxed {number}"
        facets = {"task": task, "phantom": "yes" if self.is_phantom else "no", "set": self.set_name}
        if box:
            facets["box_size"] = box_size(box, *self.frame.size)
        if task == "plane_identification":
            facets["plane"] = answer
        return choice_question(
            f"{media_id} {task}",
            media_id=media_id,
            text=text,
            answer=answer,
            labels=labels,
            patient_id=f"{self.set_name} {self.frame.patient}",
            facets=facets,
            seed=self.seed,
            num_options=NUM_OPTIONS,
            split=self.split,
        )


def source() -> Source:
    """Returns the source."""
    return Source(
        title="Fetal-Gauge, rebuilt from public sets",
        licence="that of each set: " + "; ".join(f"{name} {public_set(name).licence}" for name in SETS),
        url="https://arxiv.org/abs/2512.22278",
        provenance="reconstruction",
        patient_unit="by set: " + "; ".join(f"{name}: {public_set(name).patient_unit}" for name in SETS),
        read=_read,
        write_example=_write_example,
    )


def _read(root: Path | None, seed: int, scratch: Path) -> SourceTable:
    """Returns four of the five tasks; clinical diagnosis needs a set that none of these is.

    A set of fewer than 500 images is test as a whole, a set's own split is kept, and the rest is split by patient.

    Raises:
        FileNotFoundError: A file of a set is missing.
        ValueError: No set is there, or a file or label is not as documented.
    """
    folder = raw_folder(root, holds=f"one folder per set ({', '.join(SETS)})")
    questions: list[Question] = []
    media: dict[str, MediaRef] = {}
    notes: list[str] = []
    for name, place in sub_folders(folder, SETS).items():
        of_name = public_set(name)
        table = read_set(name, place, scratch)
        is_small = len(table.frames) < SMALL_BELOW
        asked = Counter[str]()
        for frame in table.frames:
            split: Split | None = "test" if is_small and frame.split is None else frame.split
            found = list(_questions(_Subject(name, frame, of_name.is_phantom, split, seed)))
            asked[_left_out(frame) if not found else "asked"] += 1
            for question, ref in found:
                questions.append(question)
                media[question.media_id] = ref
        notes += _notes(name, of_name, table.notes, asked, is_test=is_small and table.frames[0].split is None)
    return SourceTable(tuple(questions), media, tuple(notes))


def _notes(
    name: str, of_name: PublicSet, own: tuple[str, ...], asked: Mapping[str, int], *, is_test: bool
) -> Iterator[str]:
    total = sum(asked.values())
    where = f", all in test: fewer than {SMALL_BELOW}" if is_test else ""
    yield f"{name} ({of_name.title}): {total} images{where}"
    yield from (f"{name}: {note}" for note in own)
    yield from (f"{name}: {count} images left out: {why}" for why, count in asked.items() if why != "asked")


def _left_out(frame: Frame) -> str:
    labels = ", ".join(f"{kind} {label!r}" for kind, label in sorted(frame.labels.items())) or "no label"
    return f"{labels} stands for no term of the benchmark, and there is no box"


def _questions(subject: _Subject) -> Iterator[tuple[Question, MediaRef]]:
    frame = subject.frame
    plain = MediaRef(frame.path)
    if "plane" in frame.labels:
        answer = _term(vocabulary.PLANES[subject.set_name], frame.labels["plane"], subject)
        if answer:
            labels = vocabulary.offered_planes(subject.set_name, answer)
            yield subject.ask("plane_identification", PLANE_TEXT, answer, labels), plain
    if "view" in frame.labels:
        answer = _term(vocabulary.VIEWS, frame.labels["view"], subject)
        if answer:
            yield subject.ask("view_completeness", VIEW_TEXT, answer, ("complete", "incomplete")), plain
    if "orientation" in frame.labels:
        answer = _term(
            {str(key): words for key, words in ORIENTATION_WORDS.items()}, frame.labels["orientation"], subject
        )
        if answer:
            yield subject.ask("fetal_orientation", ORIENTATION_TEXT, answer, tuple(ORIENTATION_WORDS.values())), plain
    for number, (label, box) in enumerate(frame.boxes):
        answer = _term(vocabulary.STRUCTURES[subject.set_name], label, subject)
        if answer:
            question = subject.ask(
                "visual_grounding", GROUNDING_TEXT, answer, vocabulary.ALL_STRUCTURES, box=box, number=number
            )
            yield question, MediaRef(frame.path, (box,))


def _term(terms: Mapping[str, str | None] | Mapping[str, str], label: str, subject: _Subject) -> str | None:
    if label not in terms:
        raise ValueError(
            f"{subject.frame.path}: the label {label!r} of {subject.set_name} has no term.{nearest(label, terms)} "
            "Add it to medtune/data/sources/fetal_gauge_rebuilt/vocabulary.py."
        )
    return terms[label]


def _write_example(folder: Path) -> None:
    """Writes the examples of all sets, each in its folder."""
    for name in SETS:
        (folder / name).mkdir(parents=True, exist_ok=True)
        public_set(name).write_example(folder / name)
