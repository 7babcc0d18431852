"""Images, films or scans in folders that are named after their classes: classification becomes multiple choice.

Layout: CLASS/*.png, CLASS/PATIENT/*.png or PATIENT/CLASS/*.png, or train, val and test with such folders. A film is a
file, or a DICOM file with several frames; a scan is a NIfTI file or a folder with one DICOM series. DICOM files need no
suffix. A mask beside its image (X_mask.png, X_mask_1.png beside X.png) is left out, and so is what is no medium.

Source: the layout is that of the builders imagefolder and videofolder of Hugging Face `datasets`.
"""

import os
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

from medtune.benchmarks.vqa import columns as roles
from medtune.benchmarks.vqa.columns import Columns
from medtune.benchmarks.vqa.media_cells import media_reader
from medtune.benchmarks.vqa.question_table import LeftOut, ReadSet, question_table
from medtune.benchmarks.vqa.row_questions import MOST_CLASSES, QUESTION, RowReader
from medtune.benchmarks.vqa.sources.table import URL
from medtune.data.media.dicom import is_dicom
from medtune.data.media.videos.container import VIDEO_SUFFIXES
from medtune.data.media.volumes.formats.nifti import NIFTI_SUFFIXES
from medtune.data.media.volumes.formats.other_formats import (
    CD_EXPORT,
    DIRECTORY,
    holds_film,
    holds_no_pixels,
    is_directory,
)
from medtune.data.raw.folder import clutter_note, raw_folder, split_named, visible_entries
from medtune.data.raw.named_files import MEDIA_SUFFIXES
from medtune.data.raw.rows import Row
from medtune.data.raw.source import NOTHING_SAID, HubId, Place, RowError, Source, SourceTable, TableOptions
from medtune.data.types import Split

_MASK = re.compile(r"(.+)_mask(?:_\d+)?", re.IGNORECASE)
_PICTURES = (".png", ".jpg", ".jpeg", ".tif", ".tiff", *VIDEO_SUFFIXES, *NIFTI_SUFFIXES)
_DICOM = (".dcm", ".dicom")
_FILE, _FILM, _CLASS, _PATIENT = "file", "film", "class", "patient"
_COLUMNS = Columns({roles.IMAGE: (_FILE,), roles.VIDEO: (_FILM,), roles.ANSWER: (_CLASS,)}, (), "")
_WITH_PATIENTS = Columns({**_COLUMNS.found, roles.PATIENT: (_PATIENT,)}, (), "patient")


def source(options: TableOptions = NOTHING_SAID) -> Source:
    return Source(
        title="media in folders that are named after their classes",
        licence="of the data set's owner",
        url=URL,
        provenance="own",
        patient_unit="an image, film or scan: the folders name patients only where each class has them",
        has_columns=False,
        read=partial(_read, options=options),
        with_options=source,
        recognises=partial(_recognises, unanswered=options.unanswered),
    )


def _recognises(origin: Path | HubId, *, unanswered: bool = False) -> bool:
    if not isinstance(origin, Path) or not origin.is_dir():
        return False
    if unanswered:
        return any(True for _ in _all_media(origin))
    inner = [each for each in visible_entries(origin) if each.is_dir()]
    return any(_media(each) or any(map(_media, visible_entries(each))) for each in inner)


def _read(root: Path | None, seed: int, scratch: Path, *, options: TableOptions) -> SourceTable:
    folder = raw_folder(root, holds="folders that are named after classes, or train, val and test with such folders")
    if options.columns or options.facets:
        raise ValueError("folders of classes have no columns: leave --columns and --facets out, or write a table.")
    if options.unanswered:
        reader = RowReader(
            _COLUMNS, media_reader((folder,), NOTHING_SAID, scratch), options, options.question or QUESTION
        )
        return question_table(
            [ReadSet(partial(_all_media, folder), None, reader)],
            folder,
            options=options,
            split_names=(),
            read_files=None,
        )
    found = _class_folders(folder, options.splits)
    classes = tuple(sorted({each.label for each in found}))
    if len(classes) < 2 and (folder / DIRECTORY).is_file():
        raise ValueError(f"{folder}: {CD_EXPORT} Then write a table with a row for each.")
    if len(classes) < 2:
        found_classes = ", ".join(classes) or "none"
        raise ValueError(f"{folder}: wanted at least two folders of media named after classes, found {found_classes}.")
    reader = RowReader(
        _WITH_PATIENTS if all(each.patient for each in found) else _COLUMNS,
        media_reader((folder,), NOTHING_SAID, scratch),
        options,
        options.question or QUESTION,
        classes=() if options.options else tuple(dict.fromkeys(map(options.renamed, classes))),
        seed=seed,
    )
    sets, rows = [], Counter[str]()
    for each in found:
        sets.append(ReadSet(partial(_rows, folder, each, 1 + rows[each.label]), each.split, reader))
        rows[each.label] += len(visible_entries(each.path))
    shown = min(len(classes), MOST_CLASSES)
    notes: tuple[str, ...] = (f"{len(classes)} classes, of which a question shows {shown}: {', '.join(classes)}",)
    if patients := len({each.patient for each in found} - {""}):
        notes = (*notes, f"patients: the {patients} folders of patients inside or around those of classes")
    notes = (*notes, *clutter_note(dict.fromkeys([folder, *(each.path for each in found)])))
    inner = [each for each in visible_entries(folder) if each.is_dir()]
    if bare := len(inner) - len(_with_media(folder)):
        notes = (*notes, f"left out {bare} folders that hold no image, film or scan")
    names = [each.name for each in inner]
    # Another file in a folder of a class is a reject of its own.
    files = [entry for each in found for entry in visible_entries(each.path)]
    return question_table(sets, folder, options=options, split_names=names, read_files=files, notes=notes)


