"""Tests the reader of MedXpertQA MM: both layouts, options that are taken off the questions, one to six images."""

import json
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from medtune.benchmarks import find_benchmark, find_source
from medtune.data.prepared.read import open_prepared
from medtune.data.raw.source import SourceTable
from medtune.trainer.commands.cli import main
from tests.examples.medxpertqa_mm import write_example

OFFICIAL = "medxpertqa_mm_input.jsonl"


def read(folder: Path, *, questions_alone: bool = False) -> SourceTable:
    source = find_source("medxpertqa_mm")
    assert source.read_questions is not None
    return (source.read_questions if questions_alone else source.read)(folder, 0, folder.parent)


def change(root: Path, number: int, **values: Any) -> None:
    file = root / "MM" / "test.jsonl"
    rows = [json.loads(line) for line in file.read_text("utf-8").splitlines()]
    rows[number] |= values
    file.write_text("\n".join(map(json.dumps, rows)), "utf-8")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    write_example(tmp_path / "raw")
    return tmp_path / "raw"


def test_both_layouts_of_the_real_rows_give_the_same_questions(shared_real: Path, tmp_path: Path) -> None:
    (tmp_path / "hub" / "MM").mkdir(parents=True)
    (tmp_path / "code").mkdir()
    real = shared_real / "medxpertqa_mm"
    shutil.copy(real / "excerpt_43_hub_layout.jsonl", tmp_path / "hub" / "MM" / "test.jsonl")
    shutil.copy(real / "excerpt_43.jsonl", tmp_path / "code" / OFFICIAL)
    table, other = (read(tmp_path / name, questions_alone=True) for name in ("hub", "code"))
    assert list(table.questions) == list(other.questions)
    assert table.notes == ("43 questions end with their options, which were taken off: prompts list them",)
    assert not table.rejects
    assert Counter(len(items) for items in table.media.values()) == {1: 18, 2: 8, 3: 5, 4: 4, 5: 4, 6: 4}
    render = find_benchmark("medxpertqa_mm").render
    for question in table.questions:
        assert "Answer Choices" not in question.text
        assert render(question, "letter").text.count("\nB. ") == 1


def test_the_whole_test_part_has_its_official_counts(shared_real: Path, tmp_path: Path) -> None:
    about = json.loads((shared_real / "medxpertqa_mm" / "all_2000_meta.json").read_text("utf-8"))
    options = {letter: f"choice {letter}" for letter in "ABCDE"}
    listed = " ".join(f"({letter}) {text}" for letter, text in options.items())
    rows = [
        row
        | {"question": f"What is it?\nAnswer Choices: {listed}", "options": options}
        | {"images": [f"{row['id']}-{number}.jpeg" for number in range(row["images"])]}
        for row in about
    ]
    (tmp_path / "MM").mkdir()
    (tmp_path / "MM" / "test.jsonl").write_text("\n".join(map(json.dumps, rows)), "utf-8")
    questions = read(tmp_path, questions_alone=True).questions
    assert len(questions) == 2000
    assert Counter(q.facets["images"] for q in questions) == {"1": 1581, "2": 236, "3": 59, "4": 22, "5": 78, "6": 24}
    assert Counter(q.facets["question_type"] for q in questions) == {"Reasoning": 1446, "Understanding": 554}
    assert Counter(q.facets["task"] for q in questions) == {"Diagnosis": 1199, "Treatment": 448, "Basic Science": 353}
    assert Counter(q.answer[-1] for q in questions) == {"A": 399, "B": 408, "C": 383, "D": 386, "E": 424}
    assert len({q.facets["body_system"] for q in questions}) == 12
    assert find_benchmark("medxpertqa_mm").missing(questions) == ""
    assert find_benchmark("medxpertqa_mm").missing(questions[:43]) == "43, where the official test has 2,000"


def test_options_that_a_question_does_not_end_with_are_left_in_it(root: Path) -> None:
    change(root, 0, question="Which?\nAnswer Choices: (A) others than listed (B) here")
    table = read(root)
    assert table.questions[0].text.endswith("(B) here")
    assert "1 questions do not end with their options, and were taken as they are" in table.notes


def test_several_images_stay_together_and_the_archive_is_read(root: Path, tmp_path: Path) -> None:
    shutil.make_archive(str(root / "images"), "zip", root, "images")
    shutil.rmtree(root / "images")
    out = tmp_path / "prepared"
    assert main(["prepare", "medxpertqa_mm", "--from", f"hf:{root}:MM", "--out", str(out)]) == 0
    groups = open_prepared(out).groups("test")
    assert Counter(len(group.media) for group in groups) == {1: 4, 2: 4, 3: 4}
    assert main(["prepare", "medxpertqa_mm", "--from", f"hf:{root}:Text", "--out", str(tmp_path / "text")]) == 1
