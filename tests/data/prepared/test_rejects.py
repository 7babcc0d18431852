"""Rows that cannot be asked: counted, kept in a file, and refused where they are too many."""

import hashlib
import hmac
import json
import os
import re
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import PIL.Image
import pytest
from hypothesis import given
from hypothesis import strategies as st

from medtune.data.prepared.question_rows import hashed_patient, key_path, patient_key
from medtune.data.prepared.read import Prepared, open_prepared
from medtune.data.prepared.write import prepare
from medtune.data.raw.rejects import count_rejects, rejects_table
from medtune.data.raw.source import Reject, Source, SourceTable
from medtune.data.types import SPLITS, MediaRef, Question
from medtune.trainer.commands.cli import main
from tests.examples.fetal_gauge import write_fetal_gauge

BAD = Reject("rows.jsonl", 7, "answer", "'spleen' is not among the options ['liver', 'colon'].")

PREPARE = ["prepare", "fetal_gauge", "--source", "table", "--from"]


def _table(folder: Path, num: int = 40) -> SourceTable:
    questions, media = [], {}
    for n in range(num):
        PIL.Image.new("L", (8, 8), n).save(folder / f"name{n}.png")
        media[f"m{n}"] = (MediaRef(folder / f"name{n}.png"),)
        questions.append(Question(f"q{n}", f"m{n}", "?", ("a", "b"), "a", "choice", f"p{n}", {"task": "t"}))
    return SourceTable(questions, media)


def _prepare(table: SourceTable, out: Path, share: float = 0.1) -> Prepared:
    made = Source("t", "CC0", "https://example.org", "synthetic", "file", lambda *_: table, None)
    return prepare(made, benchmark="x", root=None, out=out, max_rejected=share)


def test_rejects_are_counted_and_kept_one_by_one(tmp_path: Path) -> None:
    others = (
        Reject("rows.jsonl", 9, "answer", "'bone' is not among the options ['a', 'b']."),
        Reject("b.csv", 1, None, "x"),
    )
    made = _prepare(replace(_table(tmp_path), rejects=(BAD, *others)), tmp_path / "out")
    assert made.manifest.rejected == {"field 'answer': is not among the options": 2, "x": 1}
    rows = [json.loads(line) for line in (made.root / "rejects.jsonl").read_text().splitlines()]
    assert [(row["file"], row["row"]) for row in rows] == [("rows.jsonl", 7), ("rows.jsonl", 9), ("b.csv", 1)]
    assert open_prepared(made.root).manifest == made.manifest
    assert sum(map(made.num_questions, SPLITS)) == 40


def test_broken_media_take_their_questions_along_and_name_nobody(tmp_path: Path) -> None:
    table = _table(tmp_path)
    (tmp_path / "name3.png").write_bytes(b"\x89PNG")
    made = _prepare(table, tmp_path / "out")
    assert sum(map(made.num_questions, SPLITS)) == 39 == made.manifest.num_media
    assert sum(made.manifest.rejected.values()) == 1
    assert "name3" not in (made.root / "rejects.jsonl").read_text() + (made.root / "manifest.json").read_text()


def test_a_reject_says_where_its_file_lies_without_its_name_and_stands_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for number in range(12):
        (tmp_path / "raw" / f"patient_{number:02}").mkdir(parents=True)
        PIL.Image.new("L", (8, 8), number).save(tmp_path / "raw" / f"patient_{number:02}" / "a.png")
    (tmp_path / "raw" / "patient_02" / "a.png").write_bytes(b"\x89PNG")
    asked = [(f"patient_{n:02}/a.png", text) for n in range(12) for text in ("Is it so?", "Is it well?", "Is it red?")]
    lines = [f"{file},{text},yes,{file[:10]}" for file, text in asked]
    (tmp_path / "raw" / "data.csv").write_text("\n".join(["image,question,answer,patient", *lines]) + "\n")
    command = ["prepare", "vqa", "--from", str(tmp_path / "raw"), "--out", str(tmp_path / "out")]
    assert main(command) == 1
    assert "patient_02/a.png: " in (refusal := capsys.readouterr().err)
    assert "(3 questions)" in refusal
    assert main([*command, "--max-rejected", "0.2"]) == 0
    said = capsys.readouterr().out
    (reject,) = map(json.loads, (tmp_path / "out" / "rejects.jsonl").read_text().splitlines())
    assert (reject["media"], reject["count"]) == ("[4]/[1]", 3)  # data.csv comes first by name.
    assert f"  [4]/[1]: {reject['reason']} (3 questions)\n" in said
    assert "--show-cells" in said


