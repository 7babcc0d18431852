"""Finds which column holds what, and turns cells that name media into references: paths, URLs, base64 and bytes."""

import json
import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from medtune.benchmarks.vqa.conversation import cell_text
from medtune.data.catalog import nearest
from medtune.data.languages import column_names
from medtune.data.media.videos.container import VIDEO_SUFFIXES
from medtune.data.media.volumes.formats.nifti import NIFTI_SUFFIXES
from medtune.data.raw.folder import named_alike
from medtune.data.raw.media_bytes import Fetcher, decoded_base64, is_url, refused_content, write_media_bytes
from medtune.data.raw.source import Place
from medtune.data.types import Box, MediaKind, MediaRef

_SEPARATORS = ("|", ";")


@dataclass(frozen=True, slots=True)
class Part:
    """The part of the media that a row is about."""

    # The seconds at which a film begins and ends, as the cells have them; None for those of the film.
    start: object = None
    end: object = None
    box: object = None  # The rectangle, or a list of them: drawn on an image, cut out of a film.
    masks: object = None  # The mask files of a volume: a folder, a path, or a mapping of organs to paths.


@dataclass(frozen=True, slots=True)
class MediaReader:
    """Finds the files that cells name."""

    folders: tuple[Path, ...]  # The folders to which paths may be relative, the first that holds the file counts.
    scratch: Path  # The folder for files that exist nowhere else: fetched ones, and those inside the table.
    fetcher: Fetcher
    needs_files: bool = True  # Whether a row is an error if its file is missing.

    def refs(self, cell: object, kind: MediaKind, place: Place, field: str, part: Part) -> tuple[MediaRef, ...]:
        """Returns the media items that a cell names, in their order; none for an empty cell.

        Args:
            cell: A path, URL, base64 text, bytes, a mapping with "path" or "bytes", or a list of these.
            kind: What the column holds; the name of a file says more.
        """
        found = []
        for each in self._items(cell):
            path = self._path(each, kind, place, field)
            found.append(_ref(path, _kind_of(path, kind), place, part, self))
        return tuple(found)

    def file(self, written: str, kind: str, place: Place, field: str) -> Path:
        """Returns the file of a path that a cell holds."""
        path = self._there(written)
        if path is None and self.needs_files:
            alike = {each for folder in self.folders for each in named_alike(folder, _slashes(written))}
            if len(alike) == 1:
                return alike.pop()
            but = f"; {len(alike)} files are called so but for capitals and accents" if alike else ""
            reason = f"there is no such {kind} file{but}. Copy it, correct the path, or name its folder with --images."
            raise place.error(reason, field=field, media=self.folders[0] / _slashes(written))
        return path or self.folders[0] / _slashes(written)

    def written(self, path: Path) -> str:
        """Returns a file's path relative to the innermost folder that may hold it, with "/" between names."""
        inside = [path.relative_to(folder).as_posix() for folder in self.folders if path.is_relative_to(folder)]
        return min(inside, key=len, default=path.as_posix())

    def _there(self, written: str) -> Path | None:
        said = _slashes(written)
        return next((path for folder in self.folders if (path := folder / said).exists()), None)

    def _items(self, cell: object) -> Iterator[object]:
        if isinstance(cell, str):
            text = cell_text(cell)
            if text.startswith("["):
                try:
                    yield from self._items(json.loads(text))
                    return
                except ValueError:
                    pass
            mark = next((mark for mark in _SEPARATORS if mark in text), None)
            if text and mark and not text.startswith("data:") and not is_url(text) and self._there(text) is None:
                yield from (part.strip() for part in text.split(mark) if part.strip())
            elif text:
                yield text
        elif isinstance(cell, list):
            for each in cell:
                yield from self._items(each)
        elif cell is not None and cell_text(cell):
            yield cell

    def _path(self, item: object, kind: str, place: Place, field: str) -> Path:
        if isinstance(item, Mapping):
            if item.get("bytes") is not None:
                return self._path(item["bytes"], kind, place, field)
            item = item.get("path")
        try:
            if isinstance(item, bytes):
                return write_media_bytes(item, self.scratch)
            if not isinstance(item, str):
                raise ValueError(f"wanted a path, a URL, base64 or bytes, got {type(item).__name__}.")
            if is_url(item):
                return self.fetcher.file(item, self.scratch)
            if (content := decoded_base64(item)) is not None:
                return write_media_bytes(content, self.scratch)
        except ValueError as error:
            raise place.error(str(error), field=field) from None
        path = self.file(item, kind, place, field)
        if path.is_file():
            with path.open("rb") as file:
                what = refused_content(file.read(16))
            if what:
                reason = f"wanted an image, film or volume, this file is {what}. Export it as PNG, MP4 or NIfTI."
                raise place.error(reason, field=field, media=path)
        return path


