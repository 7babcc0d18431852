"""Tests that the replies of the benchmark's own kit are scored beside the released table, and not without proof."""

import csv
import json
import shutil
from pathlib import Path

import pytest

from medtune.benchmarks import find_source
from medtune.data.prepared.read import Prepared
from medtune.data.prepared.write import prepare
from medtune.trainer.commands.cli import main
from tests.examples import write_example

Capture = pytest.CaptureFixture[str]
_TABLE = "disease_diagnosis/23.tsv"
_PART = ("--only", "task=DD", "dataset=23")


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Prepared:
    folder = tmp_path_factory.mktemp("u2")
    write_example("u2_bench", folder / "raw")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CONFIG_HOME", str(tmp_path_factory.getbasetemp() / "config"))
        return prepare(find_source("u2_bench"), benchmark="u2_bench", root=folder / "raw", out=folder / "prepared")


def _replies(prepared: Prepared) -> list[dict[str, object]]:
    """Returns the kit's lines with perfect replies to a set."""
    with (prepared.root.parent / "raw" / _TABLE).open(newline="") as file:
        labels = [row["class_label"] for row in csv.DictReader(file, delimiter="\t")]
    about = {"text_content": "You are a radiologist.", "image_paths": ["x.png"], "category": "cla", "model": "m"}
    return [{"id": str(number), **about, "response": label} for number, label in enumerate(labels)]


def _write(prepared: Prepared, folder: Path, lines: list[dict[str, object]]) -> Path:
    shutil.copy(prepared.root.parent / "raw" / _TABLE, folder / "23.tsv")
    file = folder / "multimodal_test_results_1.jsonl"
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return file


def _score(prepared: Prepared, file: Path) -> int:
    return main(["score", "u2_bench", "--predictions", str(file), "--questions", str(prepared.root), *_PART])


def test_replies_in_any_order_are_joined_with_the_table_beside_them(prepared: Prepared, tmp_path: Path) -> None:
    file = _write(prepared, tmp_path, _replies(prepared)[::-1])
    assert _score(prepared, file) == 0
    found = [json.loads(line) for line in (tmp_path / "parsed.jsonl").read_text().splitlines()]
    assert len(found) == 6
    assert [row["robust"] for row in found] == [row["answer"] for row in found]


def test_replies_without_the_table_prove_nothing(prepared: Prepared, tmp_path: Path, capsys: Capture) -> None:
    file = _write(prepared, tmp_path, _replies(prepared))
    (tmp_path / "23.tsv").unlink()
    assert _score(prepared, file) == 1
    assert "no row states its true answer or its question" in capsys.readouterr().err


def test_a_table_of_another_order_is_refused(prepared: Prepared, tmp_path: Path, capsys: Capture) -> None:
    file = _write(prepared, tmp_path, _replies(prepared))
    head, *rows = (tmp_path / "23.tsv").read_text().splitlines()
    (tmp_path / "23.tsv").write_text("\n".join([head, *rows[1:], rows[0]]) + "\n")
    assert _score(prepared, file) == 1
    assert "the row has the answer" in capsys.readouterr().err


def test_lines_and_tables_that_do_not_fit_are_named(prepared: Prepared, tmp_path: Path, capsys: Capture) -> None:
    file = _write(prepared, tmp_path, [*_replies(prepared), {"id": "99", "response": "x"}])
    assert _score(prepared, file) == 1
    assert f"{file}, line 7: its id '99' is no index of the table beside the file" in capsys.readouterr().err
    file.write_text(file.read_text()[:-20])
    assert _score(prepared, file) == 1
    assert f"{file}, line 7: broken or cut-off JSON" in capsys.readouterr().err
    (tmp_path / "24.tsv").write_text("index\tclass\n")
    assert _score(prepared, file) == 1
    assert (
        "wanted one released table beside it, the one it answers; there are 23.tsv, 24.tsv" in capsys.readouterr().err
    )
