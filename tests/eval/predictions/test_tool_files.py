"""Tests that predictions of lmms-eval and VLMEvalKit are scored like our own."""

import csv
import json
import random
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import openpyxl
import pytest

from medtune.benchmarks import find_source
from medtune.data.prepared.origins import read_origins
from medtune.data.prepared.read import Prepared, open_prepared
from medtune.data.prepared.write import prepare
from medtune.data.types import Question
from medtune.trainer.commands.cli import main
from tests.examples.fetal_gauge import write_fetal_gauge

Capture = pytest.CaptureFixture[str]


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Prepared:
    folder = tmp_path_factory.mktemp("gauge")
    write_fetal_gauge(folder / "raw")
    _ask_differently(folder / "raw" / "questions.jsonl")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CONFIG_HOME", str(tmp_path_factory.getbasetemp() / "config"))
        return prepare(find_source("table"), benchmark="fetal_gauge", root=folder / "raw", out=folder / "prepared")


def _ask_differently(file: Path) -> None:
    """Gives each row of the source's file a question of its own."""
    rows = [json.loads(line) for line in file.read_text().splitlines()]
    _write_lines(file, [{**row, "prompt": f"{row['prompt']} ({n})"} for n, row in enumerate(rows)])


def _raw(prepared: Prepared) -> list[tuple[str, dict[str, object], Question]]:
    """Returns the test rows of the source's file with their questions, in the order of the file."""
    lines = (prepared.root.parent / "raw" / "questions.jsonl").read_text().splitlines()
    rows = [row for row in map(json.loads, lines) if row["split"] == "test"]
    known = read_origins(prepared.root, "table")
    questions = {question.id: question for question in prepared.questions("test")}
    return [(row["id"], row, questions[str(known.find(row["id"]))]) for row in rows]


def _score(prepared: Prepared, file: Path, *extra: str) -> int:
    return main(["score", "fetal_gauge", "--predictions", str(file), "--questions", str(prepared.root), *extra])


def _rows(file: Path) -> object:
    return json.loads((file.parent / "scores.json").read_text())["file_rows"]


def _accuracy(file: Path) -> float:
    return float(json.loads((file.parent / "scores.json").read_text())["overall"]["value"])


def _lmms(prepared: Prepared, replies: Callable[[Question], Sequence[str]]) -> list[dict[str, object]]:
    """Returns lines as older versions of lmms-eval wrote them: with the row in `doc` and all replies in `resps`."""
    lines: list[dict[str, object]] = []
    for number, (row_id, row, question) in enumerate(_raw(prepared)):
        doc = {"id": row_id, "answer": row["answer"], "options": row["options"], "image_size": 3}
        sample = {"doc_id": number, "doc": doc, "target": row["answer"], "resps": [list(replies(question))]}
        lines.append({**sample, "filtered_resps": ["cleaned"], "doc_hash": f"{number:064x}"})
    return lines


def _options(row: Mapping[str, object]) -> list[str]:
    listed = row["options"]
    assert isinstance(listed, list)
    return list(map(str, listed))


def _lmms_today(prepared: Prepared, *, letters: bool = False) -> list[dict[str, object]]:
    """Returns lines as lmms-eval's tracker writes them today: no `doc`, and no `resps` where they say the same."""
    lines: list[dict[str, object]] = []
    for number, (_, row, question) in enumerate(_raw(prepared)):
        options = _options(row)
        options = options[::-1] if letters else options
        listed = "".join(f"{letter}. {option}\n" for letter, option in zip("ABCDEF", options, strict=False))
        reply = "ABCDEF"[options.index(question.answer)] if letters else question.answer
        sample = {"doc_id": number, "target": reply, "filtered_resps": reply, "token_counts": [{"output_tokens": 3}]}
        more = f"{listed}Answer with the option's letter from the given choices directly." if letters else ""
        lines.append({**sample, "doc_hash": f"{number:064x}", "exact_match": 1.0, "input": f"{row['prompt']}\n{more}"})
    return lines


def _write_lines(file: Path, lines: Sequence[Mapping[str, object]]) -> Path:
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return file


def _table(prepared: Prepared) -> list[dict[str, object]]:
    rows = []
    for number, (_, row, question) in enumerate(_raw(prepared)):
        options = _options(row)[::-1]
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


