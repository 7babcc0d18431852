"""A prepared folder that was changed or damaged is refused in words: no traceback, no signal."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from medtune.data.prepared.manifest import MANIFEST, MEDIA, QUESTIONS
from medtune.data.prepared.origins import ORIGINS
from medtune.data.prepared.read import open_prepared
from medtune.data.prepared.tables import map_table
from medtune.data.types import SPLITS


@pytest.fixture
def folder(prepared_tiny: Path, tmp_path: Path) -> Path:
    shutil.copytree(prepared_tiny, tmp_path / "prepared")
    return tmp_path / "prepared"


def everything(folder: Path) -> int:
    """Opens a folder and makes all of its questions and media groups."""
    prepared = open_prepared(folder)
    return sum(len(prepared.questions(split)) + len(prepared.groups(split)) for split in SPLITS)


CHANGES: dict[str, Callable[[dict[str, Any]], object]] = {
    "counts is a list": lambda made: made.update(counts=[1]),
    "counts": lambda made: made["counts"].pop("val"),
    "num_patients": lambda made: made["num_patients"].pop("val"),
    "counts.train.x": lambda made: made["counts"]["train"].update(x="many"),
    "num_patients is text": lambda made: made.update(num_patients="5"),
    "fractions": lambda made: made.update(fractions=[0.5]),
    "own_splits": lambda made: made.update(own_splits=["all"]),
    "lookalikes": lambda made: made.update(lookalikes=7),
    "lookalikes.num_pairs": lambda made: made["lookalikes"].update(num_pairs={"a": 1}),
    "notes": lambda made: made.update(notes={"a": 1}),
    "seed": lambda made: made.update(seed="first"),
    "provenance": lambda made: made.update(provenance="stolen"),
    "data_hash": lambda made: made.update(data_hash=["a"]),
    "split_leaks": lambda made: made.update(split_leaks="none"),
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_manifest_with_a_value_of_another_form_is_named(folder: Path, name: str) -> None:
    made = json.loads((folder / MANIFEST).read_text("utf-8"))
    CHANGES[name](made)
    (folder / MANIFEST).write_text(json.dumps(made), "utf-8")
    field = name.split()[0].split(".")[0]
    with pytest.raises(ValueError, match=rf"(manifest\.json: .*{field}|the manifest states).* Run `medtune prepare`"):
        everything(folder)


@pytest.mark.parametrize("content", [b"", b"[]", b"{", b"\xff", b"\x00" * 9, b"[" * 99_999, b'{"a": ' * 99_999])
def test_a_file_that_is_no_manifest_is_named(folder: Path, content: bytes) -> None:
    (folder / MANIFEST).write_bytes(content)
    with pytest.raises(ValueError, match=r"manifest\.json: .*Run `medtune prepare` again"):
        everything(folder)


@pytest.mark.parametrize("name", [QUESTIONS, MEDIA, ORIGINS])
def test_a_table_of_another_folder_is_named(folder: Path, prepared_tiny: Path, name: str, tmp_path: Path) -> None:
    """Its answers or media would stand under the hash of this folder's data."""
    table = map_table(folder / name) if name != ORIGINS else pa.ipc.open_file(folder / name).read_all()
    with pa.OSFile(str(tmp_path / "turned"), "wb") as file, pa.ipc.new_file(file, table.schema) as writer:
        writer.write_table(table.take(list(range(len(table)))[::-1]))
    (folder / name).write_bytes((tmp_path / "turned").read_bytes())
    with pytest.raises(ValueError, match=rf"{name}: this table is not as it was prepared.*Copy the folder again"):
        everything(folder)
