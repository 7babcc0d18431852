"""Tests the reader of Fetal-Gauge: the values that it reads, and its errors about wrong files."""

import json
import re
from pathlib import Path

import pytest

from medtune.benchmarks import find_source
from medtune.data.raw.source import SourceTable
from medtune.data.types import Box
from tests.examples import write_example


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "raw"
    write_example("fetal_gauge", folder)
    return folder


def read(root: Path) -> SourceTable:
    return find_source("fetal_gauge").read(root, 0, root.parent)


def rejected(root: Path) -> str:
    """Returns the place and the reason of the only reject."""
    table = read(root)
    (only,) = table.rejects
    assert len(table.questions) >= 59
    return str(only)


def change(root: Path, number: int, **fields: object) -> None:
    """Sets fields of one line of the example; None removes a field."""
    file = root / "questions.jsonl"
    lines = file.read_text().splitlines()
    row = json.loads(lines[number - 1]) | fields
    lines[number - 1] = json.dumps({name: value for name, value in row.items() if value is not None})
    file.write_text("\n".join(lines) + "\n")


def test_example_has_five_tasks_and_keeps_its_split(root: Path) -> None:
    table = read(root)
    assert len(table.questions) == 60
    assert len({question.facets["task"] for question in table.questions}) == 5
    splits = {question.patient_id: question.split for question in table.questions}
    assert [splits[f"volunteer{patient:02d}"] for patient in range(3)] == ["train", "val", "test"]


def test_order_of_options_is_the_files_own_whatever_the_seed(root: Path) -> None:
    first = find_source("fetal_gauge").read(root, 0, root.parent)
    assert find_source("fetal_gauge").read(root, 1, root.parent) == first
    assert first.questions[1].options == ("complete", "incomplete")


def test_boxes_are_drawn_and_measured_and_make_an_item_of_their_own(root: Path) -> None:
    table = read(root)
    plain, boxed = table.questions[0], table.questions[4]
    assert table.media[plain.media_id][0].boxes == ()
    assert table.media[boxed.media_id][0].boxes == (Box(5, 5, 15, 20),)
    assert table.media[plain.media_id][0].path == table.media[boxed.media_id][0].path
    # 10 x 15 of 64 x 48 pixels: 4.9 %.
    assert boxed.facets == {"task": "visual_grounding", "phantom": "yes", "box_size": "small"}
    assert table.questions[9].facets["phantom"] == "no"


def test_released_box_size_wins(root: Path) -> None:
    change(root, 5, box_size="Large")
    assert read(root).questions[4].facets["box_size"] == "large"


@pytest.mark.parametrize("task", ["VG", "visual grounding", "Visual-Grounding"])
def test_tasks_may_be_spelled_as_in_the_paper(root: Path, task: str) -> None:
    change(root, 1, task=task)
    assert read(root).questions[0].facets["task"] == "visual_grounding"


def test_answer_may_be_a_letter(root: Path) -> None:
    change(root, 1, answer="C")
    assert read(root).questions[0].answer == "femur plane"


def test_an_option_that_is_a_letter_is_meant_itself(root: Path) -> None:
    change(root, 1, options=["B", "A"], answer="A")
    assert read(root).questions[0].answer == "A"


def test_without_patient_and_split_an_image_stands_for_a_patient(root: Path) -> None:
    for number in range(1, 61):
        change(root, number, patient=None, split=None)
    questions = read(root).questions
    assert questions[0].patient_id == "images/scan00.png"
    assert {question.split for question in questions} == {None}