def test_lmms_eval_samples_with_docs_go_by_the_row_ids_of_the_benchmark(prepared: Prepared, tmp_path: Path) -> None:
    lines = _lmms(prepared, lambda question: [f"<think>hm</think> {question.answer}", "nonsense"])
    file = _write_lines(tmp_path / "samples.jsonl", lines[::-1])
    assert _score(prepared, file) == 0
    assert _accuracy(file) == 0.5  # the mean of two passes: the first all right, the second all wrong


@pytest.mark.parametrize("letters", [False, True], ids=["words", "letters in the order of the prompt"])
def test_lmms_eval_samples_of_today_in_any_order(prepared: Prepared, tmp_path: Path, letters: bool) -> None:
    lines = _lmms_today(prepared, letters=letters)
    random.Random(3).shuffle(lines)
    file = _write_lines(tmp_path / "samples.jsonl", lines)
    assert _score(prepared, file) == 0
    assert _accuracy(file) == 1.0
    assert _rows(file) == {"rows": 20, "repeated": 0, "left_out": {}, "unanswered": 0}


def test_lmms_eval_samples_with_reasoning_removed_keep_the_raw_reply(prepared: Prepared, tmp_path: Path) -> None:
    lines = [
        {**line, "resps": f"<think>hm</think>{line['filtered_resps']}", "filtered_resps": "cleaned"}
        for line in _lmms_today(prepared)
    ]
    file = _write_lines(tmp_path / "samples.jsonl", lines)
    assert _score(prepared, file) == 0
    assert _accuracy(file) == 1.0


def test_a_part_of_lmms_evals_samples_goes_by_their_questions(prepared: Prepared, tmp_path: Path) -> None:
    file = _write_lines(tmp_path / "samples.jsonl", _lmms_today(prepared)[12:4:-1])
    assert _score(prepared, file) == 0
    assert _accuracy(file) == 8 / 20
    assert _rows(file) == {"rows": 8, "repeated": 0, "left_out": {}, "unanswered": 12}


def test_log_likelihoods_are_no_replies(prepared: Prepared, tmp_path: Path, capsys: Capture) -> None:
    lines = [{**line, "filtered_resps": [["-1.5", "True"], ["-2", "False"]]} for line in _lmms_today(prepared)]
    assert _score(prepared, _write_lines(tmp_path / "samples.jsonl", lines)) == 1
    assert "row 1: 'filtered_resps' holds log-likelihoods of options" in capsys.readouterr().err


def test_plain_numbers_are_ids_in_columns_of_ids_alone(tmp_path: Path, capsys: Capture) -> None:
    raw = tmp_path / "raw"
    write_fetal_gauge(raw)
    rows = [
        {**json.loads(line), "id": str(n)} for n, line in enumerate((raw / "questions.jsonl").read_text().splitlines())
    ]
    _write_lines(raw / "questions.jsonl", rows)
    small = prepare(find_source("table"), benchmark="fetal_gauge", root=raw, out=tmp_path / "prepared")
    asked = [row for row in rows if row["split"] == "test"][::-1]
    file = tmp_path / "theirs.json"
    for column in ("index", "doc_id"):
        file.write_text(json.dumps([{column: row["id"], "prediction": row["answer"]} for row in asked]))
        assert _score(small, file) == 1
        assert f"one that is no plain number in {column}, prediction; for" in capsys.readouterr().err
    for column in ("id", "qid", "question_id"):
        file.write_text(json.dumps([{column: row["id"], "prediction": row["answer"]} for row in asked]))
        assert _score(small, file) == 0
        assert _accuracy(file) == 1.0


def test_a_wrong_match_is_refused_with_the_row(prepared: Prepared, tmp_path: Path, capsys: Capture) -> None:
    rows = _table(prepared)
    ids = [row_id for row_id, _, _ in _raw(prepared)]
    shifted = [{**row, "index": "", "qid": id_} for row, id_ in zip(rows, ids[1:] + ids[:1], strict=True)]
    random.Random(3).shuffle(shifted)
    file = tmp_path / "model.json"
    _write(file, shifted)
    assert _score(prepared, file) == 1
    said = capsys.readouterr().err
    assert f"{file}, row 1: 20 rows cannot be matched with 20 questions by qid, so nothing was scored: the row" in said
    assert "the row asks" in said
    assert not (tmp_path / "scores.json").exists()


