"""Tests `medtune prepare` on a user's own table: what it prints, where files may lie, and what it refuses."""

import shutil
from pathlib import Path

import pytest

from medtune.data.prepared.read import open_prepared
from medtune.data.types import SPLITS
from medtune.trainer.commands.cli import main
from tests.benchmarks.vqa.own_data import pictures
from tests.data.media.videos.synthetic_videos import mp4

Capture = pytest.CaptureFixture[str]
ROWS = "".join(
    f"us_{n}.png,Which organ?,{'AB'[n % 2]},liver,colon,P{n // 2},{'east' if n % 3 else 'west'}\n" for n in range(12)
)


@pytest.fixture
def raw(tmp_path: Path) -> Path:
    pictures(tmp_path / "raw" / "pictures", 12)
    (tmp_path / "raw" / "my data.csv").write_text(f"image,Q,answer,A,B,PID,ward\n{ROWS}")
    return tmp_path / "raw"


def test_it_shows_the_mapping_three_rows_and_what_it_ignored(raw: Path, tmp_path: Path, capsys: Capture) -> None:
    command = ["prepare", "vqa", "--from", str(raw / "my data.csv"), "--out", str(tmp_path / "out")]
    command += ["--images", str(raw / "pictures"), "--columns", "question=q"]
    assert main([*command, "--facets", "ward"]) == 0
    said = capsys.readouterr().out
    assert "my data.csv is read by the source table (a table of your own)" in said
    assert "columns: image = image, question = Q, answer = answer, letters = A + B" in said
    assert "facets: ward" in said
    assert "ignored columns: PID" in said
    assert said.count("as a model will see it (choice)") == 3
    assert said.count("options: liver | colon\n    target: ") == 3
    assert "NO PATIENTS WERE FOUND: one image stands for one patient" in said
    assert main([*command, "--columns", "patient=PID"]) == 0
    said = capsys.readouterr().out
    assert "patient = PID" in said
    assert "NO PATIENTS" not in said
    prepared = open_prepared(tmp_path / "out")
    assert sum(prepared.manifest.num_patients.values()) == 6


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


def test_a_split_that_leaks_is_refused_and_kept_loudly(raw: Path, tmp_path: Path, capsys: Capture) -> None:
    lines = (raw / "my data.csv").read_text().splitlines()
    splits = ["split", *["train"] * 7, "val", "val", "test", "test", "test"]
    (raw / "my data.csv").write_text("\n".join(f"{a},{b}" for a, b in zip(lines, splits, strict=True)))
    command = ["prepare", "vqa", "--from", str(raw), "--images", str(raw / "pictures"), "--out", str(tmp_path / "out")]
    command += ["--columns", "question=Q", "patient=PID"]
    assert main(command) == 1
    assert "are in two splits" in capsys.readouterr().err
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


def test_a_limit_reads_the_beginning_of_a_copied_hub_data_set(raw: Path, tmp_path: Path, capsys: Capture) -> None:
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
    assert main([*command, "--limit", "3"]) == 0
    said = capsys.readouterr().out
    assert "splits of the data set: train, validation, test" in said
    assert "limit: of each split the first 3 patients were read" in said
    assert sum(open_prepared(tmp_path / "out").manifest.num_patients.values()) == 3