def _slashes(written: str) -> str:
    return written.removeprefix("file://").replace("\\", "/")


def _kind_of(path: Path, column: MediaKind) -> MediaKind:
    name = path.name.lower()
    if name.endswith(NIFTI_SUFFIXES) or path.is_dir():
        return "volume"
    return "video" if name.endswith(VIDEO_SUFFIXES) else column


def _ref(path: Path, kind: MediaKind, place: Place, part: Part, reader: MediaReader) -> MediaRef:
    masks = _masks(part.masks, place, reader)
    boxes = _boxes(part.box, place)
    start, end = (_second(cell, place, field) for cell, field in ((part.start, "start"), (part.end, "end")))
    if kind != "volume" and masks:
        raise place.error(f"masks belong to volumes, not to {kind}s. Leave the column out: --columns masks=")
    if kind != "video" and (start, end) != (None, None):
        raise place.error(f"start and end belong to films, not to {kind}s. Leave them out: --columns start= end=")
    if kind == "volume" and boxes:
        raise place.error("a box belongs to an image or a film, not to a volume. Leave it out: --columns box=")
    if kind == "video":
        if len(boxes) > 1:
            raise place.error("a film has one box, the part of its frames that is shown.", field="box")
        return MediaRef(path, kind=kind, start_s=start, end_s=end, region=boxes[0] if boxes else None)
    return MediaRef(path, boxes=boxes, kind=kind, masks=masks)


def _masks(cell: object, place: Place, reader: MediaReader) -> tuple[tuple[str, Path], ...]:
    if isinstance(cell, str) and cell_text(cell).startswith("{"):
        try:
            cell = json.loads(cell)
        except ValueError as error:
            raise place.error(f"broken JSON ({error}).", field="masks") from None
    if isinstance(cell, Mapping):
        named = ((str(organ), cell_text(path)) for organ, path in cell.items())
        return tuple(sorted((organ, reader.file(path, "mask", place, "masks")) for organ, path in named if path))
    text = cell_text(cell)
    if not text:
        return ()
    path = reader.file(text, "mask", place, "masks")
    files = sorted(file for file in path.iterdir() if file.name.endswith(NIFTI_SUFFIXES)) if path.is_dir() else [path]
    return tuple((file.name.partition(".")[0], file) for file in files)


def _second(cell: object, place: Place, field: str) -> float | None:
    text = cell_text(cell)
    if not text:
        return None
    try:
        return float(text.replace(",", "."))
    except ValueError:
        raise place.error("wanted seconds as a number.", field=field, cell=text) from None


def _boxes(written: object, place: Place) -> tuple[Box, ...]:
    cell = written
    if isinstance(cell, str):
        text = cell_text(cell)
        if not text:
            return ()
        try:
            cell = json.loads(text if text.startswith("[") else f"[{text.replace(';', ',')}]")
        except ValueError:
            cell = None
    elif cell is None:
        return ()
    listed = cell if isinstance(cell, list) and cell and isinstance(cell[0], list) else [cell]
    found = []
    for each in listed:
        numbers = each if isinstance(each, list) else []
        whole = [round(value) for value in numbers if isinstance(value, int | float) and value == round(value)]
        if len(numbers) != 4 or len(whole) != 4:
            raise place.error(
                "wanted x0, y0, x1, y1 in whole pixels, or a list of such boxes.", field="box", cell=written
            )
        found.append(Box(*whole))
    return tuple(found)


