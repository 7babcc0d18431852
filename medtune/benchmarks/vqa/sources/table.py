"""A table of your own: CSV, TSV, .xlsx, Parquet, Arrow or JSON, as one file or a folder of files.

Layout: data.csv with the columns image, question and answer, and more where there is more to say; or a folder with
files whose names state their split (train.csv, val.csv, test.csv), or with one such folder for each split. README.md of
this benchmark lists the columns.

Source: our own; the names of columns are those that published sets use.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path

from medtune.benchmarks.vqa import columns as roles
from medtune.benchmarks.vqa.annotation_tools import check_no_xml
from medtune.benchmarks.vqa.columns import Columns, check_spelling, columns_of, require
from medtune.benchmarks.vqa.json_rows import JSON_SUFFIXES, json_rows
from medtune.benchmarks.vqa.label_questions import QUESTION as LABELS_QUESTION
from medtune.benchmarks.vqa.media_cells import MediaCells, media_reader, with_media_column
from medtune.benchmarks.vqa.question_table import WITHOUT_ANSWERS, ReadSet, no_column_of_media, question_table
from medtune.benchmarks.vqa.row_answers import YES_NO
from medtune.benchmarks.vqa.row_questions import QUESTION, RowReader
from medtune.data.raw.folder import file_stem, splits_of_files
from medtune.data.raw.rejects import REJECTS
from medtune.data.raw.rows import Row
from medtune.data.raw.source import NOTHING_SAID, HubId, RowError, Source, SourceTable, TableOptions
from medtune.data.raw.table_rows import BUILDERS, NO_HEADER, file_rows
from medtune.data.types import REJECTED

SUFFIXES = (*BUILDERS, *JSON_SUFFIXES)
PATIENT_UNIT = "the patient column, else the study column, else the image, film or volume that a question is about"
URL = "https://github.com/medtune/medtune"
_NUM_COLUMN_ROWS = 1000
_PREDICTED = {"id", "error", "model", "trained_on"}
"""The columns of each table that `medtune predict` writes."""
_LONGEST_HEADER = 1 << 16


def source(options: TableOptions = NOTHING_SAID) -> Source:
    return Source(
        title="a table of your own",
        licence="of the data set's owner",
        url=URL,
        provenance="own",
        patient_unit=PATIENT_UNIT,
        has_sheets=True,
        read=partial(_read, options=options, needs_files=True),
        read_questions=partial(_read, options=options, needs_files=False),
        with_options=source,
        recognises=recognises,
    )


def recognises(origin: Path | HubId) -> bool:
    """Returns whether the origin is a table, or a folder with tables in it or in its folders."""
    if isinstance(origin, HubId):
        return False
    return origin.is_file() or (origin.is_dir() and bool(table_files(origin)))


def table_files(folder: Path) -> list[Path]:
    """Returns the tables in a folder and in the folders in it, sorted."""
    found = [*folder.iterdir(), *(file for each in folder.iterdir() if each.is_dir() for file in each.iterdir())]
    # "~$" begins the name of the file with which Excel locks a workbook that is open.
    visible = (file for file in found if file.is_file() and not file.name.startswith((".", "~$")))
    visible = (file for file in visible if not file.name.endswith(REJECTS))
    return sorted(file for file in visible if file.suffix.lower() in SUFFIXES)


def _read(root: Path | None, seed: int, scratch: Path, *, options: TableOptions, needs_files: bool) -> SourceTable:
    if root is None:
        raise ValueError("wanted a table or a folder with tables, none was given. Give it with --from PATH.")
    folder = root if root.is_dir() else root.parent
    files = table_files(root) if root.is_dir() else [root]
    if roles.ANSWER not in options.columns:
        files = [file for file in files if not _is_predicted(file)] or files
    if not files:
        raise ValueError(
            f"{root}: wanted a table ({', '.join(SUFFIXES)}), or folders of images named after classes, found "
            f"{', '.join(sorted(each.name for each in root.iterdir())[:5]) or 'nothing'}. Give one with --from PATH."
        )
    names = [str(file.relative_to(folder)) for file in files]
    splits = splits_of_files(names, options.splits)
    sets = []
    for name in splits:
        path = folder / name
        media = media_reader((path.parent, folder), options, scratch, needs_files=needs_files)
        reader = RowReader(Columns({}, (), ""), media, options, options.question, seed=seed)
        sets.append(_read_set(path, name, reader, options))
    sets = [replace(each, split=split) for each, split in zip(sets, splits.values(), strict=True)]
    read_files = files if root.is_dir() else None
    stems = map(file_stem, names)
    return question_table(
        sets, root, options=options, split_names=stems, read_files=read_files, notes=_note_of_other_tables(root)
    )


def _read_set(path: Path, name: str, reader: RowReader, options: TableOptions) -> ReadSet:
    check_no_xml(path)
    classes: Mapping[str, tuple[str, ...]] = {}
    notes: tuple[str, ...] = ()
    header = ""
    if path.suffix.lower() in JSON_SUFFIXES:
        if options.sheet is not None or options.header is not None:
            raise ValueError(f"{path}: {NO_HEADER}")
        names = json_columns(path, name)

        def rows() -> Iterator[Row | RowError]:
            return json_rows(path, file=name)

    else:
        found = file_rows(path, name=name, sheet=options.sheet, header=options.header)
        names, rows, classes, notes, header = found.columns, found.rows, found.classes, found.notes, found.header
    try:
        columns = mapped(names, options, rows, reader.media, where=str(path))
    except ValueError as error:
        raise ValueError(f"{error} {header}".rstrip()) from None
    return ReadSet(rows, None, label_reader(replace(reader, columns=columns), classes), notes)


def json_columns(path: Path, name: str) -> tuple[str, ...]:
    """Returns the names in the first rows of a JSON file, in their order."""
    found: dict[str, None] = {}
    for number, row in enumerate(json_rows(path, file=name)):
        if number >= _NUM_COLUMN_ROWS:
            break
        if isinstance(row, Row):
            found.update(dict.fromkeys(row.values))
    return tuple(found)


def mapped(
    names: tuple[str, ...],
    options: TableOptions,
    rows: Callable[[], Iterable[object]],
    media: MediaCells,
    *,
    where: str,
) -> Columns:
    """Returns which columns hold what, after checking that answers and media or questions are among them."""
    if {*names} >= _PREDICTED and not options.unanswered and roles.ANSWER not in options.columns:
        raise ValueError(
            f"{where}: `medtune predict` wrote this table: its answers are a model's and no truth. Give the table with "
            f"the true answers, or, where someone has corrected these, say so: --columns {roles.ANSWER}=answer"
        )
    found = columns_of(names, options.columns, where=where)
    found, leading = with_media_column(found, rows, media, options)
    without = (
        *((roles.QUESTION,) if options.question is not None else ()),
        *((roles.PATIENT,) if options.patient is not None else ()),
        *((roles.ANSWER, roles.SPLIT, roles.TOLERANCE, REJECTED) if options.unanswered else ()),
        *((roles.ANSWER,) if roles.LABELS in found.found else ()),
    )
    check_spelling(found, {*options.columns, *without}, where=where)
    if found.of(roles.TURNS) is not None:
        return found
    has_media = any(map(found.of, roles.MEDIA))
    if options.media_folder is not None and not has_media:
        raise ValueError(f"{where}: {no_column_of_media(found, leading)}")
    if options.unanswered:
        found = replace(found, found={role: names for role, names in found.found.items() if role != roles.ANSWER})
        if not (found.of(roles.QUESTION) or has_media):
            require(found, [roles.IMAGE], names, where=where, instead=" (or video=NAME, volume=NAME)")
        return found
    if options.question is None and roles.LABELS in found.found and not (has_media or found.of(roles.QUESTION)):
        instead = f" (the cells of {leading[0]!r} lead to files)" if leading else " (or video=NAME, volume=NAME)"
        require(found, [roles.IMAGE], names, where=where, instead=instead)
    if roles.LABELS in found.found:
        return found
    instead = "" if found.of(roles.ANSWER) else f". {WITHOUT_ANSWERS}"
    wanted = [roles.ANSWER]
    if options.question is None and not (found.of(roles.ANSWER) and has_media):
        wanted = [roles.QUESTION, roles.ANSWER]
        if not found.of(roles.QUESTION):
            instead = f', or ask one of all rows: --question "..."{instead}'
    require(found, wanted, names, where=where, instead=instead)
    return found


def label_reader(reader: RowReader, classes: Mapping[str, tuple[str, ...]]) -> RowReader:
    """Returns the reader with the question that is asked of labels without one, and with the classes of `datasets`."""
    if not reader.question and not reader.columns.of(roles.QUESTION) and not reader.columns.of(roles.TURNS):
        reader = replace(reader, question=LABELS_QUESTION if roles.LABELS in reader.columns.found else QUESTION)
    if reader.said.options:
        return reader
    named = listed_classes(reader.columns, classes)
    return replace(reader, classes=tuple(dict.fromkeys(map(reader.said.renamed, named))))


def listed_classes(columns: Columns, classes: Mapping[str, tuple[str, ...]]) -> tuple[str, ...]:
    """Returns the names of the classes of the answer column where rows have no options of their own; else nothing.

    Classes that are called yes and no are left out: such answers are yes-or-no answers anyway.
    """
    if columns.of(roles.OPTIONS) or columns.of(roles.LETTERS) or columns.of(roles.TURNS):
        return ()
    names = tuple(name.strip() for name in classes.get(columns.of(roles.ANSWER) or "", ()))
    is_yes_no = sorted(name.casefold() for name in names) == sorted(YES_NO)
    return () if len(names) < 2 or is_yes_no else names


def _note_of_other_tables(root: Path) -> tuple[str, ...]:
    if root.is_dir():
        return ()
    beside = (file for file in table_files(root.parent) if file.parent == root.parent and file != root)
    others = sum(not _is_predicted(file) for file in beside)
    lie = "1 other table lies" if others == 1 else f"{others} other tables lie"
    return (f"{lie} beside the one that was read; --from FOLDER reads all",) if others else ()


def _is_predicted(file: Path) -> bool:
    """Returns whether `medtune predict` wrote a file, from its first line."""
    try:
        with file.open(encoding="utf-8-sig") as lines:
            first = lines.readline(_LONGEST_HEADER)
    except (OSError, UnicodeDecodeError):
        return False
    return {word.strip('" \n}') for word in re.split(r"[,;:\t{]", first)} >= _PREDICTED