def test_several_files_are_read_in_order(root: Path) -> None:
    lines = (root / "questions.jsonl").read_text().splitlines()
    (root / "questions.jsonl").unlink()
    (root / "b.jsonl").write_text("\n".join(lines[30:]))
    (root / "a.jsonl").write_text("\n\n".join(lines[:30]) + "\n")
    assert [question.id for question in read(root).questions] == [json.loads(line)["id"] for line in lines]


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"answer": "liver plane"}, r"line 7, field 'answer': 'liver plane' is not among the options"),
        ({"answer": "D"}, "field 'answer': 'D' is not among the options"),
        ({"answer": None}, "field 'answer': wanted a text, got null. The line has no such field"),
        ({"id": "q000"}, r"line 7, field 'id': this id was used before, in questions\.jsonl, line 1"),
        ({"options": ["a", "a"], "answer": "a"}, "field 'options': wanted two or more different options"),
        ({"options": ["a"], "answer": "a"}, "field 'options': wanted two or more different options"),
        ({"options": ["a", 3], "answer": "a"}, "field 'options': wanted a list of texts"),
        ({"options": "a or b"}, "field 'options': wanted a list of texts, got a or b"),
        ({"task": "plane_identificaton"}, "field 'task'.*Did you mean 'plane_identification'"),
        ({"split": "training"}, "field 'split': wanted one of train, val, test.*Did you mean 'train'"),
        ({"split": None}, "field 'split': some lines have a split and some have none"),
        ({"phantom": "maybe"}, "field 'phantom'"),
        ({"phantom": 1}, "field 'phantom'"),
        ({"boxes": [[1, 2, 3]]}, "field 'boxes'"),
        ({"boxes": [[9, 2, 3, 9]]}, "field 'boxes'"),
        ({"boxes": [[0.5, 2, 3, 9]]}, "field 'boxes'"),
        ({"box_size": "tiny"}, "field 'box_size': wanted one of small, medium, large"),
        ({"image": "../secret.png"}, "field 'image': wanted a path inside the folder"),
        ({"prompt": None, "promt": "What?"}, "field 'prompt'.*no such field. Did you mean 'promt'"),
        ({"prompt": "  "}, "field 'prompt': wanted a text"),
    ],
)
def test_a_wrong_field_is_named(root: Path, fields: dict[str, object], message: str) -> None:
    change(root, 7, **fields)
    said = rejected(root)
    assert re.search(message, said)
    assert "questions.jsonl, line 7" in said
    assert "volunteer" not in said


def test_a_missing_image_is_named(root: Path) -> None:
    change(root, 7, image="images/gone.png")
    assert re.search(r"questions\.jsonl, line 7, field 'image': there is no image .*gone\.png", rejected(root))
    assert [missing.file for missing in read(root).missing] == ["images/gone.png"]


def test_a_broken_image_whose_box_is_to_be_measured_is_named(root: Path) -> None:
    (root / "images" / "scan01.png").write_bytes(b"\x89PNG")
    assert re.search(r"line 10: wanted a PNG, .*scan01\.png", rejected(root))
    assert len(read(root).questions) == 59


@pytest.mark.parametrize(
    ("line", "message"), [('{"id": 1,', "line 61: broken JSON"), ("[1]", "line 61: wanted a JSON")]
)
def test_broken_lines_are_named(root: Path, line: str, message: str) -> None:
    with (root / "questions.jsonl").open("a") as file:
        file.write(line + "\n")
    assert re.search(message, rejected(root))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"anser": "x"}', "unknown name 'anser'. Did you mean 'answer'"),
        ('{"answer": 3}', "wanted an object of texts"),
        ("{", "broken JSON"),
    ],
)
def test_wrong_columns_are_refused(root: Path, text: str, message: str) -> None:
    (root / "columns.json").write_text(text)
    with pytest.raises(ValueError, match=message):
        read(root)


def test_a_folder_without_questions_is_refused(root: Path) -> None:
    (root / "questions.jsonl").unlink()
    with pytest.raises(ValueError, match=r"at least one \*\.jsonl"):
        read(root)


def test_bytes_that_are_no_text_are_refused(root: Path) -> None:
    (root / "questions.jsonl").write_bytes(b"\xff\xfe{}")
    with pytest.raises(ValueError, match="wanted UTF-8"):
        read(root)
