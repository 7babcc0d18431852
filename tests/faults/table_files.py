"""Yields broken tables of questions: CSV, JSON, workbooks, Parquet and Arrow, with flipped bits or odd cells."""

import csv
import io
import json
import random
import zipfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import datasets
import openpyxl
import pyarrow as pa
import pyarrow.parquet as pq

from medtune.benchmarks import find_source
from medtune.data.raw.source import TableOptions
from tests.benchmarks.vqa.own_data import pictures
from tests.faults.harness import PLANTED, Broken
from tests.faults.picture_files import CHANGES

ODD: tuple[Any, ...] = (
    "", " ", "NaN", "9" * 400, "1e400", "-", "=1+1", "@cmd", "\x00", "\x1b[31m", "é" * 300, "[" * 3000, "{}", "[]",
    '[{"a": ', "a;b|c", "../../etc/passwd", "/dev/zero", "file:///dev/zero", "data:image/png;base64,AAAA", PLANTED,
    "x" * 100_000, "2026-11-30", "\u202e", "\ufeff", "True", "0x10", "image.png;image.png;", ".", "/", "~", "con",
)  # fmt: skip
COLUMNS = ("image", "question", "answer", "options", "patient", "split", "facet")


def _rows() -> list[dict[str, str]]:
    return [
        dict(
            zip(
                COLUMNS,
                (f"us_{n % 4}.png", f"So, {n}?", ("yes", "no")[n % 2], "yes|no", f"P{n % 4}", "", "a"),
                strict=True,
            )
        )
        for n in range(12)
    ]


def _csv(rows: list[dict[str, str]]) -> bytes:
    text = io.StringIO()
    writer = csv.DictWriter(text, list(rows[0]))
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue().encode("utf-8", "surrogatepass")


def _workbook(rows: list[dict[str, str]]) -> bytes:
    book = openpyxl.Workbook()
    sheet = book.create_sheet(index=0)
    for line in (list(rows[0]), *(list(row.values()) for row in rows)):
        sheet.append([openpyxl.cell.cell.ILLEGAL_CHARACTERS_RE.sub("", cell)[:30_000] for cell in line])
    content = io.BytesIO()
    book.save(content)
    return content.getvalue()


def _parquet(rows: list[dict[str, str]]) -> bytes:
    content = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(rows), content)
    return content.getvalue()


def _arrow(rows: list[dict[str, str]]) -> bytes:
    table, content = pa.Table.from_pylist(rows), io.BytesIO()
    with pa.ipc.new_stream(content, table.schema) as writer:
        writer.write_table(table)
    return content.getvalue()


WRITERS: Mapping[str, Callable[[list[dict[str, str]]], bytes]] = {
    ".csv": _csv, ".xlsx": _workbook, ".parquet": _parquet, ".arrow": _arrow,
    ".jsonl": lambda rows: "\n".join(map(json.dumps, rows)).encode(),
    ".json": lambda rows: json.dumps(rows).encode(),
}  # fmt: skip


def table_files(draw: random.Random, folder: Path) -> Iterator[Broken]:
    """Yields tables that are read by the source that medtune takes for them."""
    pictures(folder, 4)
    datasets.disable_progress_bars()
    while True:
        suffix, rows = draw.choice(list(WRITERS)), _rows()
        change, is_certain = "odd cells", False
        if draw.random() < 0.5:
            for _ in range(draw.randrange(1, 4)):
                row, odd = draw.choice(rows), draw.choice(ODD)
                if draw.random() < 0.2:
                    rows = [{odd if key == "facet" else key: cell for key, cell in each.items()} for each in rows]
                else:
                    field = draw.choice(list(row))
                    # A split that is not known is told, so that the user can say what it stands for.
                    row[field] = "mini" if field == "split" else odd
            content = WRITERS[suffix](rows)
        else:
            change = draw.choice(list(CHANGES))
            content, _ = CHANGES[change](draw, WRITERS[suffix](rows))
        if suffix == ".xlsx" and draw.random() < 0.3:
            change, content = f"{change} in a sheet", _in_sheet(draw, WRITERS[suffix](rows))
        path = folder / f"table_{draw.getrandbits(32):08x}{suffix}"
        path.write_bytes(content)
        name = draw.choice(("table", "table", "hf"))

        def read(path: Path = path, name: str = name) -> None:
            source = find_source(name)
            assert source.with_options is not None
            (scratch := path.with_suffix(".scratch")).mkdir()
            try:
                table = source.with_options(TableOptions()).read(path, 0, scratch)
            finally:
                path.unlink()
            for reject in table.rejects:
                assert "[Errno" not in reject.reason, reject
            assert all(isinstance(question.text, str) for question in table.questions)

        yield Broken(f"{change} in {path.name}, read as {name}", read, "", is_certain)


def _in_sheet(draw: random.Random, content: bytes) -> bytes:
    """Returns a workbook of which one part is damaged, and whose archive is whole."""
    out = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(content)) as book, zipfile.ZipFile(out, "w") as changed:
        hit = draw.choice(book.namelist())
        for name in book.namelist():
            part = book.read(name)
            changed.writestr(name, CHANGES[draw.choice(list(CHANGES))](draw, part)[0] if name == hit else part)
    return out.getvalue()
