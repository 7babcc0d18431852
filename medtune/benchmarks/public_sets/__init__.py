"""Readers of public image sets, and the code that turns such sets into the questions of a benchmark.

Several benchmarks are rebuilt from these sets, because their own questions were not published. A set's labels stay in
the set's own words here; each benchmark translates them into its own terms.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import NamedTuple

from medtune.data import catalog
from medtune.data.catalog import nearest
from medtune.data.raw.folder import raw_folder
from medtune.data.raw.source import (
    Missing,
    Place,
    Reject,
    Source,
    SourceTable,
    missing_media,
    read_rows,
    repeat_rejects,
)
from medtune.data.types import Box, MediaRef, Question, Size, Split

SMALL_BELOW = 500
"""Sets with fewer images than this are used as test data only.

Fetal-Gauge's paper treats small sets in this way, but does not say which sets are small; the number is our own choice.
"""


class Marked(NamedTuple):
    """A structure that is marked in an image."""

    label: str  # The set's own label of the structure.
    box: Box  # The smallest box around the structure, in pixels.


@dataclass(frozen=True, slots=True)
class Frame:
    """One image of a set, with everything that the set's files state about it."""

    name: str  # A name that is unique in the set.
    path: Path
    # An identifier of the patient, or of the unit that stands for a patient (a film or a study); None if the release
    # does not state it. The image then counts as a patient of its own.
    patient: str | None
    size: Size  # Width and height of the image in pixels.
    # The set's own labels by their kind: plane, orientation, view, landmarks or diagnosis.
    labels: Mapping[str, str] = field(default_factory=dict)
    # The marked structures, each with the smallest box around it; empty if none is marked.
    boxes: tuple[Marked, ...] = ()
    # Measured values by name; the name ends with the unit, e.g. {"hc_mm": 175.2}.
    values: Mapping[str, float] = field(default_factory=dict)
    # Facts by which scores may be broken down but about which no question asks, e.g. {"scanner": "Voluson E6"}.
    facets: Mapping[str, str] = field(default_factory=dict)
    split: Split | None = None  # The split that the set's authors gave the image; None if they published no split.


class SetTable(NamedTuple):
    """All images that were read from a set's folder."""

    frames: tuple[Frame, ...]
    # Sentences for the manifest that say which images were left out on purpose and how many, without file names.
    notes: tuple[str, ...] = ()
    # The images that could not be read, with their places relative to the set's folder. A broken file that would have
    # given several images counts as many times as such a file gives images on average.
    rejects: tuple[Reject, ...] = ()


@dataclass(frozen=True, slots=True)
class PublicSet:
    """One public image set and the functions that read it."""

    title: str
    licence: str
    url: str  # The address from which the set can be downloaded.
    patient_unit: str  # The unit that stands for a patient, in words.
    stands_for_patient: str  # What `Frame.patient` names, as a noun: "patient", or what stands for one, e.g. "film".
    is_phantom: bool  # Whether the images show a phantom instead of patients.
    # Takes the set's folder and an empty scratch folder, and returns the table of images. Frames that are extracted
    # from files with several frames are written as images into the scratch folder.
    read: Callable[[Path, Path], SetTable]


def public_set(name: str) -> PublicSet:
    return catalog.made(catalog.PUBLIC_SETS, name, PublicSet)


def read_set(name: str, folder: Path, scratch: Path) -> SetTable:
    """Returns the table of images in a set's folder; extracted frames go into a new folder in `scratch`."""
    own = scratch / name
    own.mkdir()
    table = public_set(name).read(folder, own)
    if not table.frames and not table.rejects:
        raise ValueError(f"{folder}: wanted the images of {name}, the folder is empty. Copy the release into it.")
    rejects = tuple(replace(reject, file=f"{name}/{reject.file}".rstrip("/")) for reject in table.rejects)
    return table._replace(rejects=rejects)


def sub_folders(root: Path, names: Iterable[str]) -> dict[str, Path]:
    """Returns the set folders in `root` by set name, in the order of `names`; each folder is named like its set."""
    known = list(names)
    found = {name: root / name for name in known if (root / name).is_dir()}
    odd = sorted(path.name for path in root.iterdir() if path.name not in found and not path.name.startswith("."))
    if odd or not found:
        got = f"got {odd[0]!r}.{catalog.nearest(odd[0], known)}" if odd else "there is none."
        raise ValueError(f"{root}: wanted one folder per set, named {', '.join(known)} (links will do), {got}")
    return found