def test_an_id_of_no_raw_row_is_named(prepared: Prepared, tmp_path: Path, capsys: Capture) -> None:
    rows = [{"qid": row_id, "prediction": row["answer"]} for row_id, row, _ in _raw(prepared)]
    file = tmp_path / "model.json"
    _write(file, [*rows[:-1], {**rows[-1], "qid": "another"}])
    assert _score(prepared, file) == 1
    assert f"{file}, row 20: its qid 'another' is no id of a row of the raw files" in capsys.readouterr().err


def test_a_row_answered_twice_counts_once_and_is_stated(prepared: Prepared, tmp_path: Path, capsys: Capture) -> None:
    lines = _lmms_today(prepared)
    extracted = [{**line, "resps": [line["filtered_resps"]], "filtered_resps": "x"} for line in lines[:3]]
    file = _write_lines(tmp_path / "samples.jsonl", lines[:-1] + extracted)
    assert _score(prepared, file) == 0
    assert _rows(file) == {"rows": 22, "repeated": 3, "left_out": {}, "unanswered": 1}
    said = "Rows: 22, 3 that repeat a reply and count once; 1 of 20 questions are unanswered."
    assert said in capsys.readouterr().out
    _write_lines(file, [*lines, {**lines[4], "filtered_resps": "something else"}])
    assert _score(prepared, file) == 1
    said = capsys.readouterr().err
    assert f"{file}, row 21 and {file}, row 5 answer one question" in said
    assert "number them in a column 'repeat'" in said
    numbered = [{**line, "repeat": repeat} for repeat in (0, 1) for line in lines]
    numbered[24]["filtered_resps"] = "something else"
    _write_lines(file, numbered)
    assert _score(prepared, file) == 0
    parsed = [json.loads(line) for line in (tmp_path / "parsed.jsonl").read_text().splitlines()]
    assert sorted(row["repeat"] for row in parsed) == [0] * 20 + [1] * 20


@pytest.mark.parametrize("suffix", [".xlsx", ".tsv", ".csv", ".json"])
def test_vlmevalkit_letters_count_by_the_tools_own_order_of_options(
    prepared: Prepared, tmp_path: Path, suffix: str
) -> None:
    rows = _table(prepared)
    random.Random(5).shuffle(rows)
    file = tmp_path / f"model_gauge{suffix}"
    _write(file, rows)
    assert _score(prepared, file) == 0
    assert _accuracy(file) == 1.0


def test_options_of_another_version_are_refused(prepared: Prepared, tmp_path: Path, capsys: Capture) -> None:
    ids = [row_id for row_id, _, _ in _raw(prepared)]
    rows = [{**row, "qid": id_, "B": "something new"} for row, id_ in zip(_table(prepared), ids, strict=True)]
    file = tmp_path / "model.tsv"
    _write(file, rows)
    assert _score(prepared, file) == 1
    assert "the row has the options" in capsys.readouterr().err


def test_the_order_of_rows_names_no_question(prepared: Prepared, tmp_path: Path, capsys: Capture) -> None:
    file = tmp_path / "model.json"
    _write(file, [{"answer": row["answer"], "prediction": row["answer"]} for _, row, _ in _raw(prepared)])
    assert _score(prepared, file) == 1
    said = capsys.readouterr().err
    assert "in question_id (not there), qid (not there), id (not there), and for one that is no plain number in" in said
    assert "answer, prediction; for the question's text in none of question, input, " in said
    assert "Give each row a column question_id" in said


def test_a_part_of_the_questions(prepared: Prepared, tmp_path: Path, capsys: Capture) -> None:
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


def test_table_without_predictions(prepared: Prepared, tmp_path: Path, capsys: Capture) -> None:
    file = tmp_path / "x.tsv"
    _write(file, [{"index": 1, "answer": "A"}])
    assert _score(prepared, file) == 1
    assert "wanted a column 'prediction'" in capsys.readouterr().err


def test_rows_are_found_by_their_own_id_and_no_id_is_stored(prepared: Prepared) -> None:
    raw = _raw(prepared)
    assert len(raw) == prepared.num_questions("test") == 20
    assert not any(row_id.encode() in (prepared.root / "origins.arrow").read_bytes() for row_id, _, _ in raw)
    assert read_origins(prepared.root, "table").find("unknown") is None
    assert open_prepared(prepared.root).data_hash == prepared.data_hash
