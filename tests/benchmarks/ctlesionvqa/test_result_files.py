"""Tests that the results of version 2's evaluation kit are scored as they are."""

import json
from collections.abc import Mapping
from pathlib import Path

import pytest

from medtune.benchmarks import find_source
from medtune.data.prepared.read import Prepared
from medtune.data.prepared.write import prepare
from medtune.trainer.commands.cli import main

Capture = pytest.CaptureFixture[str]


def _rows() -> list[dict[str, object]]:
    """Returns twelve rows of version 2 about four scans."""
    rows: list[dict[str, object]] = []
    for number in range(12):
        volume = 1000 + 10 * number
        rows.append(
            {
                "qid": f"bench_{number:05d}",
                "image_id": f"BDMAP_{number % 4:08d}",
                "question": "How large is the liver?",
                "answer": f"{volume} cm³",
                "mc_question": f"How large is the liver? A: 1 cm³ B: {volume} cm³ C: 2000 cm³",
                "correct_option": "B",
                "organ": "liver",
                "question_type": "Measurement",
                "question_subtype": "organ volume measurement",
            }
        )
    return rows


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Prepared:
    folder = tmp_path_factory.mktemp("v2")
    (folder / "raw" / "benchmark").mkdir(parents=True)
    (folder / "raw" / "benchmark" / "test_qa.json").write_text(json.dumps({"questions": _rows()}))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CONFIG_HOME", str(tmp_path_factory.getbasetemp() / "config"))
        source = find_source("ctlesionvqa")
        return prepare(
            source, benchmark="ctlesionvqa", root=folder / "raw", out=folder / "prepared", without_media=True
        )


def _results(row: Mapping[str, object], reply: object) -> dict[str, object]:
    names = ("qid", "image_id", "question_subtype", "question_type", "correct_option", "answer")
    return {**{name: row[name] for name in names}, "raw_output": reply, "pred_answer": reply}


def _score(prepared: Prepared, file: Path, *extra: str) -> int:
    return main(["score", "ctlesionvqa", "--predictions", str(file), "--questions", str(prepared.root), *extra])


@pytest.mark.parametrize(("kind", "reply"), [("multi_choice", "correct_option"), ("free_text", "answer")])
def test_results_in_any_order(prepared: Prepared, tmp_path: Path, kind: str, reply: str) -> None:
    file = tmp_path / "vqa.json"
    results = [_results(row, row[reply]) for row in _rows()[::-1]]
    file.write_text(json.dumps({"metrics": {}, "n_processed": len(results), "results": results}))
    assert _score(prepared, file, "--only", f"format={kind}") == 0
    overall = json.loads((tmp_path / "scores.json").read_text())["overall"]
    assert (overall["value"], overall["n"]) == (1.0, 12)


def test_results_that_belong_to_other_rows_are_refused(prepared: Prepared, tmp_path: Path, capsys: Capture) -> None:
    file, rows = tmp_path / "vqa.json", _rows()
    results = [
        _results({**row, "qid": other["qid"]}, "x") for row, other in zip(rows, rows[1:] + rows[:1], strict=True)
    ]
    file.write_text(json.dumps({"results": results}))
    assert _score(prepared, file, "--only", "format=free_text") == 1
    said = capsys.readouterr().err
    assert f"by qid: {file}, result 1: the row has the answer '1000', the question there has '1010'" in said
    assert "nothing was scored" in said


def test_the_format_has_to_be_said(prepared: Prepared, tmp_path: Path, capsys: Capture) -> None:
    file = tmp_path / "vqa.json"
    file.write_text(json.dumps({"results": [_results(row, "B") for row in _rows()]}))
    assert _score(prepared, file) == 1
    assert "Give one of --only format=free_text or --only format=multi_choice." in capsys.readouterr().err


def test_a_broken_result_is_named(prepared: Prepared, tmp_path: Path, capsys: Capture) -> None:
    file = tmp_path / "vqa.json"
    file.write_text(json.dumps({"results": [{"qid": "bench_00000"}]}))
    assert _score(prepared, file, "--only", "format=free_text") == 1
    assert f"{file}, result 1: wanted an object with qid and pred_answer or raw_output" in capsys.readouterr().err
