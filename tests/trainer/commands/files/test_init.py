"""Tests `medtune init`: the recipe is written once, and the commands that it says work when they are pasted."""

import csv
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from medtune.trainer.commands.cli import main
from medtune.trainer.recipe.read import read_recipe

ROOT = Path(__file__).resolve().parents[4]
Capture = pytest.CaptureFixture[str]


def commands(said: str) -> list[str]:
    """Returns the commands that are there to be pasted."""
    return re.findall(r"^    (medtune .*)$", said, re.MULTILINE)


def test_a_prepared_folder_gives_a_recipe_that_fits_it(
    prepared_tiny: Path, tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["init", "my study", "--data", str(prepared_tiny)]) == 0
    said = capsys.readouterr().out
    recipe = Path("my study/my study.yaml")
    assert "train 51, val 12, test 9 (as the data say)" in said
    assert [line.split()[1] for line in commands(said)] == ["validate", "eval", "run"]
    assert all("'my study/my study.yaml'" in line for line in commands(said))
    read = read_recipe(str(recipe))
    assert (read.data.benchmark, read.data.root) == ("busi", prepared_tiny)
    assert read.model.name == "pocket"
    assert read.eval.readings == ("likelihood", "generation")
    monkeypatch.chdir(tmp_path.parent)
    assert read_recipe(str(tmp_path / recipe)) == read
    before = (tmp_path / recipe).read_bytes()
    assert main(["init", str(tmp_path / "my study"), "--data", str(prepared_tiny)]) == 1
    assert "this recipe is there already and is left as it is" in capsys.readouterr().err
    assert (tmp_path / recipe).read_bytes() == before


def test_what_cannot_be_read_writes_nothing(tmp_path: Path, capsys: Capture) -> None:
    assert main(["init", str(tmp_path / "new"), "--data", str(tmp_path / "data.csv")]) == 1
    assert "data.csv: there" in capsys.readouterr().err
    assert not (tmp_path / "new").exists()


def test_a_file_in_the_place_of_the_folder(prepared_tiny: Path, tmp_path: Path, capsys: Capture) -> None:
    (tmp_path / "study").write_text("mine")
    for folder in ("study", "study/deeper"):
        assert main(["init", str(tmp_path / folder), "--data", str(prepared_tiny)]) == 1
        said = capsys.readouterr().err
        assert f"{tmp_path / 'study'}: this is a file; wanted a folder" in said
        assert "Name another folder" in said
        assert "Errno" not in said
    assert (tmp_path / "study").read_text() == "mine"


@pytest.fixture
def table(tiny_busi: Path, tmp_path: Path) -> Path:
    """A table of the user's own: synthetic breast ultrasound, with options, yes and no, free answers and patients."""
    pictures = sorted(path for path in tiny_busi.rglob("*.png") if "_mask" not in path.name)
    rows = []
    for number, path in enumerate(pictures):
        named = {"file": str(path.relative_to(tiny_busi)), "PID": f"p{number:02}"}
        kind = path.parent.name
        rows.append({**named, "question": "What is shown?", "options": "benign|malignant|normal", "answer": kind})
        rows.append({**named, "question": "Is there a lesion?", "answer": "no" if kind == "normal" else "yes"})
        rows.append({**named, "question": "Name the finding.", "answer": f"a {kind} finding"})
    path = tmp_path / "my data.csv"
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, ("file", "PID", "question", "options", "answer"), restval="")
        writer.writeheader()
        writer.writerows(rows)
    return path


