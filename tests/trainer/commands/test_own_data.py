"""Tests `medtune init`: the recipe is written once, and the commands that it says work when they are pasted."""

import csv
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from medtune.data.prepared.read import open_prepared
from medtune.data.types import SPLITS
from medtune.trainer.commands.cli import main
from medtune.trainer.recipe.read import read_recipe
from tests.benchmarks.vqa.own_data import pictures
from tests.data.media.videos.synthetic_videos import mp4
from tests.ranks import medtune_forked
from tests.trainer.conftest import Capture, Told, json_of

ROOT = Path(__file__).resolve().parents[3]


def commands(said: str) -> list[str]:
    """Returns the commands that are there to be pasted."""
    return re.findall(r"^    (medtune .*)$", said, re.MULTILINE)


def test_a_prepared_folder_gives_a_recipe_that_fits_it(
    prepared_tiny: Path, tmp_path: Path, capsys: Capture, shown: Told, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    said = shown(main(["init", "my study", "--data", str(prepared_tiny)]))
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


def test_a_file_in_the_place_of_the_folder(prepared_tiny: Path, tmp_path: Path, refused: Told) -> None:
    (tmp_path / "study").write_text("mine")
    for folder in ("study", "study/deeper"):
        said = refused(main(["init", str(tmp_path / folder), "--data", str(prepared_tiny)]))
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
    table: Path, tiny_busi: Path, tmp_path: Path, capsys: Capture, shown: Told, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    given = ["--data", table.name, "--images", str(tiny_busi), "--columns", "image=file", "patient=PID"]
    said = shown(main(["init", "study", *given]))
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
    assert "NO PATIENTS WERE FOUND: one image stands for one patient" in shown(main(["init", "other", *unnamed]))
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

    def forked(line: str) -> str:
        return medtune_forked(*shlex.split(line)[1:], folder=tmp_path)

    given = f"--data '{table.name}' --images {tiny_busi} --columns image=file patient=PID"
    prepare, validate, run = commands(typed(f"medtune init 'my study' {given}"))
    assert "NO PATIENTS" not in forked(prepare)
    assert "trainable" in forked(f"{validate} --no-weights")
    quick = "model.name=nano_pocket train.precision=32-true train.epochs=0.2 eval.max_new_tokens=4 eval.val_questions=2"
    assert "gain" in forked(f"{run} --limit 12 --set {quick}")
    (results,) = (tmp_path / "runs" / "my study").glob("*/results.json")
    found = json_of(results)
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
    assert "the answer is none of the" in said
    assert "--max-rejected" in said


def test_prepare_says_what_is_in_the_folder(tiny_busi: Path, tmp_path: Path, shown: Told) -> None:
    out = tmp_path / "prepared"
    said = shown(main(["prepare", "busi", "--from", str(tiny_busi), "--out", str(out), "--limit", "12"]))
    assert "diagnosis" in said
    assert "data hash" in said
    assert "patients:" in said


ROWS = "".join(
    f"us_{n}.png,Which organ?,{'AB'[n % 2]},liver,colon,P{n // 2},{'east' if n % 3 else 'west'}\n" for n in range(12)
)


@pytest.fixture
def raw(tmp_path: Path) -> Path:
    pictures(tmp_path / "raw" / "pictures", 12)
    (tmp_path / "raw" / "my data.csv").write_text(f"image,Q,answer,A,B,PID,ward\n{ROWS}")
    return tmp_path / "raw"


def test_it_shows_the_mapping_three_rows_and_what_it_ignored(raw: Path, tmp_path: Path, shown: Told) -> None:
    command = ["prepare", "vqa", "--from", str(raw / "my data.csv"), "--out", str(tmp_path / "out")]
    command += ["--images", str(raw / "pictures"), "--columns", "question=q"]
    said = shown(main([*command, "--facets", "ward"]))
    assert "my data.csv is read by the source table (a table of your own)" in said
    assert "columns: image = image, question = Q, answer = answer, letters = A + B" in said
    assert "facets: ward" in said
    assert "ignored columns: PID" in said
    assert said.count("as a model will see it (choice)") == 3
    assert said.count("options: liver | colon\n    target: ") == 3
    assert "NO PATIENTS WERE FOUND: one image stands for one patient" in said
    said = shown(main([*command, "--columns", "patient=PID"]))
    assert "patient = PID" in said
    assert "NO PATIENTS" not in said
    prepared = open_prepared(tmp_path / "out")
    assert sum(prepared.manifest.num_patients.values()) == 6
    for split, number in prepared.manifest.num_patients.items():
        assert f"{split:<6}{2 * number:>7} questions of {number} patients" in said
    assert "splits are drawn by patient, so that shares of questions may differ" in said


def test_what_is_wrong_with_the_answers_stands_at_the_end(tmp_path: Path, shown: Told) -> None:
    answers = zip(pictures(tmp_path / "raw", 21), [*["yes", "no"] * 10, "yse"], strict=True)
    rows = [f"{name},Is it so?,{answer}" for name, answer in answers]
    (tmp_path / "raw" / "data.csv").write_text("\n".join(["image,question,answer", *rows]))
    command = ["prepare", "vqa", "--from", str(tmp_path / "raw" / "data.csv"), "--out", str(tmp_path / "out")]
    _, _, end = shown(main(command)).rpartition("as a model will see it")
    assert "note: ODD ANSWERS: 20 of 21 answers to 'Is it so?' are yes or no" in end
    assert any("'yse'" in note for note in open_prepared(tmp_path / "out").manifest.warnings)


def test_another_working_directory_and_a_moved_folder(
    raw: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    monkeypatch.chdir(raw)
    said = ["--images", "pictures", "--columns", "question=Q", "patient=PID"]
    assert main(["prepare", "vqa", "--from", "my data.csv", *said, "--out", "../out"]) == 0
    shutil.rmtree(raw / "pictures")
    shutil.move(tmp_path / "out", tmp_path / "moved")
    prepared = open_prepared(tmp_path / "moved")
    assert all(ref.path.is_file() for split in SPLITS for group in prepared.groups(split) for ref in group.media)
    assert main(["prepare", "vqa", "--from", "my data.csv", "--images", "picture", "--out", "../out"]) == 1
    assert "picture: there is no such folder. Check --images" in capsys.readouterr().err


@pytest.mark.parametrize("copy", [[], ["--copy"]])
def test_films_are_linked_or_copied(tmp_path: Path, copy: list[str]) -> None:
    (tmp_path / "raw").mkdir()
    for number in range(3):
        mp4(tmp_path / "raw" / f"{number}.mp4", [0.04 * frame for frame in range(number + 2)])
    rows = "".join(f"{number}.mp4,what moves?,valve {number}\n" for number in range(3))
    (tmp_path / "raw" / "films.csv").write_text(f"video,question,answer\n{rows}")
    assert main(["prepare", "vqa", "--from", str(tmp_path / "raw"), "--out", str(tmp_path / "out"), *copy]) == 0
    inodes = {file.stat().st_ino for file in (tmp_path / "raw").glob("*.mp4")}
    kept = {file.stat().st_ino for file in (tmp_path / "out" / "media").glob("*.mp4")}
    assert len(kept) == 3
    assert kept.isdisjoint(inodes) if copy else kept == inodes


def test_a_split_that_leaks_is_refused_and_kept_loudly(
    raw: Path, tmp_path: Path, capsys: Capture, refused: Told
) -> None:
    lines = (raw / "my data.csv").read_text().splitlines()
    splits = ["split", *["train"] * 7, "val", "val", "test", "test", "test"]
    (raw / "my data.csv").write_text("\n".join(f"{a},{b}" for a, b in zip(lines, splits, strict=True)))
    command = ["prepare", "vqa", "--from", str(raw), "--images", str(raw / "pictures"), "--out", str(tmp_path / "out")]
    command += ["--columns", "question=Q", "patient=PID"]
    assert "are in two splits" in refused(main(command))
    assert main([*command, "--keep-leaks"]) == 0
    assert "LEAKS of the data's own split, which is kept: of 3 test questions 1 about a shared patient" in (
        capsys.readouterr().out
    )


def test_a_benchmark_that_knows_its_columns_takes_no_mapping(tiny_busi: Path, tmp_path: Path, capsys: Capture) -> None:
    command = ["prepare", "busi", "--from", str(tiny_busi), "--out", str(tmp_path / "out")]
    assert main([*command, "--columns", "question=Q"]) == 1
    assert "the source 'busi' knows its own files: leave --images, --columns" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main([*command, "--columns", "question"])
    assert main(["prepare", "busi", "--from", "hf:a/b", "--out", str(tmp_path / "out")]) == 1
    assert "the source 'busi' reads files: give their folder with --from DIR" in capsys.readouterr().err


def test_a_limit_reads_the_beginning_of_a_copied_hub_data_set(
    raw: Path, tmp_path: Path, capsys: Capture, shown: Told
) -> None:
    (tmp_path / "copy").mkdir()
    header, *lines = (raw / "my data.csv").read_text().splitlines()
    for number, split in enumerate(("train", "validation", "test")):
        rows = [line.replace(",P", f",P{number}") for line in lines[4 * number : 4 * number + 4]]
        (tmp_path / "copy" / f"{split}.csv").write_text("\n".join([header, *rows]))
    command = ["prepare", "vqa", "--from", f"hf:{tmp_path / 'copy'}", "--images", str(raw / "pictures")]
    command += ["--out", str(tmp_path / "out"), "--columns", "question=Q", "patient=PID"]
    assert main(command) == 0
    assert [open_prepared(tmp_path / "out").num_questions(split) for split in SPLITS] == [4, 4, 4]
    assert main([*command, "--limit", "1"]) == 1
    capsys.readouterr()
    said = shown(main([*command, "--limit", "3"]))
    assert "splits of the data set: train, validation, test" in said
    assert "limit: of each split the first 3 patients were read" in said
    assert sum(open_prepared(tmp_path / "out").manifest.num_patients.values()) == 3
