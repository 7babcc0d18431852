"""Tests that a wrong row of a released file is rejected alone, with its place, and that a missing image is listed."""

import csv
import json
from pathlib import Path
from typing import Any

import pytest

from medtune.benchmarks import find_source
from medtune.data.raw.source import SourceTable
from tests.examples import write_example

ROWS = {
    "slake": ("test.json", 0), "vqa_rad": ("trainset.json", 0), "path_vqa": ("pvqa_train.json", 0),
    "omnimedvqa": ("QA_information/Open-access/Invented skin.json", 3), "medxpertqa_mm": ("MM/test.jsonl", 4),
    "pmc_vqa_2": ("test_2.csv", 2), "iu_xray": ("annotation.json", 2), "iu_xray_medevalkit": ("test.json", 1),
}  # fmt: skip
"""The file of each source whose row is changed, and the row's number from 0."""


def change(path: Path, number: int, values: dict[str, Any]) -> None:
    """Changes a row of a table; None takes a cell away."""

    def changed(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
        rows[number] = {name: value for name, value in (rows[number] | values).items() if value is not None}
        return rows

    if path.suffix == ".csv":
        with path.open(encoding="utf-8", newline="") as opened:
            read = csv.DictReader(opened)
            rows = changed(list(read))
        with path.open("w", encoding="utf-8", newline="") as opened:
            writer = csv.DictWriter(opened, read.fieldnames or ())
            writer.writeheader()
            writer.writerows(rows)
    elif path.suffix == ".jsonl":
        rows = changed([json.loads(line) for line in path.read_text("utf-8").splitlines()])
        path.write_text("\n".join(map(json.dumps, rows)), "utf-8")
    else:
        content = json.loads(path.read_text("utf-8"))
        changed(content["train"] if isinstance(content, dict) else content)
        path.write_text(json.dumps(content), "utf-8")


@pytest.mark.parametrize(
    ("source", "values", "field", "reason"),
    [
        ("slake", {"q_lang": "fr"}, "q_lang", "wanted en or zh, got 'fr'"),
        ("slake", {"answer": ""}, "answer", "wanted a text or a number"),
        ("slake", {"img_name": "../../x.jpg"}, "img_name", "wanted a path inside of the release"),
        ("slake", {"img_name": "xmlab99/source.jpg"}, "img_name", "there is no such image file"),
        ("slake", {"answer_type": "Closed"}, "answer_type", "wanted OPEN or CLOSED"),
        ("vqa_rad", {"answer_type": "BOTH"}, "answer_type", "wanted OPEN or CLOSED, got 'BOTH'"),
        ("vqa_rad", {"question_type": "PRES, XYZ"}, "question_type", "wanted types among"),
        ("vqa_rad", {"answer": None}, "answer", "wanted a text or a number"),
        ("vqa_rad", {"image_name": "no.jpg"}, "image_name", "there is no such image file"),
        ("vqa_rad", {"image_name": "../testset.json"}, "image_name", "wanted the name of a file"),
        ("vqa_rad", {"image_name": None}, "image_name", "there is no such column, only answer, answer_type"),
        ("vqa_rad", {"question": " "}, "question", "wanted a text"),
        ("path_vqa", {"labelf": {"pvqa": []}}, "labelf", "there are 3 questions and 0 answers"),
        ("path_vqa", {"sentf": []}, "sentf", "wanted an object with a list"),
        ("path_vqa", {"img_id": "train_9999"}, "img_id", "there is no such image file"),
        ("path_vqa", {"sentf": {"pvqa": ["", "b?", "c?"]}}, "sentf", "wanted a question, got an empty one"),
        ("omnimedvqa", {"gt_answer": "Perhaps"}, "gt_answer", "'Perhaps' is none of the options 'No', 'Yes'"),
        ("omnimedvqa", {"option_B": None}, "option_A", "wanted two to four options"),
        ("omnimedvqa", {"modality_type": None}, "modality_type", "wanted a text"),
        ("omnimedvqa", {"question": ""}, "question", "wanted a text"),
        ("omnimedvqa", {"image_path": "/etc/passwd"}, "image_path", "wanted a path inside of the release"),
        ("omnimedvqa", {"image_path": "Images/none.png"}, "image_path", "there is no such image file"),
        ("medxpertqa_mm", {"label": "F"}, "label", "wanted one of the letters A, B, C, D, E, got 'F'"),
        ("medxpertqa_mm", {"label": ["A", "B"]}, "label", "wanted one of the letters"),
        ("medxpertqa_mm", {"options": {"A": "one", "C": "two"}}, "options", "wanted two or more options with the"),
        ("medxpertqa_mm", {"options": {"A": "1", "B": " "}, "label": "A"}, "options", "wanted a text for each option"),
        ("medxpertqa_mm", {"images": []}, "images", "wanted a list of one or more images"),
        ("medxpertqa_mm", {"images": ["none.jpeg"]}, "images", "there is no such image file"),
        ("medxpertqa_mm", {"id": "MM-1"}, "id", "an earlier row has this id too"),
        ("medxpertqa_mm", {"medical_task": None}, "medical_task", "wanted a text"),
        ("pmc_vqa_2", {"Answer": "E"}, "Answer", "'E' is the letter of none of the options"),
        ("pmc_vqa_2", {"Question": " "}, "Question", "wanted a text, the cell is empty"),
        ("pmc_vqa_2", {"Choice B": ""}, "Choice A", "wanted two or more options, without gaps"),
        ("pmc_vqa_2", {"Figure_path": "../secret.jpg"}, "Figure_path", "wanted a path inside of the release"),
        ("pmc_vqa_2", {"Figure_path": "PMC1_F1.jpg"}, "Figure_path", "there is no such image file"),
        ("iu_xray", {"report": None}, "report", "there are 'id', 'image_path', 'split'"),
        ("iu_xray", {"report": " "}, "report", "it is empty"),
        ("iu_xray", {"report": 3}, "report", "wanted a text"),
        ("iu_xray", {"id": "study 3"}, "id", "begins with CXR"),
        ("iu_xray", {"split": "test"}, "split", "the row says 'test' and lies in the part 'train'"),
        ("iu_xray", {"image_path": []}, "image_path", "at least one image"),
        ("iu_xray", {"image_path": ["../0.png"]}, "image_path", "inside of it"),
        ("iu_xray", {"image_path": [7]}, "image_path", "inside of it"),
        ("iu_xray_medevalkit", {"image": ["CXR1_IM-1.png", "CXR2_IM-1.png"]}, "image", "several patients"),
        ("iu_xray_medevalkit", {"findings": "", "impression": " "}, "findings", "both are empty"),
        ("iu_xray_medevalkit", {"impression": None}, "impression", ""),
    ],
)
def test_a_wrong_row_is_rejected_alone_with_its_place(
    tmp_path: Path, source: str, values: dict[str, Any], field: str, reason: str
) -> None:
    root = tmp_path / "raw"
    root.mkdir()
    write_example(source, root)

    def read(name: str) -> SourceTable:
        (tmp_path / name).mkdir()
        return find_source(source).read(root, 0, tmp_path / name)

    (name, number), whole = ROWS[source], len(read("before").questions)
    change(root / name, number, values)
    table = read("after")
    reject, *others = table.rejects
    row = number + (2 if name.endswith(".csv") else 1)
    assert (root / reject.file).name == Path(name).name
    assert (reject.row, reject.field) == (row, field)
    assert reason in reject.reason
    assert bool(table.missing) == ("there is no" in reason and "image" in reason)
    # A row of PathVQA has three questions.
    lost = 3 if source == "path_vqa" and field != "sentf" else 1
    assert others == [] or source == "path_vqa"
    assert len(table.questions) == whole - lost or "sentf" in values