@dataclass(frozen=True, slots=True)
class SetImage:
    """An image about which questions are asked."""

    set_name: str
    # The image. Its split is the set's own, "test" if the set is small or names no patients, and None if the patients
    # are still to be split.
    frame: Frame
    place: Place  # The position of the image in its set, for error messages.
    is_phantom: bool
    seed: int  # The seed from which the order of options is drawn.

    @property
    def media_id(self) -> str:
        """The name under which questions refer to the image without boxes drawn on it."""
        return f"{self.set_name} {self.frame.name}"

    @property
    def patient_id(self) -> str:
        """The identifier of the patient: unique over all sets, and the image's name if no patient is known."""
        return f"{self.set_name} {self.frame.patient or self.frame.name}"

    def term(self, terms: Mapping[str, str | None], label: str, *, kind: str, file: str) -> str | None:
        """Returns the benchmark's term for a label of the set; None if the benchmark does not ask about this label."""
        if label not in terms:
            said = f"the label {label!r} of {self.set_name} has no term in {file}.{nearest(label, terms)}"
            raise self.place.error(said, field=kind, media=self.frame.path)
        return terms[label]


@dataclass(frozen=True, slots=True)
class ImageQuestion:
    """A question, and the image that it is about, with the boxes that are drawn on it."""

    question: Question
    media: MediaRef


@dataclass(slots=True)
class _Gathered:
    questions: list[Question] = field(default_factory=list)
    media: dict[str, tuple[MediaRef, ...]] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    rejects: list[Reject] = field(default_factory=list)
    missing: list[Missing] = field(default_factory=list)
    units: set[str] = field(default_factory=set)


def rebuilt_source(
    title: str,
    url: str,
    *,
    sets: Sequence[str],
    ask: Callable[[SetImage], Iterable[ImageQuestion]],
    left_out: Callable[[Frame], str],
    notes: tuple[str, ...] = (),
) -> Source:
    """Returns a source that rebuilds a benchmark from public sets, each in a folder with the set's name.

    The user may have only some of the sets. If a set has a published split, that split is kept. Otherwise the whole set
    becomes test data if it has fewer than 500 images or names neither patients nor films; all other sets are split by
    patient. An image that cannot be read, or whose label the benchmark does not know, is rejected without affecting
    the other images.

    Args:
        left_out: Returns the reason why an image gave no question, in words that do not name the image.
        notes: Sentences for the manifest that come before those of the sets.
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
            " or ".join(sorted(gathered.units)) or "patient",
        )

    return Source(
        title=title,
        licence="that of each set: " + "; ".join(f"{name} {public_set(name).licence}" for name in sets),
        url=url,
        provenance="reconstruction",
        patient_unit="by set: " + "; ".join(f"{name}: {public_set(name).patient_unit}" for name in sets),
        read=read,
    )


def _add_set(
    gathered: _Gathered,
    name: str,
    table: SetTable,
    seed: int,
    ask: Callable[[SetImage], Iterable[ImageQuestion]],
    left_out: Callable[[Frame], str],
) -> None:
    of_name, is_small = public_set(name), len(table.frames) < SMALL_BELOW
    without_split = [frame for frame in table.frames if frame.split is None]
    # Without patients, frames of one film could end up both in training and in test data.
    undivided = sum(frame.patient is None for frame in without_split)
    frames = [
        replace(frame, split="test") if frame.split is None and (is_small or frame.patient is None) else frame
        for frame in table.frames
    ]
    subjects = [
        SetImage(name, frame, Place(name, number), of_name.is_phantom, seed)
        for number, frame in enumerate(frames, start=1)
    ]
    asked, unknown = read_rows(subjects, lambda subject: (subject.frame, list(ask(subject))))
    for each in (each for _, of_frame in asked for each in of_frame):
        gathered.questions.append(each.question)
        gathered.media[each.question.media_id] = (each.media,)
    gathered.units |= {
        "image" if frame.patient is None else of_name.stands_for_patient for frame, of_frame in asked if of_frame
    }
    num_questions = sum(len(of_frame) for _, of_frame in asked)
    gathered.rejects += repeat_rejects((*table.rejects, *unknown), made=num_questions, of=len(asked))
    where = f", {undivided} of them in test: they name neither patients nor films" if undivided else ""
    if is_small and without_split:
        where = f", all in test: fewer than {SMALL_BELOW}"
    gathered.notes.append(f"{name} ({of_name.title}): {len(table.frames)} images{where}")
    gathered.notes += (f"{name}: {note}" for note in table.notes)
    why = Counter(left_out(frame) for frame, of_frame in asked if not of_frame)
    gathered.notes += (f"{name}: {count} images left out: {said}" for said, count in why.items())
