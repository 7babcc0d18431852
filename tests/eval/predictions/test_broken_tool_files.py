"""Tests that each kind of broken or foreign file is refused with a message that names it and says what to do."""

import csv
import io
import json
import pickle
from pathlib import Path

import openpyxl
import pytest

from medtune.data.prepared.read import open_prepared
from medtune.trainer.commands.cli import main

Capture = pytest.CaptureFixture[str]


@pytest.fixture
def rows(prepared_tiny: Path) -> list[dict[str, str]]:
    """Perfect replies in VLMEvalKit's columns, by medtune's own ids."""
    asked = open_prepared(prepared_tiny).questions("test")
    return [{"question_id": q.id, "question": q.text, "answer": q.answer, "prediction": q.answer} for q in asked]


def score(prepared: Path, *files: Path) -> int:
    return main(["score", "busi", "--predictions", *map(str, files), "--questions", str(prepared)])


def table(rows: list[dict[str, str]], delimiter: str = "\t") -> str:
    out = io.StringIO()
    writer = csv.DictWriter(out, list(rows[0]), delimiter=delimiter, quoting=csv.QUOTE_ALL)
    writer.writeheader()
    writer.writerows(rows)
    return out.getvalue()


def refused(prepared: Path, file: Path, capsys: Capture) -> str:
    assert score(prepared, file) == 1
    said = capsys.readouterr().err
    assert str(file) in said
    assert "Traceback" not in said
    assert not (file.parent / "scores.json").exists()
    return said


def test_a_cut_off_json_list(prepared_tiny: Path, rows: list[dict[str, str]], tmp_path: Path, capsys: Capture) -> None:
    file = tmp_path / "model.json"
    file.write_text(json.dumps(rows, indent=4)[:-30])
    assert "broken or cut-off JSON (line " in refused(prepared_tiny, file, capsys)


def test_a_cut_off_json_line(prepared_tiny: Path, rows: list[dict[str, str]], tmp_path: Path, capsys: Capture) -> None:
    file = tmp_path / "samples.jsonl"
    file.write_text("\n".join(json.dumps({"doc_id": 1, "filtered_resps": "x"}) for _ in rows)[:-5])
    assert f"line {len(rows)}: broken or cut-off JSON" in refused(prepared_tiny, file, capsys)


@pytest.mark.parametrize("encoding", ["utf-16", "latin-1"])
@pytest.mark.parametrize("suffix", [".tsv", ".csv", ".json", ".jsonl"])
def test_another_encoding(
    prepared_tiny: Path, rows: list[dict[str, str]], tmp_path: Path, capsys: Capture, encoding: str, suffix: str
) -> None:
    file = tmp_path / f"model{suffix}"
    rows[0]["prediction"] = "bénin"
    text = json.dumps(rows, ensure_ascii=False) if "json" in suffix else table(rows)
    file.write_bytes(text.encode(encoding))
    said = refused(prepared_tiny, file, capsys)
    assert "UTF-8" in said


def test_a_cut_off_table(prepared_tiny: Path, rows: list[dict[str, str]], tmp_path: Path, capsys: Capture) -> None:
    file = tmp_path / "model.tsv"
    file.write_text(table(rows)[:-4])
    assert "broken or cut-off table" in refused(prepared_tiny, file, capsys)
    file.write_text(table(rows).rpartition("\t")[0] + "\r\n")
    assert f"row {len(rows) + 1}: 3 cells in 4 columns" in refused(prepared_tiny, file, capsys)
    file.write_text("")
    assert "the table has no rows" in refused(prepared_tiny, file, capsys)


def test_sheets_beside_the_predictions(
    prepared_tiny: Path, rows: list[dict[str, str]], tmp_path: Path, capsys: Capture
) -> None:
    file, book = tmp_path / "model.xlsx", openpyxl.Workbook()
    assert book.active is not None
    book.active.append(["notes"])
    sheet = book.create_sheet("Sheet1")
    for cells in (list(rows[0]), *(list(row.values()) for row in rows)):
        sheet.append(cells)
    book.save(file)
    assert score(prepared_tiny, file) == 0
    assert json.loads((tmp_path / "scores.json").read_text())["overall"]["value"] == 1.0
    (tmp_path / "scores.json").unlink()
    capsys.readouterr()
    book.copy_worksheet(sheet).title = "Sheet2"
    book.save(file)
    assert "wanted one sheet with a column 'prediction', 2 have it" in refused(prepared_tiny, file, capsys)
    file.write_bytes(file.read_bytes()[:900])
    assert "no readable .xlsx table" in refused(prepared_tiny, file, capsys)


