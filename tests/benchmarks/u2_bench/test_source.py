"""The reader of U2-Bench: every spelling of its columns, images inside of cells, the traps of its data set ids."""

import csv
import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from medtune.benchmarks import find_source
from medtune.benchmarks.u2_bench.sources import u2_bench
from medtune.benchmarks.u2_bench.sources.u2_bench import COLUMNS, parse_cells
from medtune.benchmarks.u2_bench.tasks_and_sets import OPTIONS, TASKS, set_of_name, task_of_folder
from medtune.data.media.masks import LOCATIONS, NOT_VISIBLE
from medtune.data.raw.source import SourceTable
from medtune.data.types import Question
from tests.examples import write_example
from tests.examples.u2_bench import image_cell

IMAGE = image_cell(np.random.default_rng(1))
OTHER = image_cell(np.random.default_rng(2))
DD = "disease_diagnosis/23.tsv"


def write(root: Path, name: str, rows: Sequence[Mapping[str, object]]) -> None:
    file = root / name
    file.parent.mkdir(parents=True, exist_ok=True)
    names = list(dict.fromkeys(column for row in rows for column in row))
    with file.open("w", encoding="utf-8", newline="") as opened:
        writer = csv.DictWriter(opened, names, delimiter="\t")
        writer.writeheader()
        writer.writerows(rows)


def read(root: Path) -> SourceTable:
    scratch = root.parent / "scratch"
    scratch.mkdir(exist_ok=True)
    return find_source("u2_bench").read(root, 0, scratch)


def only(root: Path, name: str, **row: object) -> Question:
    """Writes a table of one row and returns its question."""
    write(root, name, [{"img_data": IMAGE, **row}])
    table = read(root)
    assert not table.rejects, table.rejects
    (question,) = table.questions
    return question


def reason(root: Path, name: str, **row: object) -> str:
    write(root, name, [{"img_data": IMAGE, **row}])
    (reject,) = read(root).rejects
    return str(reject)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "raw"


def test_example_has_all_tasks_and_an_image_a_row(root: Path) -> None:
    write_example("u2_bench", root)
    table = read(root)
    assert {q.facets["task"] for q in table.questions} == set(TASKS)
    assert len(table.questions) == len(table.media) == 58
    assert {q.facets["scenario"] for q in table.questions} >= {"DD 28_1", "VRA 28", "LL 04"}
    assert all(q.split is None for q in table.questions)
    assert table.notes == ("the column 'split' is not followed, as the benchmark is for evaluation alone: "
                           "no split 36, test 22",)  # fmt: skip


def test_there_are_fifty_scenarios_and_each_has_its_words() -> None:
    scenarios = [(task, dataset) for task, sets in TASKS.items() for dataset in sets]
    assert len(scenarios) == 50
    texts = {
        scenario: u2_bench.question_text(*scenario, structure="left kidney", anatomy="kidney") for scenario in scenarios
    }
    assert all(text.endswith(("?", ".")) for text in texts.values())
    assert all("left kidney" in text for (task, _), text in texts.items() if task in ("LL", "OD", "KD"))
    assert set(OPTIONS) == {scenario for scenario in scenarios if scenario[0] in ("DD", "VRA")}


@pytest.mark.parametrize(
    ("task", "name", "dataset"),
    [
        ("DD", "28", "28_1"), ("DD", "28_1", "28_1"), ("VRA", "28", "28"), ("VRA", "28_class", "28"), ("LL", "4", "04"),
        ("LL", "04", "04"), ("LL", "04_DDTI", "04"), ("OD", "9", "09"), ("VRA", "3", "03"), ("DD", "74", "74is_normal"),
        ("DD", "74is_normal", "74is_normal"), ("VRA", "74is_visible", "74is_visible"), ("VRA", "anatomy", "anatomy"),
        ("VRA", "FPUS23", "10"), ("OD", "HC18", "31"), ("DD", "BUSI", "23"), ("CVE", "CAMUS_ef", "18"),
        ("CG", "11", None), ("LL", "99_x", None), ("DD", "unknown", None),
    ],
)  # fmt: skip
def test_data_sets_are_known_by_number_and_task(task: str, name: str, dataset: str | None) -> None:
    assert set_of_name(task, name) == dataset


