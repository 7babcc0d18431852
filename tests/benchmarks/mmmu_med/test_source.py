"""Tests the reader of MMMU's medical subjects: its two parts, places of images, lists in texts, and wrong rows."""

import json
import re
import shutil
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from string import ascii_uppercase
from typing import Any

import numpy as np
import pytest

import medtune
from medtune.benchmarks import find_source
from medtune.benchmarks.medical_kits import mmmu_official
from medtune.benchmarks.medical_kits.mmmu_official import RANDOM
from medtune.benchmarks.mmmu_med.sources.mmmu_med import SUBJECTS, TEST_ANSWERS
from medtune.data.prepared.write import prepare
from medtune.data.raw.source import HubId, SourceTable
from medtune.data.types import MEDIA_MARK
from medtune.eval.scoring.reply_rules import TITLE
from medtune.trainer.commands.cli import main
from tests.benchmarks.mmmu_med.real_copy import MODELS, real_replies, write_copy
from tests.eval.golden import close, recorded
from tests.examples import write_example
from tests.examples.mmmu_med import IMAGE_COLUMNS, drawn_png, write_rows

PNG = drawn_png(np.random.default_rng(1))
ROW: dict[str, object] = {
    "id": "validation_Pharmacy_1",
    "question": "<image 1> What is it?",
    "options": "['a cyst', 'a stone']",
    "explanation": "It is a stone, as everybody knows.",
    "img_type": "['Drawings']",
    "answer": "B",
    "topic_difficulty": "Hard",
    "question_type": "multiple-choice",
    "subfield": "Invented",
    **dict.fromkeys(IMAGE_COLUMNS, None),
    "image_1": PNG,
    "image_2": drawn_png(np.random.default_rng(2)),
}


def example(root: Path, name: str = "mmmu_med") -> Path:
    write_example(name, root)
    return root


def read(root: Path, *rows: Mapping[str, object]) -> SourceTable:
    """Returns the table of a folder with these rows of Pharmacy alone, each a change of one row."""
    raw = root / "raw"
    write_rows(raw / "Pharmacy" / "validation-00000-of-00001.parquet", [ROW | dict(row) for row in rows])
    (root / "scratch").mkdir(exist_ok=True)
    return find_source("mmmu_med").read(raw, 0, root / "scratch")


def test_the_real_validation_part_has_its_official_counts(shared_real: Path, tmp_path: Path) -> None:
    write_copy(shared_real, tmp_path / "raw")
    (tmp_path / "scratch").mkdir()
    table = find_source("mmmu_med").read(tmp_path / "raw", 0, tmp_path / "scratch")
    assert Counter(question.facets["task"] for question in table.questions) == dict.fromkeys(SUBJECTS, 30)
    assert Counter(question.facets["form"] for question in table.questions) == {"choice": 145, "open": 5}
    assert {q.answer for q in table.questions if not q.options} == {"C", "Transformation", "2", "B", "A"}
    assert not table.rejects
    truths = json.loads((shared_real / "mmmu_med" / "answer_dict_val_medical.json").read_text("utf-8"))
    for question in table.questions:
        truth = truths[question.id]["ground_truth"]
        assert question.answer == (question.options["ABCDEFGHI".index(truth)] if question.options else truth)


def test_images_stand_where_the_question_speaks_of_them(tmp_path: Path) -> None:
    in_text, in_options, twice, first_alone = (
        {"id": "a", "question": "Compare <image 2> with <image 1>."},
        {"id": "b", "question": "Which?", "options": "['<image 1>', '<image 2>']"},
        {"id": "c", "question": "<image 1> Which part of <image 1> is it?"},
        {"id": "d", "question": "What is it?"},
    )
    table = read(tmp_path, in_text, in_options, twice, first_alone)
    found = {question.id: question for question in table.questions}
    assert [found[each].text.replace(MEDIA_MARK, "#") for each in "abcd"] == [
        "Compare # with #.",
        "Which?\nimage 1: #\nimage 2: #",
        "image 1: # Which part of image 1 is it?",
        "What is it?",
    ]
    assert found["b"].options == ("image 1", "image 2")
    assert [len(table.media[each]) for each in "abcd"] == [2, 2, 1, 1]
    assert table.media["a"] == tuple(reversed(table.media["b"]))
    assert table.notes == (
        "2 images are left out, because their questions do not speak of them",
        f"not in this folder: {', '.join(subject for subject in SUBJECTS if subject != 'Pharmacy')}",
    )


