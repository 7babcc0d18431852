"""Images, films or scans in folders that are named after their classes: classification becomes multiple choice.

Layout: CLASS/*.png, or train/CLASS/*.png, val/CLASS/*.png and test/CLASS/*.png. A film is a file, a scan a NIfTI file
or a folder with one DICOM series. A mask beside its image (X_mask.png, X_mask_1.png beside X.png) is left out.

Source: the layout is that of the builders imagefolder and videofolder of Hugging Face `datasets`.
"""

import re
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path

from medtune.benchmarks.vqa import columns as roles
from medtune.benchmarks.vqa.columns import Columns, MediaReader
from medtune.benchmarks.vqa.question_table import LeftOut, ReadSet, question_table
from medtune.benchmarks.vqa.row_questions import MOST_CLASSES, RowReader
from medtune.benchmarks.vqa.sources.table import URL
from medtune.data.media.videos.container import VIDEO_SUFFIXES
from medtune.data.media.volumes.formats.nifti import NIFTI_SUFFIXES
from medtune.data.raw.folder import raw_folder, split_named, visible_entries
from medtune.data.raw.hub_rows import HubId, Row
from medtune.data.raw.media_bytes import Fetcher
from medtune.data.raw.row_errors import NOTHING_SAID, Place, RowError, TableOptions
from medtune.data.raw.source import Source, SourceTable
from medtune.data.types import Split

IMAGE_SUFFIXES = (".png", ".jpg", ".jpeg", ".tif", ".tiff", ".dcm", ".dicom")
QUESTION = "Which of these classes does the picture belong to?"
_MASK = re.compile(r"(.+)_mask(?:_\d+)?", re.IGNORECASE)
_FILE, _CLASS = "file", "class"
_COLUMNS = Columns({roles.IMAGE: (_FILE,), roles.ANSWER: (_CLASS,)}, (), "")


def source(options: TableOptions = NOTHING_SAID) -> Source:
    return Source(
        title="media in folders that are named after their classes",
        licence="of the data set's owner",
        url=URL,
        provenance="released",
        patient_unit="an image, film or scan: the folders name classes and no patients",
        read=partial(_read, options=options),
        with_options=source,
        recognises=_recognises,
    )


def _recognises(origin: Path | HubId) -> bool:
    if not isinstance(origin, Path) or not origin.is_dir():
        return False
    inner = [each for each in visible_entries(origin) if each.is_dir()]
    return any(_media(each) or any(map(_media, visible_entries(each))) for each in inner)


def _read(root: Path | None, seed: int, scratch: Path, *, options: TableOptions) -> SourceTable:
    folder = raw_folder(root, holds="folders that are named after classes, or train, val and test with such folders")
    if options.columns or options.facets:
        raise ValueError("folders of classes have no columns: leave --columns and --facets out, or write a table.")
    found = _class_folders(folder, options.splits)
    classes = tuple(sorted({each.name for _, each in found}))
    if len(classes) < 2:
        found_classes = ", ".join(classes) or "none"
        raise ValueError(f"{folder}: wanted at least two folders of media named after classes, found {found_classes}.")
    reader = RowReader(
        _COLUMNS,
        MediaReader((folder,), scratch, Fetcher()),
        options.splits,
        options.question or QUESTION,
        classes=classes,
        seed=seed,
    )
    sets = [ReadSet(partial(_rows, folder, each), split, reader) for split, each in found]
    shown = min(len(classes), MOST_CLASSES)
    notes = (f"{len(classes)} classes, of which a question shows {shown}: {', '.join(classes)}",)
    names = [each.name for each in visible_entries(folder) if each.is_dir()]
    # Another file in a folder of a class is a reject of its own.
    files = [entry for _, each in found for entry in visible_entries(each)]
    return question_table(sets, folder, options=options, split_names=names, read_files=files, notes=notes)


def _class_folders(folder: Path, meant: Mapping[str, str]) -> list[tuple[Split | None, Path]]:
    inner = [each for each in visible_entries(folder) if each.is_dir()]
    outer = [each for each in inner if _states_split(each.name, meant)]
    if not outer:
        return [(None, each) for each in inner if _media(each)]
    found: list[tuple[Split | None, Path]] = []
    for each in inner:
        split = split_named(each.name, meant)
        found += [(split, of_class) for of_class in visible_entries(each) if split and _media(of_class)]
    return found


def _states_split(name: str, meant: Mapping[str, str]) -> bool:
    try:
        split_named(name, meant)
    except ValueError:
        return False
    return True


def _media(folder: Path) -> list[Path]:
    if not folder.is_dir():
        return []
    suffixes = (*IMAGE_SUFFIXES, *VIDEO_SUFFIXES, *NIFTI_SUFFIXES)
    return [each for each in visible_entries(folder) if _is_scan(each) or each.name.lower().endswith(suffixes)]


def _is_scan(folder: Path) -> bool:
    return folder.is_dir() and bool(entries := visible_entries(folder)) and not any(map(Path.is_dir, entries))


def _rows(folder: Path, of_class: Path) -> Iterator[Row | RowError | LeftOut]:
    media = set(_media(of_class))
    stems = {path.stem for path in media}
    for number, path in enumerate(visible_entries(of_class), start=1):
        place = Place(str(of_class.relative_to(folder)), number)
        if (mask := _MASK.fullmatch(path.stem)) is not None and mask[1] in stems:
            yield LeftOut("a mask beside its image")
        elif path in media:
            yield Row(place, {_FILE: str(path.relative_to(folder)), _CLASS: of_class.name})
        else:
            yield place.error("wanted an image, film or scan, this file has another suffix. Move it out.", media=path)