@given(st.sampled_from([(task, dataset) for task, sets in TASKS.items() for dataset in sets]))
def test_every_id_names_itself(scenario: tuple[str, str]) -> None:
    assert set_of_name(*scenario) == scenario[1]


@pytest.mark.parametrize(
    ("name", "task"),
    [("Disease Diagnosis", "DD"), ("lesion_localization", "LL"), ("organ-detection", "OD"), ("kd", "KD"), ("x", None)],
)
def test_folders_may_be_spelled_otherwise(name: str, task: str | None) -> None:
    assert task_of_folder(name) == task


BOX = '{"nodule": [0.2, 0.5, 0.1, 0.1]}'
# Our column -> a table, the cells of its last row by our names, and what has to differ without that column.
ROWS: Mapping[str, tuple[str, Mapping[str, str]]] = {
    "index": (DD, {"label": "benign", "image": "9"}),
    "image": (DD, {"label": "benign"}),
    "patient": (DD, {"label": "benign", "patient": "7"}),
    "anatomy": ("report_generation/39.tsv", {"report": "a liver", "anatomy": "liver"}),
    "options": (DD, {"label": "malignant", "options": "['a', 'malignant']"}),
    "label": (DD, {"label": "malignant"}),
    "box": ("lesion_localisation/04.tsv", {"box": BOX}),
    "keypoints": ("keypoint_detection/48.tsv", {"keypoints": BOX}),
    "structure": ("organ_detection/09.tsv", {"box": "", "structure": "capsule"}),
    "value": ("clinical_value_estimation/18.tsv", {"value": '{"EF": 55.25}'}),
    "pixel_size_mm": ("clinical_value_estimation/31.tsv", {"value": '{"HC": 99}', "pixel_size_mm": "0.25"}),
    "report": ("report_generation/39.tsv", {"report": "a liver"}),
    "caption": ("caption_generation/10.tsv", {"caption": "a plane"}),
    "dataset": ("disease_diagnosis/data.tsv", {"dataset": "BUSI", "label": "normal"}),
    "split": (DD, {"label": "benign", "split": "train"}),
    "demographic": (DD, {"label": "benign", "demographic": '{"sex": "F", "age": 61}'}),
}


@pytest.mark.parametrize(
    ("column", "spelling"), [(column, spelling) for column, spellings in COLUMNS.items() for spelling in spellings]
)
def test_every_spelling_of_a_column_gives_the_same_question(root: Path, column: str, spelling: str) -> None:
    file, last = ROWS[column]

    def spelled(name: str) -> SourceTable:
        names = {ours: spellings[0] for ours, spellings in COLUMNS.items()} | {column: name}
        rows = [dict.fromkeys(last, "") | {"image": IMAGE, "index": "9"}, {"image": IMAGE, "index": "10", **last}]
        write(root, file, [{names[ours]: cell for ours, cell in row.items()} for row in rows])
        return read(root)

    table = spelled(spelling)
    assert len(table.questions) >= 1
    assert (table.questions, table.notes, table.media) == (
        (first := spelled(COLUMNS[column][0])).questions, first.notes, first.media)  # fmt: skip
    assert spelled(f" {spelling.upper()}") == table
    unknown = spelled(f"{spelling} 2")
    assert (unknown.questions, unknown.notes) != (table.questions, table.notes)


@pytest.mark.parametrize("column", ["class_label", "classes", "class", "Class_Label ", "label"])
@pytest.mark.parametrize("cell", ["malignant", "['malignant']", "Malignant", '["malignant"]', " malignant "])
def test_labels_in_every_spelling(root: Path, column: str, cell: str) -> None:
    question = only(root, DD, **{column: cell})
    assert (question.answer, question.options) == ("malignant", ("normal", "benign", "malignant"))