def test_a_prepared_folder_is_not_replaced_without_a_word(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_fetal_gauge(tmp_path / "raw")
    command = [*PREPARE, str(tmp_path / "raw"), "--out", str(tmp_path / "out")]
    assert main(command) == 0
    first = capsys.readouterr()
    assert "replace" not in first.out + first.err
    before = open_prepared(tmp_path / "out").data_hash[:16]
    assert main(command) == 0
    said = capsys.readouterr()
    assert f"{tmp_path / 'out'}: holds a prepared folder (fetal_gauge, data hash {before})" in said.err
    assert f"data hash {before}, the same as before" in said.out
    assert main([*command, "--limit", "9"]) == 0
    assert f"replaced {before}: runs on those data no longer find them here" in capsys.readouterr().out
    (tmp_path / "out" / "manifest.json").write_text("{}")
    assert main(command) == 0
    assert "holds a prepared folder (damaged, or of another version), which is replaced" in capsys.readouterr().err


def test_above_the_share_nothing_is_written_but_the_rejects(tmp_path: Path) -> None:
    table, work = replace(_table(tmp_path), rejects=(BAD,)), tmp_path / "work"
    with pytest.raises(ValueError, match=r"(?s)rejected 1 of 41 .*rows\.jsonl, line 7, field 'answer'.*--max-rejected"):
        _prepare(table, work / "out", share=0.02)
    assert [path.name for path in work.iterdir()] == ["out.rejects.jsonl"]
    for lost in (None, tmp_path / "lost.png"):
        with pytest.raises(ValueError, match=r"--max-rejected") as caught:
            _prepare(replace(table, rejects=(replace(BAD, media=lost),)), work / "out", share=0.02)
        assert ("--without-media" in str(caught.value)) == (lost is not None), "said only where media are missing"
    # One of 41 is 2.4 %.
    assert sum(_prepare(table, work / "out", share=0.025).manifest.rejected.values()) == 1


def test_rows_and_media_are_refused_together(tmp_path: Path) -> None:
    table = replace(_table(tmp_path), rejects=(BAD, BAD))
    for number in (3, 4):
        (tmp_path / f"name{number}.png").write_bytes(b"\x89PNG")
    # Two of 42 rows and two of 40 images are four of 42 questions: 9.5 %.
    with pytest.raises(ValueError, match="rejected 4 of 42"):
        _prepare(table, tmp_path / "out", share=0.09)
    assert sum(_prepare(table, tmp_path / "out", share=0.1).manifest.rejected.values()) == 4


def test_a_folder_without_rejects_has_no_file_of_them(tmp_path: Path) -> None:
    made = _prepare(_table(tmp_path), tmp_path / "out")
    assert made.manifest.rejected == {}
    assert not (made.root / "rejects.jsonl").exists()


@given(st.lists(st.tuples(st.sampled_from("ab"), st.sampled_from(["x", "y 3", "y 4", "z 'q'"]))))
def test_no_reject_is_lost_in_the_table(fields: list[tuple[str, str]]) -> None:
    rejects = [Reject("f", n, field, reason) for n, (field, reason) in enumerate(fields)]
    found = count_rejects(rejects)
    assert sum(found.values()) == len(rejects)
    assert len(found) == len({(field, re.sub(r"\d|'q'", "", reason)) for field, reason in fields})
    if found:
        assert len(rejects_table(found, 5).splitlines()) == 1 + len(found)


def test_command_ends_with_the_table_and_obeys_the_share(
    tiny_fetal_gauge: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = [*PREPARE, str(tiny_fetal_gauge), "--out", str(tmp_path / "out")]
    assert main(command) == 1
    assert "rejected 1 of 61 questions (1.6%)" in capsys.readouterr().err
    assert main([*command, "--max-rejected", "0.05"]) == 0
    assert "        1  field 'answer': the answer is empty" in capsys.readouterr().out


def test_missing_media_are_listed_without_an_out_folder(
    tiny_fetal_gauge: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tiny_fetal_gauge / "images" / "scan03.png").unlink()
    assert main([*PREPARE, str(tiny_fetal_gauge), "--list-missing"]) == 0
    listed = capsys.readouterr()
    assert listed.out == "images/scan03.png\tthe data set's owner\n"
    assert "1 media files are missing" in listed.err


@pytest.fixture
def tiny_fetal_gauge(tmp_path: Path) -> Path:

    write_fetal_gauge(tmp_path / "raw")
    lines = (tmp_path / "raw" / "questions.jsonl").read_text().splitlines()
    bad = json.loads(lines[0]) | {"answer": None}
    (tmp_path / "raw" / "questions.jsonl").write_text("\n".join([*lines, json.dumps(bad)]) + "\n")
    return tmp_path / "raw"


@pytest.fixture(autouse=True)
def fresh_config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))


def test_key_is_made_once_for_the_user_alone(tmp_path: Path) -> None:
    key = patient_key()
    assert len(key) == 32
    assert patient_key() == key
    assert key_path() == tmp_path / "medtune" / "patient_key"
    assert key_path().stat().st_mode & 0o777 == 0o600
    assert os.listdir(key_path().parent) == ["patient_key"]


def test_processes_that_start_together_agree() -> None:
    with ThreadPoolExecutor(16) as pool:
        keys = set(pool.map(lambda _: patient_key(), range(64)))
    assert len(keys) == 1


def test_key_lies_under_home_by_default(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("XDG_CONFIG_HOME")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert key_path() == tmp_path / "home" / ".config" / "medtune" / "patient_key"


def test_damaged_or_open_key_is_refused() -> None:
    patient_key()
    key_path().chmod(0o644)
    with pytest.raises(ValueError, match=r"others may read the patient key\. Run: chmod 600"):
        patient_key()
    key_path().chmod(0o600)
    key_path().write_bytes(b"short")
    with pytest.raises(ValueError, match="wanted a patient key of 32 bytes, it has 5"):
        patient_key()


def test_hash_is_hmac_sha256_of_source_and_patient() -> None:
    key = bytes(range(32))
    expected = hmac.new(key, b"busi\0benign (4)", hashlib.sha256).hexdigest()[:16]
    assert hashed_patient(key, "busi", "benign (4)") == expected


def test_hash_depends_on_key_source_and_patient() -> None:
    hashes = {
        hashed_patient(key, source, patient) for key in (b"a" * 32, b"b" * 32) for source in "xy" for patient in "12"
    }
    assert len(hashes) == 8
