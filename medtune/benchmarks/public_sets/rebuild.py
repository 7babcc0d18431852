"""Rebuilds a benchmark from public sets: reads a folder's sets, asks about each image, counts what is left out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from medtune.benchmarks.public_sets.public_set import Frame, SetTable, public_set, read_set, sub_folders
from medtune.data.catalog import nearest
from medtune.data.raw.folder import raw_folder
from medtune.data.raw.row_errors import Place, Reject, read_rows, repeat_rejects
from medtune.data.raw.source import Missing, Source, SourceTable, missing_media
from medtune.data.types import MediaRef, Question

SMALL_BELOW = 500
"""Fetal-Gauge's paper puts small sets into test as a whole and does not say which are small: this number is ours."""


@dataclass(frozen=True, slots=True)
class Subject:
    """An image to ask about; its split is the set's own, or test where the set is small or names no patients."""

    set_name: str
    frame: Frame
    place: Place
    is_phantom: bool
    seed: int

    @property
    def media_id(self) -> str:
        """Names the plain image."""
        return f"{self.set_name} {self.frame.name}"

    @property
    def patient_id(self) -> str:
        """Names the patient."""
        return f"{self.set_name} {self.frame.patient or self.frame.name}"

    def term(self, terms: Mapping[str, str | None], label: str, *, kind: str, file: str) -> str | None:
        """Returns the term for a label of the set; None where the table of terms says that it stands for nothing.

        Raises:
            RowError: The table in `file` does not know the label.
        """
        if label not in terms:
            said = f"the label {label!r} of {self.set_name} has no term in {file}.{nearest(label, terms)}"
            raise self.place.error(said, field=kind, media=self.frame.path)
        return terms[label]


@dataclass(frozen=True, slots=True)
class Asked:
    """A question and what it is about."""

    question: Question
    media: MediaRef


@dataclass(slots=True)
class _Gathered:
    questions: list[Question] = field(default_factory=list)
    media: dict[str, MediaRef] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    rejects: list[Reject] = field(default_factory=list)
    missing: list[Missing] = field(default_factory=list)


def rebuilt_source(
    title: str,
    url: str,
    *,
    sets: Sequence[str],
    ask: Callable[[Subject], Iterable[Asked]],
    left_out: Callable[[Frame], str],
    notes: tuple[str, ...] = (),
) -> Source:
    """Returns the source that reads one folder for each of the sets that are there.

    A set's own split is kept; of the others, one of fewer than 500 images, or that names neither patients nor films, is
    test as a whole, and the rest is split by patient. An image that cannot be read, or of which a label has no term, is
    rejected alone.

    Args:
        title: The source's title.
        url: The benchmark's address.
        sets: Names of the sets that it may be made from.
        ask: Gives the questions about an image, none where none fits it.
        left_out: Says why an image gave none, without naming it.
        notes: For the manifest, before those of the sets.
    """

    def read(root: Path | None, seed: int, scratch: Path) -> SourceTable:
        folder = raw_folder(root, holds=f"one folder per set ({', '.join(sets)})")
        gathered = _Gathered(notes=list(notes))
        for name, place in sub_folders(folder, sets).items():
            table = read_set(name, place, scratch)
            gathered.missing += missing_media(table.rejects, folder, fetch=public_set(name).url)
            _add_set(gathered, name, table, seed, ask, left_out)
        return SourceTable(
            tuple(gathered.questions),
            gathered.media,
            tuple(gathered.notes),
            tuple(gathered.rejects),
            tuple(gathered.missing),
        )

    def write_example(folder: Path) -> None:
        for name in sets:
            (folder / name).mkdir(parents=True, exist_ok=True)
            public_set(name).write_example(folder / name)

    return Source(
        title=title,
        licence="that of each set: " + "; ".join(f"{name} {public_set(name).licence}" for name in sets),
        url=url,
        provenance="reconstruction",
        patient_unit="by set: " + "; ".join(f"{name}: {public_set(name).patient_unit}" for name in sets),
        read=read,
        write_example=write_example,
    )


def _add_set(
    gathered: _Gathered,
    name: str,
    table: SetTable,
    seed: int,
    ask: Callable[[Subject], Iterable[Asked]],
    left_out: Callable[[Frame], str],
) -> None:
    of_name, is_small = public_set(name), len(table.frames) < SMALL_BELOW
    without_split = [frame for frame in table.frames if frame.split is None]
    # Frames of one patient or film could come to lie on both sides.
    undivided = sum(frame.patient is None for frame in without_split)
    frames = [
        replace(frame, split="test") if frame.split is None and (is_small or frame.patient is None) else frame
        for frame in table.frames
    ]
    subjects = [
        Subject(name, frame, Place(name, number), of_name.is_phantom, seed)
        for number, frame in enumerate(frames, start=1)
    ]
    asked, unknown = read_rows(subjects, lambda subject: (subject.frame, list(ask(subject))))
    for each in (each for _, of_frame in asked for each in of_frame):
        gathered.questions.append(each.question)
        gathered.media[each.question.media_id] = each.media
    num_questions = sum(len(of_frame) for _, of_frame in asked)
    gathered.rejects += repeat_rejects((*table.rejects, *unknown), made=num_questions, of=len(asked))
    where = f", {undivided} of them in test: they name neither patients nor films" if undivided else ""
    if is_small and without_split:
        where = f", all in test: fewer than {SMALL_BELOW}"
    gathered.notes.append(f"{name} ({of_name.title}): {len(table.frames)} images{where}")
    gathered.notes += (f"{name}: {note}" for note in table.notes)
    why = Counter(left_out(frame) for frame, of_frame in asked if not of_frame)
    gathered.notes += (f"{name}: {count} images left out: {said}" for said, count in why.items())