@pytest.mark.parametrize(
    "cell",
    ["['a', 'malignant']", '["a", "malignant"]', "a, malignant", "A. a; B. malignant", "{'A': 'a', 'B': 'malignant'}"],
)
def test_options_in_every_spelling_win_over_the_known_ones(root: Path, cell: str) -> None:
    assert only(root, DD, class_label="malignant", options=cell).options == ("a", "malignant")


@pytest.mark.parametrize(
    ("file", "cells", "answer"),
    [
        (DD, {"class_label": "", "classes": "benign"}, "benign"),  # An empty column gives way to a filled one.
        ("disease_diagnosis/44.tsv", {"classes": "2.0"}, "2"),  # Labels are written as they are elsewhere.
        ("view_recognition_and_assessment/53.tsv", {"class_label": "None"}, "None"),  # None is a class of this set.
    ],
)
def test_odd_labels(root: Path, file: str, cells: dict[str, str], answer: str) -> None:
    assert only(root, file, **cells).answer == answer


def test_the_organ_is_not_told_where_it_is_asked(root: Path) -> None:
    row = {"class_label": '{"Anatomy": "Breast"}', "anatomy_location": "breast"}
    question = only(root, "view_recognition_and_assessment/anatomy.tsv", **row)
    assert question.answer == "breast"
    assert "anatomy" not in question.facets
    assert "breast" not in question.text.lower()


@pytest.mark.parametrize(
    ("cell", "answer"),
    [
        ('{"nodule": [0.2, 0.5, 0.1, 0.1]}', "middle left"),
        ("{'nodule': [0.45, 0.55, 0.1, 0.1]}", "lower center"),
        ('[{"nodule": [0.9, 0.1, 0, 0]}, {"other": [0.1, 0.1, 0, 0]}]', "upper right"),
        ('{"nodule": [0.5, 0.5, 1, 1], "other": [0, 0, 1, 1]}', "center"),
        ("", NOT_VISIBLE),
        ("nan", NOT_VISIBLE),
        ('{"nodule": null}', NOT_VISIBLE),
        ('{"nodule": [NaN, NaN, NaN, NaN]}', None),
    ],
)
def test_boxes_become_one_of_ten_places(root: Path, cell: str, answer: str | None) -> None:
    if answer is None:
        assert "wanted x and y from 0 to 1" in reason(root, "lesion_localisation/04.tsv", gt_bbox=cell)
        return
    question = only(root, "lesion_localisation/04.tsv", gt_bbox=cell)
    assert (question.answer, question.options) == (answer, LOCATIONS)
    assert ("nodule" in question.text) == (cell not in ("", "nan"))


def test_structures_are_named_by_box_channel_or_organ(root: Path) -> None:
    box = '{"left_kidney": [0.5, 0.5, 1, 1]}'
    assert "the left kidney?" in only(root, "organ_detection/09.tsv", gt_bbox=box, seg_channel_name="x").text
    assert "the capsule?" in only(root, "organ_detection/09.tsv", gt_bbox="", seg_channel_name="['capsule']").text
    assert "the kidney?" in only(root, "organ_detection/09.tsv", gt_bbox="", anatomy_location="Kidney").text


def test_keypoints_go_by_their_own_column_first(root: Path) -> None:
    row = {"gt_bbox": '{"a": [0.1, 0.1, 0, 0]}', "keypoints": '{"av-top-inner": [0.9, 0.9]}'}
    question = only(root, "keypoint_detection/48.tsv", **row)
    assert question.answer == "lower right"
    assert "av-top-inner" in question.text


