"""Turns cells that name media into references: paths, URLs, base64 and bytes."""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path

from medtune.benchmarks.vqa import columns as roles
from medtune.benchmarks.vqa.columns import Columns
from medtune.benchmarks.vqa.conversation import MEDIA_PARTS, TEXT_KEYS
from medtune.benchmarks.vqa.row_answers import cell_text
from medtune.data.json_text import json_value
from medtune.data.media.videos.container import GIF_SUFFIX, VIDEO_SUFFIXES
from medtune.data.media.volumes.formats.nifti import NIFTI_SUFFIXES
from medtune.data.raw.media_bytes import Fetcher, decoded_base64, is_url, refused_content, write_media_bytes
from medtune.data.raw.named_files import MEDIA_SUFFIXES, NamedFiles, why_several
from medtune.data.raw.rows import Row
from medtune.data.raw.source import Place, RowError, TableOptions
from medtune.data.types import Box, MediaKind, MediaRef

_SEPARATORS = ("|", ";")

_LOOKED_AT = 50
"""The number of rows whose cells tell which column names files (our own choice)."""
_MAY_NAME_FILES = (roles.ID, roles.PATIENT)
"""The roles of columns that may name the files of a set, too, as in RSNA's and ROCO's."""
_ELSE = (*roles.IMAGES_ELSE, *roles.IMAGES_BY_CELLS)


@dataclass(frozen=True, slots=True)
class MediaPart:
    """The part of the media that a row is about."""

    # The seconds at which a film begins and ends, as the cells have them; None for those of the film.
    start: object = None
    end: object = None
    box: object = None  # The rectangle, or a list of them: drawn on an image, cut out of a film.
    masks: object = None  # The mask files of a volume: a folder, a path, or a mapping of organs to paths.


@dataclass(frozen=True, slots=True)
class MediaCells:
    """Finds the files that cells name."""

    # The folders to which paths may be relative, the first that holds the file counts.
    folders: tuple[Path, ...]
    named: NamedFiles  # Finds the files that cells name otherwise than by their path.
    scratch: Path  # The folder for files that exist nowhere else: fetched ones, and those inside the table.
    fetcher: Fetcher
    needs_files: bool = True  # Whether a row is an error if its file is missing.
    frames_per_s: float | None = None  # Those of cines that do not say their own.

    def refs(self, cell: object, kind: MediaKind, place: Place, field: str, part: MediaPart) -> tuple[MediaRef, ...]:
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
            found = self.named.find(_slashes(written))
            if len(found) == 1:
                return found[0]
            reason = f"there is no such {kind} file. Copy it, correct the path, or name its folder with --images."
            if found:
                reason = f"there is no such {kind} file; {why_several(found, written)}"
            raise place.error(reason, field=field, media=self.folders[0] / _slashes(written))
        return path or self.folders[0] / _slashes(written)

    def written(self, path: Path) -> str:
        """Returns a file's path relative to the innermost folder that may hold it, with "/" between names."""
        inside = [path.relative_to(folder).as_posix() for folder in self.folders if path.is_relative_to(folder)]
        return min(inside, key=len, default=path.as_posix())

    def _there(self, written: str) -> Path | None:
        said = _slashes(written)
        # A path that is longer than the system takes is there no more than another.
        return next((path for folder in self.folders if os.path.exists(path := folder / said)), None)

    def _items(self, cell: object) -> Iterator[object]:
        if isinstance(cell, str):
            text = cell_text(cell)
            if text.startswith("["):
                try:
                    yield from self._items(json_value(text))
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


def media_reader(
    folders: Sequence[Path], options: TableOptions, scratch: Path, *, needs_files: bool = True
) -> MediaCells:
    """Returns the reader of media in these folders, or in the one that the user names."""
    searched = (*options.media_folders, *folders)
    named = NamedFiles(searched, options.media_folder)
    return MediaCells(searched, named, scratch, Fetcher(), needs_files, options.frames_per_s)