IMAGE, VIDEO, VOLUME = "image", "video", "volume"
QUESTION, ANSWER, OPTIONS, LETTERS, ANSWER_TYPE = "question", "answer", "options", "letters", "answer_type"
TASK, PATIENT, SPLIT, ID, UNIT, SYSTEM, TURNS = "task", "patient", "split", "id", "unit", "system", "turns"
START, END, BOX, MASKS, LABELS, TOLERANCE = "start", "end", "box", "masks", "labels", "tolerance"
MEDIA = (IMAGE, VIDEO, VOLUME)
_USUAL: Mapping[str, tuple[str, ...]] = {
    IMAGE: (
        *("image", "images", "img", "image_path", "img_path", "image_file", "image_name", "img_name", "image_url"),
        *("file_name", "filename", "figure_path", "picture", "pictures"),
    ),
    VIDEO: ("video", "videos", "video_path", "video_file", "clip", "film"),
    VOLUME: ("volume", "volumes", "volume_path", "scan", "ct", "nifti", "dicom", "dicom_folder"),
    QUESTION: ("question", "questions", "query", "prompt", "instruction"),
    ANSWER: ("answer", "answers", "response", "output", "target", "gt_answer", "ground_truth", "label", "class"),
    OPTIONS: ("options", "choices", "candidates"),
    ANSWER_TYPE: ("answer_type", "answer_kind"),
    TASK: ("task", "task_name"),
    PATIENT: ("patient", "patient_id", "patientid", "subject", "subject_id", "subjectid"),
    SPLIT: ("split", "data_split", "partition"),
    ID: ("id", "qid", "question_id"),
    UNIT: ("unit", "units"),
    TOLERANCE: ("tolerance",),
    SYSTEM: ("system", "system_prompt"),
    TURNS: ("messages", "conversations", "conversation", "turns", "dialog", "dialogue"),
    START: ("start", "start_s", "start_second", "start_seconds", "start_time"),
    END: ("end", "end_s", "end_second", "end_seconds", "end_time"),
    BOX: ("box", "boxes", "bbox", "bounding_box", "roi"),
    MASKS: ("masks", "mask", "segmentation", "mask_path"),
}
_STUDY = ("study", "study_id", "studyid")
"""A study belongs to one patient, so that it stands for the patient only where no column names one."""
_ANSWERS_ELSE = (
    *("answer_index", "answer_idx", "correct_index", "cop", "label_index"),
    *("diagnosis", "category", "class_name", "label_name", "class_id"),
)
"""Names of a column with the answer that count only where no column has a usual name."""
_LETTER = re.compile(r"(?:option|choice|op)?_?([a-j])")
_NUMBERED_IMAGE = re.compile(r"(?:image|img)_?\d+")
_MANY = (*MEDIA, LETTERS, LABELS)
ROLES = (*_USUAL, LETTERS, LABELS)


@dataclass(frozen=True, slots=True)
class Columns:
    """Which columns of a table hold what."""

    # The columns of each role that has any; media and lettered options may have several.
    found: Mapping[str, tuple[str, ...]]
    others: tuple[str, ...]  # The columns without a role.
    patients: str  # What the patient column names: "patient" or "study"; "" without one.
    names: tuple[str, ...] = ()  # All columns in their order, for messages.

    def of(self, role: str) -> str | None:
        """Returns the column of a role that has at most one; None where it has none."""
        names = self.found.get(role, ())
        return names[0] if names else None

    def line(self) -> str:
        """Returns the mapping as a line of plain text."""
        return ", ".join(f"{role} = {' + '.join(names)}" for role, names in self.found.items())


def columns_of(names: Sequence[str], said: Mapping[str, str], *, where: str) -> Columns:
    """Returns which of the columns hold what.

    Args:
        said: What the user says: the column of a role; several are separated by commas, and "" stands for none.
    """
    for role in said:
        if role not in ROLES:
            raise ValueError(
                f"--columns {role}=...: there is no such role.{nearest(role, ROLES)} The roles are {', '.join(ROLES)}."
            )
    found = {role: _named(role, text, names, where) for role, text in said.items()}
    taken = {name for of_role in found.values() for name in of_role}
    free = [name for name in names if name not in taken]
    for role, of_role in _usual(free).items():
        if role in said:
            continue
        if len(of_role) > 1 and role not in _MANY:
            raise ValueError(_ambiguous(where, role, of_role))
        found[role] = of_role
    elses = tuple(name for name in free if plain(name) in _ANSWERS_ELSE)
    if not {ANSWER, TURNS, LABELS} & {*found} and elses:
        found[ANSWER] = elses
        if len(elses) > 1:
            raise ValueError(_ambiguous(where, ANSWER, elses))
    studies = tuple(name for name in free if plain(name) in _STUDY)
    patients = "patient" if found.get(PATIENT) else ""
    if PATIENT not in found and len(studies) == 1:
        found[PATIENT], patients = studies, "study"
    _check_one_of(found, free, said, where)
    kept = {role: found[role] for role in ROLES if found.get(role)}
    taken = {name for of_role in kept.values() for name in of_role}
    return Columns(kept, tuple(name for name in names if name not in taken), patients, tuple(names))


