"""Tests that predictions of lmms-eval and VLMEvalKit are scored like our own."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import openpyxl
import pytest

from medtune.benchmarks import find_source
from medtune.benchmarks.fetal_gauge.sources import fetal_gauge
from medtune.data.prepared.question_origins import read_origins
from medtune.data.prepared.read import Prepared, open_prepared
from medtune.data.prepared.write import prepare
from medtune.data.types import Question
from medtune.trainer.commands.cli import main


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Prepared:
    folder = tmp_path_factory.mktemp("gauge")
    write = fetal_gauge.source().write_example
    assert write is not None
    write(folder / "raw")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CONFIG_HOME", str(tmp_path_factory.getbasetemp() / "config"))
        return prepare(
            find_source("fetal_gauge"),
            benchmark="fetal_gauge",
            root=folder / "raw",
            out=folder / "prepared",
        )


def _raw(prepared: Prepared) -> list[tuple[str, dict[str, object], Question]]:
    """Returns the test rows of the source's file with their questions, in the order of the file."""
    lines = (prepared.root.parent / "raw" / "questions.jsonl").read_text().splitlines()
    rows = [row for row in map(json.loads, lines) if row["split"] == "test"]
    known = read_origins(prepared.root, "fetal_gauge")
    questions = {question.id: question for question in prepared.questions("test")}
    return [(row["id"], row, questions[str(known.find(row["id"]))]) for row in rows]


def _score(prepared: Prepared, file: Path, *extra: str) -> int:
    return main(["score", "fetal_gauge", "--predictions", str(file), "--questions", str(prepared.root), *extra])


def _accuracy(file: Path) -> float:
    return float(json.loads((file.parent / "scores.json").read_text())["overall"]["value"])


def _lmms(prepared: Prepared, file: Path, *, ids: bool = True, replies: Callable[[Question], Sequence[str]]) -> None:
    with file.open("w") as out:
        for number, (row_id, row, question) in enumerate(_raw(prepared)):
            doc = {
                **({"id": row_id} if ids else {}),
                "answer": row["answer"],
                "options": row["options"],
                "image_size": 3,
            }
            sample = {"doc_id": number, "doc": doc, "target": row["answer"], "resps": [list(replies(question))]}
            out.write(json.dumps({**sample, "filtered_resps": ["cleaned"], "doc_hash": f"{number:064x}"}) + "\n")


def _table(prepared: Prepared) -> list[dict[str, object]]:
    rows = []
    for number, (_, row, question) in enumerate(_raw(prepared)):
        options = list(reversed(list(map(str, row["options"]))))  # type: ignore[call-overload]
        letter = "ABCDEF"[options.index(question.answer)]
        lettered = {"ABCDEF"[i]: option for i, option in enumerate(options)}
        rows.append(
            {"index": number, "question": row["prompt"], **lettered, "answer": letter, "prediction": f"{letter}."}
        )
    return rows


def _write(file: Path, rows: Sequence[Mapping[str, object]]) -> None:
    names = list(dict.fromkeys(name for row in rows for name in row))
    if file.suffix == ".xlsx":
        book = openpyxl.Workbook()
        sheet = book.active
        assert sheet is not None
        for cells in (names, *([str(row.get(name, "")) for name in names] for row in rows)):
            sheet.append(cells)
        book.save(file)
    elif file.suffix == ".json":
        file.write_text(json.dumps(rows))
    else:
        with file.open("w", newline="") as out:
            writer = csv.DictWriter(out, names, delimiter="\t" if file.suffix == ".tsv" else ",")
            writer.writeheader()
            writer.writerows(rows)


def test_lmms_eval_samples_go_by_the_row_ids_of_the_benchmark(prepared: Prepared, tmp_path: Path) -> None:
    file = tmp_path / "samples.jsonl"
    _lmms(prepared, file, replies=lambda question: [f"<think>hm</think> {question.answer}", "nonsense"])
    assert _score(prepared, file) == 0
    assert _accuracy(file) == 0.5  # the mean of two passes: the first all right, the second all wrong


@pytest.mark.parametrize("suffix", [".xlsx", ".tsv", ".csv", ".json"])
def test_vlmevalkit_letters_count_by_the_tools_own_order_of_options(
    prepared: Prepared, tmp_path: Path, suffix: str
) -> None:
    file = tmp_path / f"model_gauge{suffix}"
    _write(file, _table(prepared))
    assert _score(prepared, file) == 0
    assert _accuracy(file) == 1.0


def test_rows_without_ids_need_the_order_and_its_proof(
    prepared: Prepared, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "samples.jsonl"
    _lmms(prepared, file, ids=False, replies=lambda question: [question.answer])
    assert _score(prepared, file) == 0
    assert _accuracy(file) == 1.0
    assert "Prompts: those of the tool that answered." in capsys.readouterr().out
    lines = file.read_text().splitlines()
    file.write_text("\n".join(reversed(lines)))
    assert _score(prepared, file) == 1
    assert "not in the order of the benchmark's files" in capsys.readouterr().err
    file.write_text("\n".join(lines[:-1]))
    assert _score(prepared, file) == 1
    assert "cannot be 20 questions in their order. Give the part" in capsys.readouterr().err


def test_a_part_of_the_questions(prepared: Prepared, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = [
        row
        for row, (_, raw, _) in zip(_table(prepared), _raw(prepared), strict=True)
        if raw["task"] == "view_completeness"
    ]
    file = tmp_path / "part.tsv"
    _write(file, rows)
    assert _score(prepared, file, "--only", "task=view_completeness") == 0
    assert _accuracy(file) == 1.0
    assert _score(prepared, file, "--only", "task=none") == 1
    assert "no question of the split 'test' has task=none" in capsys.readouterr().err


def test_table_without_predictions(prepared: Prepared, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "x.tsv"
    _write(file, [{"index": 1, "answer": "A"}])
    assert _score(prepared, file) == 1
    assert "wanted a column 'prediction'" in capsys.readouterr().err


def test_rows_are_found_by_their_own_id_and_no_id_is_stored(prepared: Prepared) -> None:
    raw = _raw(prepared)
    assert len(raw) == prepared.num_questions("test") == 20
    assert not any(row_id.encode() in (prepared.root / "origins.arrow").read_bytes() for row_id, _, _ in raw)
    assert read_origins(prepared.root, "fetal_gauge").find("unknown") is None
    assert open_prepared(prepared.root).data_hash == prepared.data_hash