def with_media_column(
    columns: Columns, rows: Callable[[], Iterable[object]], media: MediaCells, options: TableOptions
) -> tuple[Columns, tuple[str, ...]]:
    """Returns the columns with one that names files, where no column has a usual name of one.

    It has the name of such a column in public sets, and its cells lead to files; if pictures are needed, some of these
    names count in any case. The second value are the columns of other names whose cells lead to files.
    """
    if any(columns.of(role) for role in (*roles.MEDIA, roles.TURNS)) or {*roles.MEDIA} & {*options.columns}:
        return columns, ()
    taken = {name for role, names in columns.found.items() if role not in _MAY_NAME_FILES for name in names}
    free = sorted((name for name in columns.names if name not in taken), key=_rank)
    sample = [row for row in islice(rows(), _LOOKED_AT) if isinstance(row, Row)] if media.needs_files else []
    leading = {name: kind for name in free if (kind := _leads_to([row.values.get(name) for row in sample], media))}
    needs = options.media_folder is not None or not (options.question or columns.of(roles.QUESTION))
    for name in free:
        by_cells = name in leading and _rank(name) < len(_ELSE)
        if by_cells or (needs and roles.plain(name) in roles.IMAGES_ELSE and not leading.keys() - {name}):
            others = tuple(each for each in columns.others if each != name)
            return replace(columns, found={leading.get(name, roles.IMAGE): (name,), **columns.found}, others=others), ()
    return columns, tuple(leading)


def _rank(name: str) -> int:
    return _ELSE.index(plain) if (plain := roles.plain(name)) in _ELSE else len(_ELSE)


def _leads_to(cells: Sequence[object], media: MediaCells) -> MediaKind | None:
    """Returns the kind of the files to which at least half of the cells lead; None where they lead to none."""
    look = replace(media, named=NamedFiles(media.folders, media.named.below, listed=media.named.listed))
    filled = [text for cell in cells if isinstance(cell, str | int | float) and (text := cell_text(cell))]
    found: list[Path] = []
    for text in filled:
        with suppress(RowError, OSError, ValueError):
            path = look.file(text, roles.IMAGE, Place("", 0), "")
            found += [path] if path.is_file() and path.name.lower().endswith(MEDIA_SUFFIXES) else []
    return _kind_of(found[0], "image") if found and 2 * len(found) >= len(filled) else None


def media_in(value: object) -> list[tuple[str, object]]:
    """Returns the kind and the path, URL or bytes of each media item that stands in the content lists of turns.

    Qwen writes {"type": "image", "image": PATH}, Unsloth and OpenAI {"type": "image_url", "image_url": {"url": URL}}.
    """
    if isinstance(value, str):
        with suppress(ValueError):
            value = json_value(value)
    found: list[tuple[str, object]] = []
    for turn in value if isinstance(value, list) else []:
        content = next((turn[key] for key in TEXT_KEYS if turn.get(key)), None) if isinstance(turn, Mapping) else None
        for part in content if isinstance(content, list) else []:
            if not isinstance(part, Mapping):
                continue
            for key in (*MEDIA_PARTS, "path", "url"):
                if (item := part.get(key)) and (key in MEDIA_PARTS or str(part.get("type")) in MEDIA_PARTS):
                    named = key if key in MEDIA_PARTS else str(part["type"])
                    is_url = isinstance(item, Mapping) and item.get("url")
                    found.append((named.removesuffix("_url"), item["url"] if is_url else item))
                    break
    return found


def _slashes(written: str) -> str:
    return written.removeprefix("file://").replace("\\", "/")


def _kind_of(path: Path, column: MediaKind) -> MediaKind:
    name = path.name.lower()
    if name.endswith(NIFTI_SUFFIXES) or path.is_dir():
        return "volume"
    # A GIF may be a still picture, which its column says.
    return "video" if name.endswith(VIDEO_SUFFIXES) and not name.endswith(GIF_SUFFIX) else column


def _ref(path: Path, kind: MediaKind, place: Place, part: MediaPart, reader: MediaCells) -> MediaRef:
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
        region, rate = boxes[0] if boxes else None, reader.frames_per_s
        return MediaRef(path, kind=kind, start_s=start, end_s=end, region=region, frames_per_s=rate)
    return MediaRef(path, boxes=boxes, kind=kind, masks=masks)


def _masks(cell: object, place: Place, reader: MediaCells) -> tuple[tuple[str, Path], ...]:
    if isinstance(cell, str) and cell_text(cell).startswith("{"):
        try:
            cell = json_value(cell)
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
            cell = json_value(text if text.startswith("[") else f"[{text.replace(';', ',')}]")
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
