"""A data set of the Hugging Face hub, a copy of its repository, or a data set that `save_to_disk` wrote.

Layout: hf:ID, hf:ID:CONFIG or hf:ID@REVISION, where ID may be the path of a copy; or a folder with dataset_dict.json or
state.json. The columns are those of a table, and images and videos may stand in them as bytes.

Source: Hugging Face `datasets`, huggingface.co/docs/datasets.
"""

from collections import Counter
from functools import partial
from pathlib import Path

from medtune.benchmarks.vqa.media_cells import media_reader
from medtune.benchmarks.vqa.question_table import ReadSet, question_table
from medtune.benchmarks.vqa.row_questions import RowReader
from medtune.benchmarks.vqa.sources.table import PATIENT_UNIT, label_reader, mapped
from medtune.data.raw.folder import raw_folder, split_named
from medtune.data.raw.rows import RowSet
from medtune.data.raw.source import NOTHING_SAID, HubId, Source, SourceTable, TableOptions
from medtune.data.raw.table_rows import SAVED, hub_rows
from medtune.data.types import Split


def source(options: TableOptions = NOTHING_SAID) -> Source:
    return Source(
        title="a data set of the Hugging Face hub",
        licence="of the data set's owner",
        url="https://huggingface.co/docs/datasets",
        provenance="released",
        patient_unit=PATIENT_UNIT,
        read=partial(_read, options=options),
        read_hub=partial(_read, options=options),
        with_options=source,
        recognises=_recognises,
    )


def _recognises(origin: Path | HubId) -> bool:
    return isinstance(origin, HubId) or any((origin / name).is_file() for name in SAVED)


def _read(origin: Path | HubId | None, seed: int, scratch: Path, *, options: TableOptions) -> SourceTable:
    if not isinstance(origin, HubId):
        origin = raw_folder(origin, holds=f"a saved data set ({' or '.join(SAVED)})")
    folder = Path(origin.id) if isinstance(origin, HubId) else origin
    media = media_reader((folder,), options, scratch)
    parts = hub_rows(origin, stream=options.limit is not None)
    splits = _splits(parts, options)
    sets = []
    for part in (part for part in parts if part.name in splits):
        columns = mapped(part.columns, options, part.rows, media, where=f"{origin}, split {part.name!r}")
        reader = label_reader(RowReader(columns, media, options, options.question, seed=seed), part.classes)
        sets.append(ReadSet(part.rows, splits[part.name], reader))
    first = "" if options.limit is None else f"limit: of each split the first {options.limit} patients were read"
    notes = (f"splits of the data set: {', '.join(part.name for part in parts)}", *filter(None, [first]))
    names = [part.name for part in parts]
    return question_table(
        sets, folder, options=options, split_names=names, read_files=None, limit=options.limit, notes=notes
    )


def _splits(parts: list[RowSet], options: TableOptions) -> dict[str, Split | None]:
    found: dict[str, Split | None] = {}
    for part in parts:
        if (split := split_named(part.name, options.splits)) is not None:
            found[part.name] = split
    if [part.name for part in parts] == ["train"] and "train" not in options.splits:
        return {"train": None}
    for split, count in Counter(found.values()).items():
        if count > 1 and split != "train":
            same = [name for name, each in found.items() if each == split]
            raise ValueError(
                f"{' and '.join(same)} are all {split}. Leave all but one out, e.g. --splits {same[-1]}=none."
            )
    return found