@pytest.mark.parametrize(
    ("dataset", "cell", "answer", "unit"),
    [
        ("18", '{"EF": 55.25, "other": 3}', "55.25", "%"),
        ("18", "{'ef': '61 %'}", "61", "%"),
        ("27", '{"IMT": [0.61, 0.7]}', "0.61", "mm"),
        ("50", '[{"abdominal_circumference": 250}]', "250", "mm"),
        ("57", '{"fat_value": 12}', "12", "%"),
        ("31", '{"pixelSizeMm": 0.12, "HC": 180.5}', "180.5", "mm"),
        ("18", "44.5", "44.5", "%"),
    ],
)
def test_values_in_every_spelling(root: Path, dataset: str, cell: str, answer: str, unit: str) -> None:
    question = only(root, f"clinical_value_estimation/{dataset}.tsv", measurement=cell)
    assert (question.answer, question.unit, question.answer_kind) == (answer, unit, "number")
    assert ("One pixel is 0.12 mm" in question.text) == ("pixel" in cell)


def test_pixel_size_may_have_a_column(root: Path) -> None:
    question = only(root, "clinical_value_estimation/31.tsv", measurement='{"HC": 99}', pixelSizeMm=0.25)
    assert "One pixel is 0.25 mm wide" in question.text


@pytest.mark.parametrize(
    ("folder", "columns", "answer"),
    [
        ("report_generation/39", {"report": "a liver", "caption": "no"}, "a liver"),
        ("report_generation/39", {"gt_report": "a liver", "report": "no"}, "a liver"),
        ("report_generation/39", {"caption": "a liver"}, "a liver"),
        ("caption_generation/44", {"caption": "a lung", "report": "no"}, "a lung"),
        ("caption_generation/44", {"caption": "", "gt_report": "a lung"}, "a lung"),
    ],
)
def test_references_stand_in_any_of_three_columns(
    root: Path, folder: str, columns: dict[str, str], answer: str
) -> None:
    question = only(root, f"{folder}.tsv", **columns)
    assert (question.answer, question.answer_kind) == (answer, "text")


@pytest.mark.parametrize(
    ("name", "row", "message"),
    [
        (DD, {"class_label": "cystic"}, "disease_diagnosis/23.tsv, line 2, field 'class_label': 'cystic' is not among"),
        (DD, {"classes": ""}, "field 'classes': '' is not among the options"),
        (DD, {"img_data": "*" * 80, "class": "benign"}, "field 'img_data': wanted an image in base64, this is none"),
        (DD, {"img_data": "7", "class": "benign"}, "the index of a row that has one, got '7'"),
        (DD, {"img_data": "", "class": "benign"}, "the index of a row that has one, got ''"),
        ("lesion_localisation/4.tsv", {"gt_bbox": '{"a": [100, 200, 3, 4]}'}, "field 'gt_bbox': wanted x and y from 0"),
        ("lesion_localisation/4.tsv", {"gt_bbox": "somewhere"}, "wanted {structure: [x, y, ...]}, got 'somewhere'"),
        ("clinical_value_estimation/18.tsv", {"measurement": '{"length": "x"}'}, "field 'measurement': wanted a value"),
        ("clinical_value_estimation/27.tsv", {"measurement": "null"}, "field 'measurement': wanted a value"),
        ("report_generation/39.tsv", {"caption": " "}, "field 'caption': wanted a text, the cell is empty"),
    ],
)
def test_a_wrong_row_is_rejected_alone(root: Path, name: str, row: dict[str, str], message: str) -> None:
    assert message in reason(root, name, **row, patient_id="Mrs Miller")
    assert "Miller" not in reason(root, name, **row, patient_id="Mrs Miller")


@pytest.mark.parametrize("key", ["index", "id", None])
def test_an_image_cell_may_be_the_index_of_another_row_before_or_after(root: Path, key: str | None) -> None:
    rows: list[dict[str, object]] = [
        {"img_data": "1.0", "class": "normal"},
        {"img_data": IMAGE, "class": "benign"},
        {"img_data": OTHER, "class": "benign"},
        {"img_data": "1", "class": "malignant"},
    ]
    write(root, DD, [({key: n} if key else {}) | row for n, row in enumerate(rows)])
    table = read(root)
    paths = {q.id.rpartition(" ")[2]: table.media[q.media_id][0].path for q in table.questions}
    assert paths["0"] == paths["1"] == paths["3"] != paths["2"]
    assert len({q.patient_id for q in table.questions}) == 2