def test_a_cell_is_read_as_a_list_and_never_run(tmp_path: Path) -> None:
    harmful = {"id": "x", "options": "__import__('os').getcwd()"}
    table = read(tmp_path, {"options": '["it\'s a cyst", \'a "stone"\', 3]'}, harmful)
    assert table.questions[0].options == ("it's a cyst", 'a "stone"', "3")
    assert [reject.field for reject in table.rejects] == ["options"]


def test_the_explanation_is_in_no_question(tmp_path: Path) -> None:
    assert "everybody" not in str(read(tmp_path, {}).questions)


def test_equal_options_and_several_right_answers_are_kept(tmp_path: Path) -> None:
    equal = {"id": "x", "options": "['a clip', 'a stone', 'a stone']", "answer": "C"}
    table = read(tmp_path, equal, {"id": "y", "question_type": "open", "options": "[]", "answer": "['2', 'two']"})
    choice, free = table.questions
    assert (choice.answer, choice.printed) == ("a stone", {"letter": "C"})
    assert (free.answer, json.loads(free.printed["other answers"])) == ("2", ["two"])
    assert any(note.startswith("1 questions have two equal options") for note in table.notes)


@pytest.mark.parametrize(
    ("change", "field", "reason"),
    [
        ({"options": "a, b"}, "options", "wanted the text of a Python list"),
        ({"options": "['a cyst', '']"}, "options", "an option is empty"),
        ({"answer": "C"}, "answer", "wanted one of the letters A, B, got 'C'"),
        ({"question": ""}, "question", "wanted a text"),
        ({"question": "<image 3> What is it?"}, "image_3", "there is no image"),
        ({"image_1": b"%PDF-1.7 no image"}, None, "this is a PDF document"),
    ],
)
def test_a_wrong_row_is_rejected_with_its_place(
    change: dict[str, object], field: str | None, reason: str, tmp_path: Path
) -> None:
    table = read(tmp_path, {}, {"id": "x", **change})
    (reject,) = table.rejects
    assert [question.id for question in table.questions] == [ROW["id"]]
    assert (reject.row, reject.field) == (2, field)
    assert reject.file == "Pharmacy/validation-00000-of-00001.parquet"
    assert reason in reject.reason


def test_the_test_part_needs_the_users_answers(tmp_path: Path) -> None:
    root, source = example(tmp_path / "raw", "mmmu_med_test"), find_source("mmmu_med_test")
    (tmp_path / "scratch").mkdir()
    table = source.read(root, 0, tmp_path / "scratch")
    assert Counter(question.facets["part"] for question in table.questions) == {"test": 25}
    (root / TEST_ANSWERS).unlink()
    with pytest.raises(ValueError, match="the answers of all 25 questions are withheld by MMMU's authors"):
        source.read(root, 0, tmp_path / "scratch")
    (root / TEST_ANSWERS).write_text('{"a": 1}')
    with pytest.raises(ValueError, match=r'wanted \{id: \{"ground_truth": answer\}\}'):
        source.read(root, 0, tmp_path / "scratch")