def test_a_table_is_looked_at_and_not_prepared(
    table: Path, tiny_busi: Path, tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    given = ["--data", table.name, "--images", str(tiny_busi), "--columns", "image=file", "patient=PID"]
    assert main(["init", "study", *given]) == 0
    said = capsys.readouterr().out
    prepare, validate, run = commands(said)
    assert prepare.startswith("medtune prepare vqa --from 'my data.csv' --images ")
    assert prepare.endswith(" --columns image=file patient=PID --out study/prepared")
    assert (validate, run) == ("medtune validate study/study.yaml", "medtune run study/study.yaml")
    assert "train 50, val 11, test 11 (estimated; `prepare` draws the split)" in said
    assert "48 listed (options, yes or no), 24 free" in said
    assert "NO PATIENTS" not in said
    assert sorted(path.name for path in Path("study").iterdir()) == ["study.yaml"]
    assert read_recipe("study/study.yaml").data.root == tmp_path / "study" / "prepared"
    unnamed = ["--data", table.name, "--images", str(tiny_busi), "--columns", "image=file", "patient="]
    assert main(["init", "other", *unnamed]) == 0
    assert "NO PATIENTS WERE FOUND: one image stands for one patient" in capsys.readouterr().out
    assert main(["init", "third", "--data", table.name, "--images", str(tiny_busi), "--columns", "image=fil"]) == 1
    assert "there is no column 'fil' for the image. Did you mean 'file'?" in capsys.readouterr().err
    assert not Path("third").exists()


@pytest.mark.slow
def test_the_three_commands_work_when_they_are_pasted(table: Path, tiny_busi: Path, tmp_path: Path) -> None:
    binaries = tmp_path / "bin"
    binaries.mkdir()
    (binaries / "medtune").write_text(f'#!/bin/sh\nexec {sys.executable} -m medtune "$@"\n', "utf-8")
    (binaries / "medtune").chmod(0o755)
    around = {
        **os.environ,
        "PATH": f"{binaries}:{os.environ['PATH']}",
        "PYTHONPATH": os.pathsep.join((str(ROOT), os.environ.get("PYTHONPATH", ""))),
    }

    def typed(line: str) -> str:
        done = subprocess.run(line, shell=True, cwd=tmp_path, env=around, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
        return done.stdout

    given = f"--data '{table.name}' --images {tiny_busi} --columns image=file patient=PID"
    prepare, validate, run = commands(typed(f"medtune init 'my study' {given}"))
    assert "NO PATIENTS" not in typed(prepare)
    assert "trainable" in typed(f"{validate} --no-weights")
    quick = "model.name=nano_pocket train.precision=32-true train.epochs=0.2 eval.max_new_tokens=4"
    assert "gain" in typed(f"{run} --limit 12 --set {quick}")
    (results,) = (tmp_path / "runs" / "my study").glob("*/results.json")
    found = json.loads(results.read_text("utf-8"))
    assert (found["benchmark"], found["primary"]["name"]) == ("vqa", "closed_accuracy")
    assert set(found["phases"]) == {"zero_shot", "final"}


def test_data_that_cannot_be_trained_on_or_prepared_are_said_loudly(
    table: Path, tiny_busi: Path, tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    rows = list(csv.DictReader(table.open(encoding="utf-8")))

    def init(name: str) -> str:
        with Path(f"{name}.csv").open("w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, rows[0])
            writer.writeheader()
            writer.writerows(rows)
        given = ["--data", f"{name}.csv", "--images", str(tiny_busi), "--columns", "image=file", "patient=PID"]
        assert main(["init", name, *given]) == 0
        return capsys.readouterr().out

    rows = [row | {"split": "test"} for row in rows]
    said = init("for_testing")
    assert "NO QUESTIONS TO TRAIN ON" in said
    assert [line.split()[1] for line in commands(said)] == ["prepare", "eval", "eval"]
    assert "`prepare` WILL STOP" not in said
    assert "train 0, val 0, test 72 (as the data say)" in said
    rows = [row | {"split": ("test", "train", "")[number // 24]} for number, row in enumerate(rows)]
    assert "train 41, val 4, test 28 (estimated; `prepare` draws the split)" in init("in_part")
    rows = [row | {"split": row["split"] or "train"} for row in rows]
    said = init("two_splits")
    assert "train 48, val 0, test 24 (as the data say; `prepare` draws val out of train)" in said
    assert [line.split()[1] for line in commands(said)] == ["prepare", "validate", "run"]
    rows[0]["answer"] = "cyst"
    rows[3]["answer"] = "cyst"
    said = init("wrong_answers")
    assert "`prepare` WILL STOP: more than 1% of the rows are rejected, the first because: wrong_answers.csv" in said
    assert "cyst" in said
    assert "--max-rejected" in said
