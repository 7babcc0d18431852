"""Tests the reader of PMC-VQA: both versions and three test files, articles, letters, archives and wrong rows."""

import csv
import shutil
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

import pytest

from medtune.benchmarks import find_benchmark, find_source
from medtune.benchmarks.pmc_vqa import article_of
from medtune.data.prepared.read import open_prepared
from medtune.data.raw.source import SourceTable
from medtune.data.types import SPLITS
from medtune.eval.scoring.reply_rules import ReplyRule
from medtune.eval.scoring.score import score_phase
from medtune.trainer.commands.cli import main
from tests.eval.answers import generated
from tests.examples import write_example

SOURCES = ("pmc_vqa", "pmc_vqa_clean", "pmc_vqa_2")
Rows = list[list[str]]


def example(root: Path, name: str) -> Path:
    write_example(name, root)
    return root


def read(name: str, root: Path) -> SourceTable:
    return find_source(name).read(root, 0, root.parent)


def change(file: Path, number: int, cells: Mapping[str, str]) -> None:
    """Changes cells of a row of a table."""
    with file.open(encoding="utf-8", newline="") as opened:
        rows: Rows = list(csv.reader(opened))
    for column, value in cells.items():
        rows[number][rows[0].index(column)] = value
    with file.open("w", encoding="utf-8", newline="") as opened:
        csv.writer(opened).writerows(rows)


@pytest.mark.parametrize("name", SOURCES)
def test_every_version_gives_questions_without_letters_and_keeps_its_split(name: str, tmp_path: Path) -> None:
    table = read(name, example(tmp_path / "raw", name))
    assert Counter(question.split for question in table.questions) == {"train": 24, "test": 24}
    assert not table.rejects
    for question in table.questions:
        assert sorted(question.options) == ["a cyst", "a nodule", "a normal gland", "an infarct"]
        assert question.patient_id == article_of(question.media_id)
        assert (
            question.printed[f"Choice {question.printed['letter']}"]
            == f" {question.printed['letter']}:{question.answer} "
        )
    assert table.stands_for_patient == "article"


def test_the_caption_of_version_2_is_in_no_question(tmp_path: Path) -> None:
    root = example(tmp_path / "raw", "pmc_vqa_2")
    assert "Invented caption" in (root / "test_2.csv").read_text("utf-8")
    assert "Invented caption" not in str(read("pmc_vqa_2", root).questions)


def test_a_table_of_the_other_version_is_refused(tmp_path: Path) -> None:
    root = example(tmp_path / "raw", "pmc_vqa")
    (root / "test.csv").rename(root / "test_2.csv")
    (root / "train.csv").unlink()
    table = find_source("pmc_vqa_2")
    with pytest.raises(FileNotFoundError, match=r"test\.csv: this table is missing; there is test_2\.csv"):
        read("pmc_vqa", root)
    assert all(reject.field == "Answer" for reject in table.read(root, 0, tmp_path).rejects)
    root = example(tmp_path / "other", "pmc_vqa_2")
    (root / "test_2.csv").rename(root / "test.csv")
    with pytest.raises(ValueError, match=r"there is no .Answer_label. among index, Figure_path.*the other version"):
        read("pmc_vqa", root)


def test_options_without_letters_keep_what_looks_like_one(tmp_path: Path) -> None:
    root = example(tmp_path / "raw", "pmc_vqa")
    plain = {"Choice A": "E. coli", "Choice B": "C. difficile", "Choice C": " yeast ", "Choice D": ""}
    change(root / "test.csv", 1, {**plain, "Answer": "C. difficile", "Answer_label": "B"})
    question = next(question for question in read("pmc_vqa", root).questions if question.id == "test.csv 2")
    assert question.options == ("E. coli", "C. difficile", "yeast")
    assert question.answer == "C. difficile"


def test_what_a_row_states_twice_is_compared_and_counted(tmp_path: Path) -> None:
    root = example(tmp_path / "raw", "pmc_vqa")
    change(root / "test.csv", 1, {"Answer": "a nodule", "Answer_label": "A"})
    change(root / "test.csv", 2, {"Answer": "an infarct", "Answer_label": ""})
    change(root / "test.csv", 3, {"Answer": "a nodule", "Answer_label": "?"})
    change(
        root / "test.csv",
        4,
        {"Choice A": " A:a cyst ", "Choice B": " B:a cyst ", "Answer_label": "B", "Answer": "a cyst"},
    )
    table = read("pmc_vqa", root)
    found = {question.id: question.answer for question in table.questions}
    assert (found["test.csv 2"], found["test.csv 4"], found["test.csv 5"]) == ("a cyst", "a nodule", "a cyst")
    assert table.notes == (
        "1 questions have an answer in words that is not the option of its letter, which counts",
        "1 questions have two equal options; either counts as right where it is the answer",
        "1 questions state no letter of an option, and their answer's text counts",
    )
    assert [(reject.row, reject.field) for reject in table.rejects] == [(3, "Answer_label")]