def test_a_mirror_of_the_hub_is_read_by_its_id(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    root = example(tmp_path / "MMMU")
    for origin, counted in ((f"hf:{root}:Pharmacy", 5), (f"hf:{root}", 25)):
        out = tmp_path / str(counted)
        assert main(["prepare", "mmmu_med", "--from", origin, "--out", str(out)]) == 0
        assert re.search(rf"test +{counted} questions", capsys.readouterr().out)
    read_hub: Callable[..., SourceTable] | None = find_source("mmmu_med").read_hub
    assert read_hub is not None
    with pytest.raises(ValueError, match="wanted one of the medical subjects Basic_Medical_Science"):
        read_hub(HubId(str(root), "Art"), 0, tmp_path)
    (root / "MMMU.py").write_text("raise SystemExit('this is run')")
    with pytest.raises(ValueError, match="wants to run its own code"):
        read_hub(HubId(str(root)), 0, tmp_path)


def test_a_folder_without_the_part_is_refused(tmp_path: Path) -> None:
    root = example(tmp_path / "raw", "mmmu_med_test")
    with pytest.raises(FileNotFoundError, match=r"wanted Pharmacy/validation-\*.parquet.*mmmu_med_test the test part"):
        find_source("mmmu_med").read(root, 0, tmp_path)


def test_golden_medevalkit_stops_at_the_test_part_and_medtune_does_not(tmp_path: Path) -> None:
    expected = recorded("medevalkit_sets.json", "medical_vqa")["expected"]
    assert expected["mmmu_test_route_evaluate_with_two_arguments"] == "TypeError"
    root = example(tmp_path / "raw", "mmmu_med_test")
    prepared = prepare(find_source("mmmu_med_test"), benchmark="mmmu_med", root=root, out=tmp_path / "out")
    assert prepared.num_questions("test") == 25


def test_a_copy_without_a_subject_says_so_in_the_folder_and_in_every_score(tmp_path: Path) -> None:
    source = find_source("mmmu_med")
    write_example("mmmu_med", tmp_path / "raw")
    shutil.rmtree(tmp_path / "raw" / "Pharmacy")
    prepared = prepare(source, benchmark="mmmu_med", root=tmp_path / "raw", out=tmp_path / "out")
    assert "not in this folder: Pharmacy" in prepared.manifest.notes
    data = medtune.load(tmp_path / "out")
    scored = medtune.score(data.test, {question.id: "A" for question in data.test})
    assert "the questions are 20 of the 150 of the validation part, without Pharmacy." in str(scored)


RIGHT = {"llava1.5_13b": (15, 12, 11, 8, 12), "qwen_vl": (9, 9, 5, 11, 13)}
DRAWN = {"llava1.5_13b": 0, "qwen_vl": 5}


@pytest.fixture(scope="module")
def prepared(shared_real: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("mmmu")
    write_copy(shared_real, folder / "raw")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CONFIG_HOME", str(tmp_path_factory.getbasetemp() / "config"))
        arguments = ["--from", str(folder / "raw"), "--out", str(folder / "prepared")]
        assert main(["prepare", "mmmu_med", *arguments]) == 0
    return folder / "prepared"


def rules_of(scores: Path) -> Mapping[str, Mapping[str, Any]]:
    """Returns the rows of the table of rules in scores.json, by rule and column."""
    tables = json.loads(scores.read_text("utf-8"))["tables"]
    (table,) = (table for table in tables if table["title"] == TITLE)
    return {row[0]: dict(zip(table["columns"], row, strict=True)) for row in table["rows"]}


@pytest.mark.parametrize("model", MODELS)
def test_golden_rules_stand_side_by_side_for_real_replies(
    model: str, prepared: Path, shared_real: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    expected = recorded("mmmu_real_outputs.json", "medical_vqa")["expected"][model]
    replies = shared_real / "mmmu_med" / model
    arguments = ["--predictions", str(replies), "--questions", str(prepared), "--out", str(tmp_path)]
    assert main(["score", "mmmu_med", *arguments]) == 0
    shown = capsys.readouterr().out
    found = rules_of(tmp_path / "scores.json")
    assert list(found) == ["ours: robust", "MMMU's own code", "lmms-eval", "MedEvalKit, validation"]
    assert all(rule in shown for rule in found)
    official = found["MMMU's own code"]
    for subject, right in zip(SUBJECTS, RIGHT[model], strict=True):
        assert expected[subject]["right_without_random"] == right
        assert official[f"right in {subject}"] == right
    assert (official["right without draws"], official["drawn at random"]) == (sum(RIGHT[model]), DRAWN[model])
    drawn = [
        1 / len(listed)
        for subject in SUBJECTS
        for row in real_replies(shared_real, model, subject)
        if isinstance(listed := row.get("index2ans"), dict)
        and mmmu_official.letter(str(row["response"]), listed) == RANDOM
    ]
    assert close(official["accuracy"], (sum(RIGHT[model]) + sum(drawn)) / 150)
    # The ceiling of the other two is 145, and no reply of the real ones brings our own rule under the official one.
    assert found["lmms-eval"]["right without draws"] <= official["right without draws"]
    assert 0 < found["ours: robust"]["accuracy"] < 1


@pytest.mark.parametrize("model", MODELS)
def test_golden_real_replies_are_read_as_the_official_code_reads_them(model: str, shared_real: Path) -> None:
    for subject, expected in recorded("mmmu_real_outputs.json", "medical_vqa")["expected"][model].items():
        rows = real_replies(shared_real, model, subject)
        read: dict[object, object] = {}
        differing = 0
        for row in rows:
            listed, reply = row.get("index2ans"), str(row["response"])
            if not isinstance(listed, dict):
                read[row["id"]] = sorted(map(str, mmmu_official.open_pieces(reply)))
                continue
            assert list(listed) == list(ascii_uppercase[: len(listed)])
            read[row["id"]] = mmmu_official.letter(reply, listed)
            differing += read[row["id"]] != mmmu_official.lmms_letter(reply, listed)
        drawn = [number for number, said in read.items() if said == RANDOM]
        assert (expected["n"], expected["random"], expected["ids_random"]) == (len(rows), len(drawn), drawn)
        assert expected["lmms_differs"] == differing
        # The recorded letter of a drawn reply came from chance.
        wanted = {number: said for number, said in expected["parsed"].items() if number not in drawn}
        assert wanted == {number: said for number, said in read.items() if number not in drawn}
