"""Fetal-Gauge: multiple-choice questions in five tasks about fetal ultrasound images, as JSON lines and image files.

The benchmark's files are not released yet, so this layout is our own. When they are, `columns.json` can map our names
to theirs:

    questions.jsonl     one object on each line; several *.jsonl files are read in the order of their names
    images/...          the images, at the paths in the rows' image column, relative to the folder
    columns.json        optional: {"our name": "their name"}, for names that differ

Our names; every row needs those with *:

    id*         unique in the folder
    image*      path of the image, relative to the folder
    question*   the question's text
    options*    list of two or more different texts, in the order to show
    answer*     one of the options, or its letter (A is the first)
    task*       plane_identification, view_completeness, fetal_orientation, clinical_diagnosis or visual_grounding, or
                the paper's PI, VC, FO, CD, VG
    split       train, val or test, in all rows or in none; a stated split is kept
    patient     an identifier of the patient; without it each image counts as one patient
    phantom     true, false, "yes" or "no"
    boxes       list of [x0, y0, x1, y1] in pixels, x1 and y1 exclusive, to be drawn in red; leave it out if the image
                file already contains the red rectangle
    box_size    small, medium or large, as released; without it the size is measured from the first of `boxes`

Source: Alasmawi et al., Fetal-Gauge, arXiv 2512.22278; github.com/BioMedIA-MBZUAI/FETAL-GAUGE ("Data will be published
soon", 2026-01-29).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from medtune.data.catalog import nearest
from medtune.data.media.images import image_size
from medtune.data.media.masks import box_size
from medtune.data.raw.folder import raw_folder
from medtune.data.raw.row_errors import Place, Reject, RowError
from medtune.data.raw.source import Source, SourceTable, missing_media
from medtune.data.types import SPLITS, Box, MediaRef, Question, Split

REQUIRED = ("id", "image", "question", "options", "answer", "task")
OPTIONAL = ("split", "patient", "phantom", "boxes", "box_size")
COLUMNS_FILE = "columns.json"
TASKS: Mapping[str, str] = {
    "pi": "plane_identification",
    "vc": "view_completeness",
    "fo": "fetal_orientation",
    "cd": "clinical_diagnosis",
    "vg": "visual_grounding",
}
_PHANTOM = {True: "yes", False: "no", "yes": "yes", "no": "no"}
_BOX_SIZES = ("small", "medium", "large")


@dataclass(frozen=True, slots=True)
class _Row:
    """One line of a file. Its values are read by our names, but its error messages use the names in the file.

    Attributes:
        folder: The folder of the data set.
        file: The file's name in the folder.
        line: The number of the line, from 1.
        values: The values by the names in the file.
        columns: The name in the file by our name, for the names that differ.
    """

    folder: Path
    file: str
    line: int
    values: Mapping[str, object]
    columns: Mapping[str, str]

    def get(self, name: str) -> object:
        return self.values.get(self.columns[name])

    def error(self, name: str, message: str, media: Path | None = None) -> RowError:
        return RowError(Reject(self.file, self.line, self.columns[name], message, media))

    def text(self, name: str) -> str:
        value = self.get(name)
        if isinstance(value, bool) or not isinstance(value, str | int) or not str(value).strip():
            # A list of rejects must not show a patient's name.
            got = type(value).__name__ if name == "patient" else json.dumps(value)
            raise self.error(name, f"wanted a text, got {got}.{self._hint(name)}")
        return str(value).strip()

    def choice(self, name: str, known: tuple[str, ...]) -> str:
        value = self.text(name).lower()
        if value not in known:
            raise self.error(name, f"wanted one of {', '.join(known)}, got {value!r}.{nearest(value, known)}")
        return value

    def _hint(self, name: str) -> str:
        if self.columns[name] in self.values:
            return ""
        near = nearest(self.columns[name], self.values)
        return f" The line has no such field.{near} Give other names in {COLUMNS_FILE}."


def source() -> Source:
    """Returns the source."""
    return Source(
        title="Fetal-Gauge",
        licence="not stated yet; the paper is CC BY 4.0",
        url="https://github.com/BioMedIA-MBZUAI/FETAL-GAUGE",
        provenance="released",
        patient_unit="the patient column; without it one image stands for one patient",
        read=_read,
        read_questions=_read_questions,
    )


def _read_questions(root: Path | None, seed: int, scratch: Path) -> SourceTable:
    """Returns the questions of a folder whether or not their media are there."""
    return _read(root, seed, scratch, needs_media=False)


def _read(root: Path | None, seed: int, scratch: Path, *, needs_media: bool = True) -> SourceTable:
    """Returns the questions of a folder. The options keep the order of the files, and the seed has no effect.

    A row that does not have the format of the module's docstring is rejected without affecting other rows.

    Raises:
        FileNotFoundError: There is no such folder.
        ValueError: A whole file does not have the format of the module's docstring.
    """
    folder = raw_folder(root, holds="Fetal-Gauge's *.jsonl files and images")
    files = sorted(folder.glob("*.jsonl"))
    if not files:
        raise ValueError(f"{folder}: wanted at least one *.jsonl file with questions, found none.")
    columns = _columns(folder / COLUMNS_FILE)
    questions: list[Question] = []
    media: dict[str, tuple[MediaRef, ...]] = {}
    lines: dict[str, str] = {}
    rejects: list[Reject] = []
    units: set[str] = set()
    for file, number, line in ((each, *numbered) for each in files for numbered in _lines(each)):
        try:
            row = _row(folder, file.name, number, line, columns)
            ref = MediaRef(_image(row, needs_media), _boxes(row))
            question = _question(row, ref)
            if question.id in lines:
                raise row.error("id", f"this id was used before, in {lines[question.id]}. Ids must be unique.")
            if questions and (question.split is None) != (questions[0].split is None):
                raise row.error("split", "some lines have a split and some have none. Give it in all, or in none.")
        except RowError as error:
            rejects.append(error.reject)
            continue
        lines[question.id] = f"{row.file}, line {row.line}"
        media[question.media_id] = (ref,)
        questions.append(question)
        units.add("image" if row.get("patient") is None else "patient")
    missing = missing_media(rejects, folder, fetch=source().url)
    unsized = sum(bool(media[q.media_id][0].boxes) and "box_size" not in q.facets for q in questions)
    note = f"{unsized} questions without box_size: their boxes cannot be measured without the image"
    return SourceTable(
        tuple(questions),
        media,
        (note,) if unsized else (),
        tuple(rejects),
        missing,
        stands_for_patient=" or ".join(sorted(units)) or "patient",
    )


def _columns(file: Path) -> dict[str, str]:
    columns = {name: name for name in (*REQUIRED, *OPTIONAL)}
    if not file.is_file():
        return columns
    try:
        given = json.loads(file.read_text("utf-8"))
    except ValueError as error:
        raise ValueError(f"{file}: broken JSON ({error}). Correct it, or delete the file.") from None
    if not isinstance(given, dict) or not all(isinstance(theirs, str) for theirs in given.values()):
        raise ValueError(f'{file}: wanted an object of texts like {{"question": "prompt"}}.')
    for name in given:
        if name not in columns:
            raise ValueError(f"{file}: unknown name {name!r}.{nearest(name, columns)} There are: {', '.join(columns)}")
    columns |= given
    return columns


def _lines(file: Path) -> Iterator[tuple[int, str]]:
    try:
        text = file.read_text("utf-8")
    except UnicodeDecodeError:
        raise ValueError(f"{file}: wanted UTF-8 text, it has other bytes. Convert the file.") from None
    return ((number, line) for number, line in enumerate(text.split("\n"), start=1) if line.strip())


def _row(folder: Path, file: str, number: int, line: str, columns: Mapping[str, str]) -> _Row:
    try:
        values = json.loads(line)
    except json.JSONDecodeError as error:
        raise RowError(Reject(file, number, None, f"broken JSON ({error.msg}, column {error.colno}).")) from None
    if not isinstance(values, dict):
        raise RowError(Reject(file, number, None, f"wanted a JSON object, got {type(values).__name__}."))
    return _Row(folder, file, number, values, columns)


def _question(row: _Row, ref: MediaRef) -> Question:
    image, options = row.text("image"), _options(row)
    media_id = " ".join([image, *(",".join(map(str, box)) for box in ref.boxes)])
    return Question(
        id=row.text("id"),
        media_id=media_id,
        text=row.text("question"),
        options=options,
        answer=_answer(row, options),
        answer_kind="choice",
        patient_id=row.text("patient") if row.get("patient") is not None else image,
        facets=_facets(row, ref),
        split=_split(row),
    )


def _options(row: _Row) -> tuple[str, ...]:
    given = row.get("options")
    if not isinstance(given, list) or not all(isinstance(option, str) and option.strip() for option in given):
        # The method text() distinguishes a missing field from a wrong one in its error.
        shown = row.text("options") if not isinstance(given, list) else json.dumps(given)
        raise row.error("options", f"wanted a list of texts, got {shown}.")
    options = tuple(option.strip() for option in given)
    if len(options) < 2 or len(set(options)) < len(options):
        raise row.error("options", f"wanted two or more different options, got {json.dumps(given)}.")
    return options


def _answer(row: _Row, options: tuple[str, ...]) -> str:
    answer = row.text("answer")
    if answer in options:
        return answer
    letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"[: len(options)]
    if len(answer) == 1 and answer in letters:
        return options[letters.index(answer)]
    raise row.error("answer", f"{answer!r} is not among the options {json.dumps(options)}.{nearest(answer, options)}")


def _facets(row: _Row, ref: MediaRef) -> dict[str, str]:
    task = row.text("task").lower().replace(" ", "_").replace("-", "_")
    task = TASKS.get(task, task)
    if task not in TASKS.values():
        known = (*TASKS.values(), *map(str.upper, TASKS))
        raise row.error("task", f"unknown task {task!r}.{nearest(task, known)} There are: {', '.join(known)}")
    facets = {"task": task}
    phantom = row.get("phantom")
    if phantom is not None:
        if not isinstance(phantom, bool | str) or phantom not in _PHANTOM:
            raise row.error("phantom", f"wanted true, false, yes or no, got {json.dumps(phantom)}.")
        facets["phantom"] = _PHANTOM[phantom]
    if row.get("box_size") is not None:
        facets["box_size"] = row.choice("box_size", _BOX_SIZES)
    elif ref.boxes and ref.path.is_file():
        with Place(row.file, row.line).reject_broken(ref.path):
            facets["box_size"] = box_size(ref.boxes[0], *image_size(ref.path))
    return facets


def _split(row: _Row) -> Split | None:
    if row.get("split") is None:
        return None
    name = row.choice("split", SPLITS)
    return next(split for split in SPLITS if split == name)


def _image(row: _Row, needs_media: bool) -> Path:
    name = row.text("image")
    path = row.folder / name
    if not path.resolve().is_relative_to(row.folder.resolve()):
        raise row.error("image", "wanted a path inside the folder, this one leaves it.")
    if needs_media and not path.is_file():
        raise row.error("image", "there is no image", path)
    return path


def _boxes(row: _Row) -> tuple[Box, ...]:
    given = row.get("boxes")
    if given is None:
        return ()
    if not isinstance(given, list) or not all(_is_box(box) for box in given):
        raise row.error("boxes", f"wanted a list of [x0, y0, x1, y1], whole and growing, got {json.dumps(given)}.")
    return tuple(Box(*box) for box in given)


def _is_box(box: object) -> bool:
    if not isinstance(box, list) or len(box) != 4 or not all(type(side) is int for side in box):
        return False
    x0, y0, x1, y1 = box
    return bool(0 <= x0 < x1 and 0 <= y0 < y1)