class _Folder(NamedTuple):
    """A folder with media of one class, and of one patient where the layout names patients."""

    split: Split | None
    label: str
    patient: str
    path: Path


def _class_folders(folder: Path, meant: Mapping[str, str]) -> list[_Folder]:
    inner = _with_media(folder)
    if not any(_states_split(each.name, meant) for each in inner):
        return _of_classes(inner, None)
    found: list[_Folder] = []
    for each in inner:
        if (split := split_named(each.name, meant)) is not None:
            found += _of_classes([entry for entry in visible_entries(each) if entry.is_dir()], split)
    return found


def _with_media(folder: Path) -> list[Path]:
    return [each for each in visible_entries(folder) if each.is_dir() and any(True for _ in _all_media(each))]


def _of_classes(folders: Sequence[Path], split: Split | None) -> list[_Folder]:
    """Returns the folders with media: CLASS, CLASS/PATIENT, or PATIENT/CLASS where there are more patients."""
    below = {each: [entry for entry in visible_entries(each) if _is_patient(entry)] for each in folders}
    names = {entry.name for entries in below.values() for entry in entries}
    by_patient = 1 < len(names) < len(folders)
    found = [_Folder(split, each.name, "", each) for each in folders if _media(each) and not by_patient]
    for each, entries in below.items():
        for entry in entries:
            label, patient = (entry.name, each.name) if by_patient else (each.name, entry.name)
            found.append(_Folder(split, label, patient, entry))
    return found


def _is_patient(entry: Path) -> bool:
    return entry.is_dir() and not _is_scan(entry) and bool(_media(entry))


def _states_split(name: str, meant: Mapping[str, str]) -> bool:
    """Returns whether a folder's name says a split; a class may be called "none"."""
    try:
        return split_named(name, meant) is not None
    except ValueError:
        return False


def _media(folder: Path) -> list[Path]:
    if not folder.is_dir():
        return []
    return [each for each in visible_entries(folder) if _is_scan(each) or _is_medium(each)]


def _is_medium(path: Path) -> bool:
    return path.name.lower().endswith(MEDIA_SUFFIXES) or (not path.suffix and path.is_file() and is_dicom(path))


def _cells(folder: Path, path: Path) -> dict[str, str] | LeftOut:
    """Returns the cell that names a medium, or why it is none."""
    if not path.exists():
        return LeftOut("a link to a file that is not there")
    is_film = False
    if path.is_file() and (path.name.lower().endswith(_DICOM) or not path.suffix) and is_dicom(path):
        if is_directory(path) or holds_no_pixels(path):
            return LeftOut("a DICOM file without a picture")
        is_film = holds_film(path)
    return {_FILM if is_film else _FILE: str(path.relative_to(folder))}


def _is_scan(folder: Path) -> bool:
    """Returns whether a folder holds the files of a DICOM series, and not the pictures of a patient."""
    if not folder.is_dir() or not (entries := visible_entries(folder)) or any(map(Path.is_dir, entries)):
        return False
    return not any(entry.name.lower().endswith(_PICTURES) for entry in entries)


def _all_media(folder: Path) -> Iterator[Row | RowError | LeftOut]:
    """Yields a row for each image, film or scan under a folder, however deep; of one that is empty, its row says so."""
    number = 0
    for above, inner, _ in os.walk(folder):
        inner[:] = sorted(name for name in inner if not name.startswith("."))
        for path in _media(Path(above)):
            inner[:] = [name for name in inner if name != path.name]
            number += 1
            cells = _cells(folder, path)
            yield cells if isinstance(cells, LeftOut) else Row(Place("images", number), cells)


def _rows(folder: Path, each: _Folder, first: int) -> Iterator[Row | RowError | LeftOut]:
    media = set(_media(each.path))
    stems = {path.stem for path in media}
    for number, path in enumerate(visible_entries(each.path), start=first):
        place = Place(each.label, number)
        if (mask := _MASK.fullmatch(path.stem)) is not None and mask[1] in stems:
            yield LeftOut("a mask beside its image")
        elif path in media:
            is_empty = path.is_file() and not path.stat().st_size
            cells = LeftOut("an empty file") if is_empty else _cells(folder, path)
            known = {_CLASS: each.label, _PATIENT: each.patient}
            yield cells if isinstance(cells, LeftOut) else Row(place, {**cells, **known})
        elif not _is_patient(path):
            yield LeftOut("a file that is no image, film or scan")