def test_images_are_taken_from_the_archive_and_a_copy_of_the_hub_is_read(tmp_path: Path) -> None:
    root = example(tmp_path / "raw", "pmc_vqa_2")
    shutil.make_archive(str(root / "images_2"), "zip", root, "images_2")
    shutil.rmtree(root / "images_2")
    out = tmp_path / "prepared"
    assert main(["prepare", "pmc_vqa", "--from", f"hf:{root}", "--out", str(out)]) == 0
    prepared = open_prepared(out)
    assert {split: prepared.num_questions(split) for split in SPLITS} == {"train": 20, "val": 4, "test": 24}
    (root / "images_2.zip").write_bytes(b"PK cut off")
    with pytest.raises(ValueError, match="broken or cut-off zip archive"):
        read("pmc_vqa_2", root)


def test_the_hub_sends_the_images_of_one_version_alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    root, asked = example(tmp_path / "raw", "pmc_vqa_2"), []

    def fetch(*_: object, **settings: object) -> str:
        asked.append(settings["allow_patterns"])
        return str(root)

    monkeypatch.setattr("huggingface_hub.snapshot_download", fetch)
    assert main(["prepare", "pmc_vqa", "--from", "hf:RadGenome/PMC-VQA", "--out", str(tmp_path / "out")]) == 0
    assert asked == [["train_2.csv", "test_2.csv", "images_2.zip"]]


def test_a_folder_of_the_other_version_names_its_source(tmp_path: Path) -> None:
    with pytest.raises(
        FileNotFoundError, match=r"test_2\.csv: this table is missing.*--source pmc_vqa reads test\.csv"
    ):
        read("pmc_vqa_2", example(tmp_path / "raw", "pmc_vqa"))


def test_articles_that_train_and_test_share_are_kept_and_counted(tmp_path: Path) -> None:
    root, out = example(tmp_path / "raw", "pmc_vqa"), tmp_path / "prepared"
    questions = read("pmc_vqa", root).questions
    train, test = ({q.patient_id for q in questions if q.split == split} for split in ("train", "test"))
    assert len(train & test) == 1
    assert main(["prepare", "pmc_vqa", "--source", "pmc_vqa", "--from", str(root), "--out", str(out)]) == 0
    manifest = open_prepared(out).manifest
    assert open_prepared(out).num_questions("test") == 24
    # Every article has four figures with a question each.
    assert sum(manifest.split_leaks.values()) == 4
    assert manifest.stands_for_patient == "article"


def test_the_kits_rule_sees_the_cells_as_they_are_printed(tmp_path: Path) -> None:
    questions = read("pmc_vqa_2", example(tmp_path / "raw", "pmc_vqa_2")).questions
    rule: ReplyRule = find_benchmark("pmc_vqa").rules["medevalkit"]
    first = questions[0]
    assert first.printed == {f"Choice {x}": f" {x}:{y} " for x, y in zip("ABCD", first.options, strict=True)} | {
        "letter": "A"
    }
    replies = ("A", "The answer is A.", f"A:{first.options[0]}", first.options[0], "", "B", first.options[1])
    assert [rule.score([(first, reply)])["accuracy"] for reply in replies] == [1, 1, 1, 1, 1, 0, 0]
    # An empty reply is option A, whichever is right.
    assert rule.score([(question, "") for question in questions])["accuracy"] == 0.25


@pytest.mark.parametrize(("name", "stands_there"), [("pmc_vqa_2", True), ("pmc_vqa", False)])
def test_our_row_stands_beside_numbers_of_its_own_release_alone(name: str, stands_there: bool, tmp_path: Path) -> None:
    test = [q for q in read(name, example(tmp_path / "raw", name)).questions if q.split == "test"]
    said = [generated(question, question.answer) for question in test]
    tables = {table.title: table for table in score_phase(test, said, find_benchmark("pmc_vqa")).tables}
    assert ("PMC-VQA v2, MedEvalKit" in tables) == stands_there
    shown = tables["PMC-VQA v2, MedEvalKit" + ("" if stands_there else "; this model alone")]
    assert shown.rows[-1] == ("ours, by MedEvalKit", 100.0)
    assert any("Qwen2.5-VL-7B" in row for table in tables.values() for row in table.rows)