def test_rows_of_one_index_are_named_by_their_line(root: Path) -> None:
    write(root, DD, [{"index": index, "img_data": IMAGE, "class": "normal"} for index in (4, 7, 7)])
    assert [question.id for question in read(root).questions] == ["DD 23 4", f"{DD} 3", f"{DD} 4"]


def test_data_urls_and_identical_images_are_stored_once(root: Path) -> None:
    write(root, DD, [{"img_data": f"data:image/png;base64,{IMAGE}", "class": "normal"}])
    write(root, "disease_diagnosis/66.tsv", [{"img_data": IMAGE, "class": "benign"}])
    assert len({ref.path for (ref,) in read(root).media.values()}) == 1


def test_patients_of_one_source_are_known_across_tasks(root: Path) -> None:
    write(root, "view_recognition_and_assessment/28.tsv", [
        {"img_data": IMAGE, "class": "left lateral longitudinal", "patient_id": 7}])  # fmt: skip
    write(root, "disease_diagnosis/28_1.tsv", [{"img_data": OTHER, "class": "No OA", "patient_id": 7}])
    write(root, DD, [{"img_data": OTHER, "class": "benign", "patient_id": 7}])
    assert sorted(q.patient_id for q in read(root).questions) == ["23 7", "28 7", "28 7"]


def test_a_column_may_name_the_data_set(root: Path) -> None:
    question = only(root, "disease_diagnosis/data.tsv", dataset_name="BUSI", class_label="normal")
    assert question.facets["dataset"] == "23"


def test_sets_that_nobody_scores_are_left_out_and_counted(root: Path) -> None:
    write(root, "caption_generation/11.tsv", [{"img_data": IMAGE, "caption": "x"}] * 2)
    write(root, "caption_generation/10.tsv", [{"img_data": IMAGE, "caption": "x", "split": "train"}])
    table = read(root)
    assert len(table.questions) == 1
    assert table.notes[0] == "2 rows of CG 11, which the benchmark does not score"
    assert table.notes[1].endswith("for evaluation alone: train 1")


def test_folders_without_tables_and_tables_that_are_none_are_refused(root: Path) -> None:
    (root / "disease_diagnosis").mkdir(parents=True)
    (root / "columns.tsv").write_text("a\tb\n")
    with pytest.raises(ValueError, match=r"wanted \.tsv files in folders such as"):
        read(root)
    (root / DD).write_bytes(b"img_data\tclass\n\xff\xfe\t1\n")
    with pytest.raises(ValueError, match=r"23\.tsv: not a table of UTF-8 text"):
        read(root)


@given(st.text(max_size=60))
def test_any_cell_is_read_or_refused(cell: str) -> None:
    parse_cells.label(cell)
    parse_cells.options(cell)
    for read_cell in (parse_cells.place, lambda text: parse_cells.value(text, "18")):
        try:
            read_cell(cell)
        except ValueError as error:
            assert str(error).startswith("wanted")  # noqa: PT017


@given(st.floats(0, 1), st.floats(0, 1), st.sampled_from(["json", "python", "list"]))
def test_points_have_one_place_in_every_spelling(x: float, y: float, style: str) -> None:
    point = {"lesion": [x, y, 0.1, 0.1]}
    cell = {"json": json.dumps(point), "python": repr(point), "list": json.dumps([point])}[style]
    assert parse_cells.place(cell) == parse_cells.place(json.dumps(point))
    assert parse_cells.place(cell).position in LOCATIONS[:-1]


@given(st.floats(-1e6, 1e6), st.sampled_from(["18", "27", "31", "50", "57"]))
def test_values_survive_their_spelling(value: float, dataset: str) -> None:
    for cell in (str(value), json.dumps({"x": value}), json.dumps([{"x": value}]), repr({"x": [value]})):
        assert parse_cells.value(cell, dataset) == value
