"""M3D-VQA: the released tables of questions, M3D-Cap's arrays, and a file with the meaning of their values.

    M3D_VQA_*.csv               tables of questions (train, yn_train, val, test, test5k), here or in the folder M3D-VQA
    M3D_Cap_npy/...             the arrays, at the paths in the tables' column "Image Path"
    volumes.json                {"hu_window": [low, high], "spacing_mm": [slices, rows, columns]}, written by the user,
                                because the release states neither; see
                                medtune/data/media/volumes/formats/scaled_array.py

A row holds a question in both formats and becomes two questions, one with options and one without. The splits are those
of the release. The table test5k is a part of test and is left out if test is there.

Source: HF GoodBaiBai88/M3D-VQA; BAAI-DCAI/M3D, Bench/dataset/multi_dataset.py and Data/process (the columns).

Reads the rows of M3D-VQA's tables, whose columns are renamed to one spelling.

Source: the header that BAAI-DCAI/M3D, Data/process/m3d_vqa_data_generation.py writes: Image Path, Text, Question Type,
Question, Choice A to Choice D, Answer, Answer Choice. A missing choice is written as NA.
"""

import csv
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from medtune.data.media.volumes.formats.scaled_array import ARRAY_SUFFIX, read_meaning
from medtune.data.raw.folder import raw_folder
from medtune.data.raw.rows import Row
from medtune.data.raw.source import Missing, Place, Source, SourceTable, read_rows
from medtune.data.readable import folded
from medtune.data.types import MediaRef, Question, Split

CHOICES = "ABCD"
_FOLDERS = (".", "M3D-VQA", "M3D_VQA")
_SPLITS: Mapping[str, Split] = {
    "train": "train", "val": "val", "valid": "val", "validation": "val", "test": "test", "test5k": "test",
}  # fmt: skip
_NEEDED = frozenset({"image_path", "question"})
SPELLINGS: Mapping[str, str] = {"image": "image_path", "type": "question_type", "answer_option": "answer_choice"}
"""Our name of a column by its other spellings, in small letters with underscores."""
_EMPTY = frozenset({"", "na", "nan"})
"""The texts of empty cells, in small letters. "none" is not among them, because "None" is a choice of a question."""
_LARGEST_FIELD = 1 << 24
"""The largest number of characters in a cell; the column Text may hold a report of several pages."""

TASKS: Mapping[str, str] = {"1": "plane", "2": "phase", "3": "organ", "4": "abnormality", "5": "location"}
CAP = "https://huggingface.co/datasets/GoodBaiBai88/M3D-Cap"
_LETTER = re.compile(r"\W*([A-Da-d])\W*")


def question_files(root: Path) -> list[Path]:
    """Returns the tables of questions in a folder."""
    files = [file for folder in _FOLDERS for file in sorted((root / folder).glob("*.csv"))]
    return [file for file in files if {_ours(cell) for cell in next(_cells(file), [])} >= _NEEDED]


def table_rows(root: Path, file: Path) -> Iterator[Row]:
    name = str(file.relative_to(root))
    for line, cells in enumerate(_cells(file), start=0):
        if line == 0:
            columns = [_ours(cell) for cell in cells]
        elif cells:
            yield Row(Place(name, line), dict(zip(columns, cells, strict=False)))


def split_of(file: Path) -> Split | None:
    """Returns the split that a table's file name states; None if it states none.

    >>> [split_of(Path(f"M3D_VQA_{name}.csv")) for name in ("yn_train", "val", "test5k", "all")]
    ['train', 'val', 'test', None]
    """
    return next((_SPLITS[word] for word in re.split(r"[^a-z0-9]+", file.stem.lower()) if word in _SPLITS), None)


def _cells(file: Path) -> Iterator[list[str]]:
    csv.field_size_limit(_LARGEST_FIELD)
    try:
        with file.open(encoding="utf-8-sig", newline="") as opened:
            yield from csv.reader(opened)
    except (csv.Error, UnicodeDecodeError) as error:
        raise ValueError(f"{file}: a damaged table ({type(error).__name__}: {error}). Download it again.") from error


def _ours(name: str) -> str:
    plain = re.sub(r"[\s_\-]+", "_", name.strip().lower())
    return SPELLINGS.get(plain, plain)


def source() -> Source:
    return Source(
        title="M3D-VQA",
        licence="Apache-2.0 (questions); volumes as M3D-Cap states",
        url="https://huggingface.co/datasets/GoodBaiBai88/M3D-VQA",
        provenance="released",
        patient_unit="the case: the folder that holds its volumes",
        read=_read,
        read_questions=partial(_read, needs_media=False),
    )


def _said(row: Row, name: str) -> str:
    said = str(row.values.get(name, "")).strip()
    return "" if said.lower() in _EMPTY else said


class _Choices(NamedTuple):
    options: tuple[str, ...]
    right: str


