"""A study over several benchmarks asks every row each of them, and shows their tables of one name as one."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from medtune.data.prepared.read import open_prepared
from medtune.eval.studies.cells import StudyAnswers, study_cells
from medtune.trainer.commands.cli import main
from medtune.trainer.studies.study import open_study
from tests.examples import write_example
from tests.ranks import Forked
from tests.trainer.conftest import Told
from tests.trainer.recipe.test_paper_rows import evidence_of_right_answers

SOURCES = {"slake": "slake_en", "path_vqa": "path_vqa", "pmc_vqa": "pmc_vqa_2"}
NANO = {
    "eval.readings": ["generation"],
    "eval.conditions": ["image"],
    "eval.max_new_tokens": 2,
    "eval.protocol": "recipe",
    "model.name": "nano_pocket",
    "log.wandb": "disabled",
    "model.dtype": "float32",
    "model.image_max_pixels": None,
    "train.precision": "32-true",
}


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("sets")
    for name, source in SOURCES.items():
        write_example(source, root / "raw" / name)
        words = ["prepare", name, "--source", source, "--from", str(root / "raw" / name)]
        assert main([*words, "--out", str(root / "prepared" / name)]) == 0
        said = [
            {"question_id": question.id, "text": question.answer}
            for question in open_prepared(root / "prepared" / name).questions("test")
        ]
        (root / f"{name}.jsonl").write_text("".join(json.dumps(each) + "\n" for each in said), encoding="utf-8")
    return root / "prepared"


def written(folder: Path, prepared: Path, **changed: Any) -> str:
    whole = {
        "sets": {name: str(prepared / name) for name in SOURCES},
        "tables": ["medevalkit"],
        "work": "eval",
        "fetch": "nothing",
        "rows": [
            {"name": "right", "published": "GPT-5", "predictions": {"image": [str(prepared.parent / "{set}.jsonl")]}},
            {"name": "nano", "recipe": "qwen25vl_7b_vqa_rad_lora", "set": NANO},
        ],
        **changed,
    }
    path = folder / "mine.yaml"
    path.write_text("# Three sets.\n" + yaml.safe_dump(whole, sort_keys=False), encoding="utf-8")
    return str(path)


def test_every_row_is_asked_every_set_in_one_table(prepared: Path, tmp_path: Path, shown: Told) -> None:
    words = ["reproduce", written(tmp_path, prepared), "--out", str(tmp_path / "out"), "--wandb", "disabled"]
    done = Forked([*words, "--reuse", str(tmp_path / "none")])
    said, _ = done.communicate(timeout=300)
    assert done.returncode == 0, said
    found = json.loads((tmp_path / "out" / "study.json").read_text("utf-8"))
    cells = {(cell["row"], cell["column"]): cell for cell in found["cells"]}
    assert {column for _, column in cells} == {"SLAKE", "PathVQA", "PMC-VQA"}
    assert {cell["printed"] for (row, _), cell in cells.items() if row == "right"} == {78.1, 52.8, 60.0}
    assert cells["right", "PMC-VQA"]["ours"] == 100.0
    # The judge's numbers of short answers follow another rule than ours.
    assert cells["right", "SLAKE"]["ours"] == 100.0
    assert cells["right", "SLAKE"]["difference"] is None
    for name in SOURCES:
        results = json.loads((tmp_path / "out" / "rows" / "nano" / name / "results.json").read_text("utf-8"))
        assert results["benchmark"] == name
    assert {run["benchmark"] for run in found["runs"] if run["row"] == "nano"} == {*SOURCES}
    (table,) = open_study(written(tmp_path, prepared)).tables
    assert [each.name for each in table.columns] == ["SLAKE", "PathVQA", "PMC-VQA"]
    assert shown(main([*words, "--resume"])).count("taken from") == 3
    again = json.loads((tmp_path / "out" / "study.json").read_text("utf-8"))
    assert again["cells"] == found["cells"]


def test_released_answers_by_the_printed_rule_have_a_difference(prepared: Path, tmp_path: Path) -> None:
    opened = open_study(written(tmp_path, prepared))
    rows = []
    for each in opened.sets:
        asked = [q for q in each.benchmark.examples if q.facets.get("release", "v2 test_2") == "v2 test_2"]
        evidence = evidence_of_right_answers(replace(each.benchmark, examples=tuple(asked)))
        rows.append(StudyAnswers("right", "GPT-5", [{"zero_shot": evidence}], benchmark=each.name))
    cells = {cell.column: cell for cell in study_cells(opened.tables, rows)}
    assert cells["PMC-VQA"].difference == 40.0
    assert cells["PMC-VQA"].rank == 1
    assert cells["PMC-VQA"].p is not None
    assert cells["PathVQA"].difference is None
    assert cells["PathVQA"].why.startswith("printed by another rule (MedEvalKit with GPT-4.1")


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"sets": {}}, "sets is empty; give the prepared folder of each benchmark"),
        ({"sets": {"slake": "a", "busi": "b"}}, "no table of the study has a column of busi"),
        ({"set_for": {"slak": {}}}, "set_for: slak is none of sets. Did you mean 'slake'"),
        (
            {"scales": {"nano": {"data": {"source": "slake_en"}, "rows": []}}},
            "scales.nano.data simulates one benchmark",
        ),
    ],
)
def test_a_wrong_study_of_several_sets_is_refused(
    prepared: Path, tmp_path: Path, changed: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        open_study(written(tmp_path, prepared, **changed), scale="nano" if "scales" in changed else "full")


def test_a_scale_without_data_needs_those_of_the_user(prepared: Path, tmp_path: Path, refused: Told) -> None:
    scales = {"nano": {"data": None, "rows": [{"name": "nano", "recipe": "qwen25vl_7b_vqa_rad_lora", "set": NANO}]}}
    path = written(tmp_path, prepared, scales=scales)
    words = ["reproduce", path, "--scale", "nano", "--out", str(tmp_path / "out"), "--wandb", "disabled"]
    assert "simulates nothing: give your prepared data by --data" in refused(main(words))
    assert not (tmp_path / "out").exists()