def plain(name: str) -> str:
    """Returns a column's name without case, with "_" for blanks and hyphens.

    Example:
        >>> plain(" Patient-ID")
        'patient_id'
    """
    return re.sub(r"[\s_\-]+", "_", unicodedata.normalize("NFC", name).strip().casefold())


def require(columns: Columns, role: str, names: Sequence[str], *, where: str, instead: str = "") -> None:
    """Checks that a column of a role was found."""
    if columns.of(role) is None:
        usual = ", ".join(_USUAL[role])
        raise ValueError(
            f"{where}: wanted a column with the {role}, named {usual}. The columns are: {', '.join(names)}. Say which "
            f"it is with --columns {role}=NAME{instead}."
        )


def _usual(names: Sequence[str]) -> dict[str, tuple[str, ...]]:
    found: dict[str, tuple[str, ...]] = {}
    for role, usual in _USUAL.items():
        known = {*usual, *column_names(role), *(column_names("label") if role == ANSWER else ())}
        here = tuple(name for name in names if plain(name) in known)
        if here:
            found[role] = here
    letters = {match[1]: name for name in names if (match := _LETTER.fullmatch(plain(name)))}
    run = tuple(letters[letter] for place, letter in enumerate(sorted(letters)) if letter == "abcdefghij"[place])
    if len(run) > 1 and OPTIONS not in found:
        found[LETTERS] = run
    numbered = tuple(
        sorted(
            (name for name in names if _NUMBERED_IMAGE.fullmatch(plain(name))),
            key=lambda name: int(re.sub(r"\D", "", name)),
        )
    )
    if numbered:
        found[IMAGE] = (*found.get(IMAGE, ()), *numbered)
    return found


def _named(role: str, text: str, names: Sequence[str], where: str) -> tuple[str, ...]:
    found = []
    for said in filter(None, (each.strip() for each in ([text] if text in names else text.split(",")))):
        alike = [said] if said in names else [name for name in names if plain(name) == plain(said)]
        if len(alike) != 1:
            raise ValueError(
                f"{where}: there is no column {said!r} for the {role}.{nearest(said, names)} "
                f"The columns are: {', '.join(names)}."
            )
        found += alike
    if len(found) > 1 and role not in _MANY:
        raise ValueError(f"{where}: the {role} takes one column, got {', '.join(found)}.")
    return tuple(found)


def _check_one_of(found: dict[str, tuple[str, ...]], free: Sequence[str], said: Mapping[str, str], where: str) -> None:
    for kind in MEDIA:
        of_kind = found.get(kind, ())
        if kind not in said and sum(not _NUMBERED_IMAGE.fullmatch(plain(name)) for name in of_kind) > 1:
            raise ValueError(_ambiguous(where, kind, of_kind))
    asked = [plain(name) for name in found.get(QUESTION, ())]
    if QUESTION not in said and asked == ["instruction"] and any(plain(name) == "input" for name in free):
        raise ValueError(
            f"{where}: 'instruction' and 'input' are the two halves of a question in the Alpaca form. Join them in one "
            "column, or put LLaMA-Factory's dataset_info.json beside the file. --columns question=instruction asks "
            "that half alone."
        )
    if found.get(TURNS) and found.get(QUESTION):
        if TURNS in said and QUESTION not in said:
            del found[QUESTION]
        elif QUESTION in said and TURNS not in said:
            del found[TURNS]
        else:
            raise ValueError(_ambiguous(where, QUESTION, (*found[QUESTION], *found[TURNS])))


def _ambiguous(where: str, role: str, names: Sequence[str]) -> str:
    return (
        f"{where}: the columns {' and '.join(map(repr, names))} may both hold the {role}. "
        f"Say which does: --columns {role}={names[0]!r} (or {role}= for none)."
    )