@dataclass(slots=True)
class _Reader:
    root: Path
    needs_media: bool
    media: dict[str, tuple[MediaRef, ...]] = field(default_factory=dict)
    missing: dict[str, Missing] = field(default_factory=dict)
    counts: Counter[str] = field(default_factory=Counter)

    def choice(self, row: Row, split: Split | None) -> Question:
        options, right = _choices(row)
        answer = _said(row, "answer")
        differs = bool(answer) and folded(answer.strip(" .")) != folded(right.strip(" ."))
        self.counts["whose answer in words is not the choice of its letter, which counts"] += differs
        return self._question(row, split, "multi_choice", options, right)

    def free(self, row: Row, split: Split | None) -> Question:
        answer = _said(row, "answer")
        if not answer:
            raise row.place.error("wanted an answer, the cell is empty", field="Answer")
        return self._question(row, split, "free_text", (), answer)

    def _question(self, row: Row, split: Split | None, kind: str, options: tuple[str, ...], answer: str) -> Question:
        text, written = _said(row, "question"), _said(row, "image_path")
        if not text:
            raise row.place.error("wanted a question, the cell is empty", field="Question")
        task = TASKS.get(_said(row, "question_type").removesuffix(".0"))
        if task is None:
            said = _said(row, "question_type")
            raise row.place.error(f"wanted a number from 1 to {len(TASKS)}, got {said!r}", field="Question Type")
        if written not in self.media:
            self.media[written] = (self._volume(row, written),)
        return Question(
            id=f"{row.place.file} {row.place.row} {kind}",
            media_id=written,
            text=text,
            options=options,
            answer=answer,
            answer_kind="choice" if options else "text",
            patient_id=str(PurePosixPath(written).parent),
            facets={"task": task, "format": kind},
            split=split,
        )

    def _volume(self, row: Row, written: str) -> MediaRef:
        path = PurePosixPath(written)
        if not written or path.is_absolute() or ".." in path.parts or path.suffix != ARRAY_SUFFIX:
            raise row.place.error(
                f"wanted the path of a {ARRAY_SUFFIX} file in the folder, got {written!r}", field="Image Path"
            )
        if self.needs_media and not (self.root / path).is_file():
            self.missing.setdefault(written, Missing(written, CAP))
            raise row.place.error(
                "its volume is not in the folder (list what to fetch with --list-missing)", field="Image Path"
            )
        return MediaRef(self.root / path, kind="volume")


def _choices(row: Row) -> _Choices:
    lettered = {letter: words for letter in CHOICES if (words := _said(row, f"choice_{letter.lower()}"))}
    options = tuple(lettered.values())
    if len(options) < 2 or len(set(options)) < len(options):
        raise row.place.error(f"wanted two or more different choices, got {len(set(options))}", field="Choice A")
    said, answer = _said(row, "answer_choice"), _said(row, "answer")
    found = _LETTER.fullmatch(said)
    right = lettered.get(found[1].upper()) if found else None
    if right is None and not said and answer in options:
        right = answer
    if right is None:
        raise row.place.error(f"{said!r} is none of the choices {', '.join(lettered)}", field="Answer Choice")
    return _Choices(options, right)


def _read(root: Path | None, seed: int, scratch: Path, *, needs_media: bool = True) -> SourceTable:
    folder = raw_folder(root, holds="M3D-VQA's tables, M3D-Cap's arrays and volumes.json")
    files = question_files(folder)
    if not files:
        raise ValueError(
            f"{folder}: wanted a .csv table with columns Image Path and Question, here or in M3D-VQA, found none."
        )
    meaning = read_meaning(folder)
    taken = [file for file in files if not (_is_part(file) and any(_is_test(other) for other in files))]
    reader = _Reader(folder, needs_media)
    splits = {file: split_of(file) for file in taken}
    if None in splits.values() and len(set(splits.values())) > 1:
        raise ValueError(f"{folder}: some tables' names state a split and some do not. Move those apart that do not.")
    asked = (
        partial(ask, row, splits[file])
        for file in taken
        for row in table_rows(folder, file)
        for ask in (reader.choice, reader.free)
    )
    read = read_rows(asked, lambda ask: ask())
    low, high = meaning.hu_window
    sizes = " x ".join(f"{size:g}" for size in meaning.spacing_mm)
    notes = [
        f"values 0 to 1 are taken as {low:g} to {high:g} HU, voxels as {sizes} mm and axes as {meaning.orientation}, "
        "as volumes.json says: the release states none of it",
        *(f"{count} questions {what}" for what, count in sorted(reader.counts.items()) if count),
    ]
    if len(taken) < len(files):
        notes.append("the table test5k is a part of test, and was left out")
    missing = tuple(reader.missing.values())
    return SourceTable(read.taken, reader.media, tuple(notes), read.rejects, missing, stands_for_patient="case")


def _is_part(file: Path) -> bool:
    return "test5k" in file.stem.lower()


def _is_test(file: Path) -> bool:
    return split_of(file) == "test" and not _is_part(file)
