"""Reads the rows of tables: files (CSV, TSV, .xlsx, Parquet, Arrow), saved data sets and those of the Hugging Face hub.

Workbooks are read with openpyxl (`workbooks`), all others with Hugging Face `datasets`.

Rows are read one batch after another, so that a file of any size takes little memory. Media stay as they are stored, as
a path or bytes, and nothing is decoded. Code that comes with a data set is never run.

Source: the library's documentation, huggingface.co/docs/datasets (5.2).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, cast

from medtune.data.json_text import json_value
from medtune.data.raw.csv_header import code_page_note, csv_fault, csv_layout
from medtune.data.raw.rows import Row, RowSet
from medtune.data.raw.source import HubId, Place

if TYPE_CHECKING:
    import pyarrow as pa
    from datasets import Dataset, Features, IterableDataset


_FORM = re.compile(r"hf:(?P<id>[^:@]+)(:(?P<config>[^:@]+))?(@(?P<revision>[^:@]+))?")

XLSX = ".xlsx"
BUILDERS: Mapping[str, str] = {".csv": "csv", ".tsv": "csv", ".parquet": "parquet", ".arrow": "arrow", XLSX: ""}
"""The builder of `datasets` that reads files of each suffix; openpyxl reads workbooks."""
SAVED = ("dataset_dict.json", "state.json")
"""The files that tell a folder which `save_to_disk` wrote."""
NO_HEADER = "--sheet and --header belong to workbooks and text files; this file states its columns itself."
_CHUNK_BYTES = 8 << 20
_ROWS = 1000
_ROWS_WITH_MEDIA = 16
_HUB = "https://huggingface.co/datasets"


def parsed_hub_id(text: str) -> HubId | None:
    """Returns the name of a hub data set; None where the text does not begin with "hf:".

    >>> parsed_hub_id("hf:MMMU/MMMU:Pharmacy@v1.0")
    HubId(id='MMMU/MMMU', config='Pharmacy', revision='v1.0')
    >>> parsed_hub_id("data.csv") is None
    True
    """
    if not text.startswith("hf:"):
        return None
    said = _FORM.fullmatch(text)
    if said is None:
        raise ValueError(f"{text}: wanted hf:ID, hf:ID:CONFIG or hf:ID@REVISION, e.g. hf:OWNER/NAME.")
    return HubId(said["id"], said["config"], said["revision"])


def file_rows(path: Path, *, name: str, sheet: str | None = None, header: int | None = None) -> RowSet:
    """Returns the rows of a CSV, TSV, .xlsx, Parquet or Arrow file; every cell of a CSV file is text.

    Args:
        sheet: The sheet of a workbook; None for the first with rows.
        header: The row of a workbook or the line of a text file with the columns' names; None for the first.
    """
    if not path.is_file():
        raise FileNotFoundError(f"{path}: there is no such file. Check the path.")
    builder = BUILDERS.get(path.suffix.lower())
    if builder is None:
        raise ValueError(f'{path}: wanted {", ".join(BUILDERS)} or JSON. Save a spreadsheet as .xlsx or "CSV UTF-8".')
    if builder == "":
        from medtune.data.raw.workbooks import read_sheet

        return read_sheet(path, name, sheet, header)
    if sheet is not None:
        raise ValueError(f"{path}: --sheet names a sheet of a workbook ({XLSX}), and this file is none. Leave it out.")
    if header is not None and builder != "csv":
        raise ValueError(f"{path}: {NO_HEADER}")
    with _explained(str(path)):
        return (
            _csv_rows(path, name, header)
            if builder == "csv"
            else _row_set(_streamed(builder, path, {}), name, split=None)
        )


def hub_rows(origin: HubId | Path, *, stream: bool = False) -> list[RowSet]:
    """Returns the rows of each split of a data set of the hub, or of a folder that `save_to_disk` wrote.

    Where the id of a hub data set is also the path of a folder, the folder is read: a copy of the repository, or a
    saved data set. Without network a data set is taken from the cache of earlier downloads.

    Args:
        stream: Fetches rows only as they are read, in place of downloading the data set into the cache.
    """
    import datasets

    hub = HubId(str(origin)) if isinstance(origin, Path) else origin
    folder = Path(hub.id)
    with _explained(str(origin)):
        if any((folder / name).is_file() for name in SAVED):
            if hub.config or hub.revision:
                said = "a data set that was saved to disk has no configuration and no revision. Leave them out."
                raise ValueError(f"{hub}: {said}")
            loaded = datasets.load_from_disk(folder)
            parts = loaded if isinstance(loaded, dict) else {str(loaded.split or "train"): loaded}
            return [_row_set(part, name, split=name) for name, part in parts.items()]
        if folder.is_dir():
            _refuse_code(hub, [entry.name for entry in folder.iterdir()])
        else:
            _look_up(hub)
        with _alone():
            loaded = datasets.load_dataset(
                hub.id, hub.config, revision=hub.revision, streaming=stream, trust_remote_code=False
            )
            if any(part.features is None for part in loaded.values()):
                # A JSON list is read whole before its columns are known, and streaming loses the types of its cells.
                loaded = datasets.load_dataset(hub.id, hub.config, revision=hub.revision, trust_remote_code=False)
        return [_row_set(part, str(name), split=str(name)) for name, part in loaded.items()]


def _csv_rows(path: Path, name: str, header: int | None) -> RowSet:
    import datasets

    layout = csv_layout(path, header)
    settings: dict[str, object] = {
        "sep": layout.delimiter,
        "encoding": layout.encoding,
        "skiprows": layout.skipped_lines,
        "features": datasets.Features({column: datasets.Value("string") for column in layout.columns}),
        "na_filter": False,
        "skip_blank_lines": False,
        "chunksize": max(1, min(10_000, _CHUNK_BYTES // layout.row_bytes)),
    }
    rows = _streamed("csv", path, settings)

    def lines() -> Iterator[Row]:
        line = layout.skipped_lines + layout.header_lines
        try:
            for row in _rows(rows, name):
                texts = [str(cell or "") for cell in row.values.values()]
                if any(texts):
                    yield Row(Place(name, line + 1), row.values)
                line += 1 + sum(text.count("\n") for text in texts)
        except ValueError as error:
            if (fault := csv_fault(path, layout)) is None:
                raise
            raise ValueError(f"{path}: {fault}") from error

    columns = tuple(column.strip() for column in layout.columns)
    said = f"The header is taken from line {layout.skipped_lines + 1}; --header LINE takes another."
    return RowSet(name, None, columns, lines, notes=code_page_note(name, path, layout.encoding), header=said)


def _streamed(builder: str, path: Path, settings: Mapping[str, object]) -> IterableDataset:
    import datasets

    with _alone():
        return datasets.load_dataset(
            builder, data_files=[str(path)], split="train", streaming=True, trust_remote_code=False, **settings
        )


def _row_set(part: Dataset | IterableDataset, name: str, *, split: str | None) -> RowSet:
    import datasets

    classes = {
        column.strip(): tuple(feature.names)
        for column, feature in part.features.items()
        if isinstance(feature, datasets.ClassLabel)
    }
    columns = tuple(column.strip() for column in part.features)
    return RowSet(name, split, columns, lambda: _rows(part, name), classes)


def _rows(part: Dataset | IterableDataset, name: str) -> Iterator[Row]:
    features: Features = part.features
    decode = {column: decoder for column, feature in features.items() if (decoder := _decoder(feature))}
    size = _ROWS_WITH_MEDIA if "binary" in str(features.arrow_schema) else _ROWS
    number = 0
    with _explained(name):
        with _alone():
            as_arrow = part.with_format("arrow")
        for batch in as_arrow.iter(batch_size=size):
            for values in _cells(batch, decode):
                number += 1
                yield Row(Place(name, number), values)


def _cells(batch: pa.Table, decode: Mapping[str, Callable[[object], object]]) -> Iterator[dict[str, object]]:
    columns = {name: batch.column(name).to_pylist() for name in batch.schema.names}
    for name, decoder in decode.items():
        columns[name] = [None if cell is None else decoder(cell) for cell in columns[name]]
    names = [name.strip() for name in columns]
    for row in zip(*columns.values(), strict=True):
        yield dict(zip(names, row, strict=True))


def _decoder(feature: object) -> Callable[[object], object] | None:
    import datasets

    if isinstance(feature, datasets.ClassLabel):
        names: list[str] = feature.names
        return lambda cell: names[cell] if isinstance(cell, int) and 0 <= cell < len(names) else None
    if isinstance(feature, datasets.Json):
        return lambda cell: json_value(cell) if isinstance(cell, str) else cell
    return None


def _refuse_code(hub: HubId, files: list[str]) -> None:
    script = f"{Path(hub.id).name}.py"
    if script in files:
        raise ValueError(
            f"{hub}: this data set wants to run its own code ({script}), and medtune runs no code of a data set. "
            "Ask its owner for Parquet files, or take a copy that has them (the hub's branch refs/convert/parquet)."
        )


def _look_up(hub: HubId) -> None:
    import datasets
    import huggingface_hub
    from huggingface_hub import errors

    try:
        info = huggingface_hub.HfApi().dataset_info(hub.id, revision=hub.revision, timeout=20)
    except errors.HFValidationError as error:
        raise FileNotFoundError(f"{hub}: no path of a folder, and no id of the hub ({error}).") from None
    except errors.GatedRepoError:
        raise FileNotFoundError(
            f"{hub}: the owner gives access on request. Ask for it at {_HUB}/{hub.id}, then run `hf auth login`."
        ) from None
    except errors.RevisionNotFoundError:
        raise FileNotFoundError(f"{hub}: the data set has no revision {hub.revision!r}. Check it.") from None
    except errors.RepositoryNotFoundError:
        raise FileNotFoundError(
            f"{hub}: the hub has no data set of this id, and there is no such folder. Check the spelling; a private "
            "one needs `hf auth login`."
        ) from None
    except (errors.OfflineModeIsEnabled, _http_error(), OSError) as error:
        *owner, name = hub.id.split("/")
        cached = Path(datasets.config.HF_DATASETS_CACHE) / "___".join([*owner, _snake_case(name)])
        if not cached.is_dir():
            raise ValueError(
                f"{hub}: there is no such folder, the cache has no such data set, and the hub cannot be reached "
                f"({type(error).__name__}). Check the id and the network, or give the path of a copy: hf:FOLDER."
            ) from None
        return
    _refuse_code(hub, [file.rfilename for file in info.siblings or ()])


def _http_error() -> type[Exception]:
    from huggingface_hub.errors import HfHubHTTPError

    return cast("type[Exception]", HfHubHTTPError.__bases__[0])


def _snake_case(name: str) -> str:
    from datasets.naming import camelcase_to_snakecase

    said: str = camelcase_to_snakecase(name)
    return said


@contextmanager
def _alone() -> Iterator[None]:
    """Loads no torch, and tells no server of a table that is read: the library does so of files of this machine too."""
    from datasets import config

    before = config.TORCH_AVAILABLE, config.HF_UPDATE_DOWNLOAD_COUNTS
    config.TORCH_AVAILABLE = config.HF_UPDATE_DOWNLOAD_COUNTS = False
    try:
        yield
    finally:
        config.TORCH_AVAILABLE, config.HF_UPDATE_DOWNLOAD_COUNTS = before


@contextmanager
def _explained(where: str) -> Iterator[None]:
    from datasets.exceptions import DatasetsError
    from datasets.utils import logging

    # The library logs what it then raises.
    verbosity = logging.get_verbosity()
    logging.set_verbosity(logging.CRITICAL)
    try:
        yield
    # The readers behind the library raise any of these for a broken file, Arrow's for a missing column a KeyError.
    except (DatasetsError, RuntimeError, OSError, ValueError, LookupError, TypeError, AttributeError) as error:
        if str(error).startswith((where, "hf:")):
            raise
        cause = error.__cause__ or error
        raise ValueError(f"{where}: cannot be read as a table: {' '.join(str(cause).split())[:300]}") from error
    finally:
        logging.set_verbosity(verbosity)