class Bomb:
    """Writes a file when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[object, ...]:
        return Path.touch, (self.path,)


def test_a_pickle_is_never_opened(
    prepared_tiny: Path, rows: list[dict[str, str]], tmp_path: Path, capsys: Capture
) -> None:
    file, mark = tmp_path / "model.pkl", tmp_path / "opened"
    file.write_bytes(pickle.dumps(Bomb(mark)))
    said = refused(prepared_tiny, file, capsys)
    assert "pandas.read_pickle('model.pkl').to_csv('model.tsv', sep='\\t', index=False)" in said
    (tmp_path / "model.tsv").write_text(table(rows))
    assert score(prepared_tiny, file) == 0
    assert "no .pkl is opened; model.tsv beside it was read instead" in capsys.readouterr().out
    assert not mark.exists()


def test_a_file_of_another_kind(prepared_tiny: Path, tmp_path: Path, capsys: Capture) -> None:
    file = tmp_path / "results.json"
    file.write_text(json.dumps({"results": {"busi": 1}, "config": {}}))
    assert "wanted a JSON list of rows, got an object with results, config" in refused(prepared_tiny, file, capsys)
    file.write_text(json.dumps([{"question_id": "x", "text": "y"}]))
    assert "no row has a field 'prediction' or 'filtered_resps'" in refused(prepared_tiny, file, capsys)
    file.write_text("[]")
    assert "no row has" in refused(prepared_tiny, file, capsys)
    assert "holds no result files of" in refused(prepared_tiny, _folder(tmp_path / "results"), capsys)


def test_rows_of_another_split_or_benchmark(
    prepared_tiny: Path, rows: list[dict[str, str]], tmp_path: Path, capsys: Capture
) -> None:
    file = tmp_path / "model.json"
    other = open_prepared(prepared_tiny).questions("train")[0]
    file.write_text(json.dumps([*rows, {**rows[0], "question_id": other.id}]))
    said = refused(prepared_tiny, file, capsys)
    assert f"row {len(rows) + 1}: question_id {other.id!r} is no question of this split" in said
    file.write_text(json.dumps([{**row, "question_id": "", "question": "Which plane?"} for row in rows[::-1]]))
    assert "nothing was scored" in refused(prepared_tiny, file, capsys)


def test_json_lines_may_be_named_json(prepared_tiny: Path, rows: list[dict[str, str]], tmp_path: Path) -> None:
    for reply in ("text", "prediction"):
        file = tmp_path / "lines.json"
        lines = [{"question_id": row["question_id"], reply: row["prediction"]} for row in rows]
        file.write_text("\n".join(map(json.dumps, lines)))
        assert score(prepared_tiny, file) == 0
        assert json.loads((tmp_path / "scores.json").read_text())["overall"]["value"] == 1.0


def test_a_folder_of_another_benchmark(prepared_tiny: Path, tmp_path: Path, capsys: Capture) -> None:
    given = ["--predictions", str(tmp_path / "x.tsv"), "--questions", str(prepared_tiny)]
    assert main(["score", "fetal_gauge", *given]) == 1
    assert f"{prepared_tiny} was prepared for the benchmark 'busi', not 'fetal_gauge'" in capsys.readouterr().err


def test_files_of_medtunes_own_format_are_scored_alone(
    prepared_tiny: Path, rows: list[dict[str, str]], tmp_path: Path, capsys: Capture
) -> None:
    one, two = tmp_path / "one.jsonl", tmp_path / "two.jsonl"
    for file in (one, two):
        file.write_text(json.dumps({"question_id": rows[0]["question_id"], "text": "x"}))
    assert score(prepared_tiny, one, two) == 1
    assert "in medtune's own format (question_id, text) is scored alone" in capsys.readouterr().err


def _folder(path: Path) -> Path:
    path.mkdir()
    return path
