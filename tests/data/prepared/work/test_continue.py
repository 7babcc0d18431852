"""Preparing in several processes, killed and continued: always the same folder."""

import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import PIL.Image
import pytest

from medtune.benchmarks import find_source
from medtune.data.prepared import copy_media
from medtune.data.prepared.work.finished import Finished
from medtune.data.prepared.work.work_folder import work_path
from medtune.data.prepared.write import prepare
from medtune.data.raw.source import MediaDraw, Source, SourceTable
from medtune.data.types import MediaRef, Question
from medtune.trainer.commands.cli import main
from tests.soak import sample_and_all

NUM = 24
_MARK = "MEDTUNE_TESTS_MARK"
PHANTOM = ["prepare", "ctlesionvqa", "--source", "ct_phantom"]


def _tree(root: Path) -> dict[str, bytes]:
    return {str(path.relative_to(root)): path.read_bytes() for path in sorted(root.rglob("*")) if path.is_file()}


def _crashing(root: Path) -> Source:
    """Returns a source of images; the process that draws the one with the number that crash.txt names dies."""
    return Source("t", "CC0", "https://example.org", "synthetic", "file", partial(_read, root), None, name="t")


def _read(root: Path, _: Path | None, seed: int, scratch: Path) -> SourceTable:
    questions, media, draws = [], {}, {}
    for number in range(NUM):
        path = scratch / str(number) / "image.png"
        media[f"m{number}"] = (MediaRef(path),)
        answer = "ab"[number % 2]
        questions.append(
            Question(f"q{number}", f"m{number}", "?", ("a", "b"), answer, "choice", f"p{number}", {"task": "t"})
        )
        draws[path] = MediaDraw(
            path.parent, partial(draw_or_die, path, number, root / "crash.txt"), f"{number}, {seed}"
        )
    return SourceTable(questions, media, draws=draws)


def draw_or_die(path: Path, number: int, crash: Path) -> None:
    """Draws one image; dies as a crashing decoder does where the file says so."""
    if crash.is_file() and crash.read_text() == str(number):
        os.kill(os.getpid(), signal.SIGSEGV)
    path.parent.mkdir(parents=True)
    pixels = np.random.default_rng(number).integers(0, 255, (16, 16, 3), dtype=np.uint8)
    PIL.Image.fromarray(pixels).save(path)
    if number == 3:
        path.write_bytes(b"\x89PNG broken")


def test_number_of_processes_changes_no_byte_and_broken_files_come_in_order(tmp_path: Path) -> None:
    made = [
        prepare(
            _crashing(tmp_path),
            benchmark="x",
            root=None,
            out=tmp_path / str(processes),
            max_rejected=0.1,
            processes=processes,
        )
        for processes in (1, 2, 3)
    ]
    trees = [_tree(each.root) for each in made]
    assert trees[0] == trees[1] == trees[2]
    assert sum(made[0].manifest.rejected.values()) == 1
    assert sorted(os.listdir(tmp_path)) == ["1", "2", "3"]


def test_file_that_crashes_its_process_is_rejected_alone(tmp_path: Path) -> None:
    (tmp_path / "crash.txt").write_text("7")
    made = prepare(_crashing(tmp_path), benchmark="x", root=None, out=tmp_path / "out", max_rejected=0.1, processes=2)
    rows = [json.loads(line) for line in (made.root / "rejects.jsonl").read_text().splitlines()]
    assert [row["row"] for row in rows] == [4, 8]
    assert "process that read this file died" in rows[1]["reason"]
    assert made.manifest.num_media == NUM - 2


def _stopped(source: Source, out: Path, *, after: int) -> None:
    """Prepares until some files are finished."""
    done = list[int]()

    def counted(unit: copy_media.CopyUnit, folder: Path) -> list[object]:
        if len(done) == after:
            raise KeyboardInterrupt
        done.append(1)
        return list(copy_media.copy_unit(unit, folder))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("medtune.data.prepared.work.work_folder.copy_unit", counted)
        with pytest.raises(KeyboardInterrupt):
            prepare(source, benchmark="x", root=None, out=out, max_rejected=0.1)


def test_only_what_is_left_is_done_and_other_settings_take_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, done = _crashing(tmp_path), list[int]()
    whole = _tree(prepare(source, benchmark="x", root=None, out=tmp_path / "whole", max_rejected=0.1).root)
    other = _tree(prepare(source, benchmark="x", root=None, out=tmp_path / "other", max_rejected=0.1, seed=1).root)
    _stopped(source, tmp_path / "out", after=10)
    with (work_path(tmp_path / "out") / "finished.jsonl").open("a") as file:
        # A process that is killed may leave half a line.
        file.write('["half')
    shutil.copytree(work_path(tmp_path / "out"), work_path(tmp_path / "again"))
    keep = Finished.keep_copies

    def counted(*told: Any) -> None:
        done.append(1)
        keep(*told)

    monkeypatch.setattr(Finished, "keep_copies", counted)
    assert _tree(prepare(source, benchmark="x", root=None, out=tmp_path / "out", max_rejected=0.1).root) == whole
    assert len(done) == NUM - 10
    done.clear()
    made = prepare(source, benchmark="x", root=None, out=tmp_path / "again", max_rejected=0.1, seed=1)
    assert _tree(made.root) == other
    assert len(done) == NUM


def test_a_file_that_ended_a_preparation_is_rejected_by_the_next(tmp_path: Path) -> None:
    source = _crashing(tmp_path)
    _stopped(source, tmp_path / "out", after=7)
    (tmp_path / "crash.txt").write_text("7")
    made = prepare(source, benchmark="x", root=None, out=tmp_path / "out", max_rejected=0.1)
    rows = [json.loads(line) for line in (made.root / "rejects.jsonl").read_text().splitlines()]
    assert [row["row"] for row in rows] == [4, 8]
    assert "process that read this file died" in rows[1]["reason"]


def test_a_changed_file_and_a_lost_copy_are_made_again(tmp_path: Path) -> None:
    media, questions = {}, []
    for number in range(6):
        path = tmp_path / f"{number}.png"
        PIL.Image.new("L", (9, 9), number).save(path)
        media[str(number)] = (MediaRef(path),)
        questions.append(
            Question(f"q{number}", str(number), "?", ("a", "b"), "a", "choice", f"p{number}", {"task": "t"})
        )
    table = SourceTable(questions, media)
    source = Source("t", "CC0", "https://example.org", "synthetic", "file", lambda *_: table, None)
    _stopped(source, tmp_path / "out", after=5)
    PIL.Image.new("L", (9, 9), 200).save(tmp_path / "2.png")
    copies = sorted((work_path(tmp_path / "out") / "folder" / "media").iterdir())
    copies[0].unlink()
    copies[1].write_bytes(b"half")
    made = prepare(source, benchmark="x", root=None, out=tmp_path / "out")
    assert _tree(made.root) == _tree(prepare(source, benchmark="x", root=None, out=tmp_path / "fresh").root)


def test_a_second_preparation_of_one_folder_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out"

    def read(*_: object) -> SourceTable:
        assert main([*PHANTOM, "--out", str(out)]) == 1
        said = capsys.readouterr().err
        assert f"{out}: process {os.getpid()} on {socket.gethostname()} prepares this folder since 20" in said
        assert "Wait for it, or choose another --out." in said
        assert "Delete it" not in said
        raise ValueError("read enough")

    source = Source("t", "CC0", "https://example.org", "synthetic", "file", read, None)
    with pytest.raises(ValueError, match="read enough"):
        prepare(source, benchmark="x", root=None, out=out)
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("kills", sample_and_all(1, 3))
def test_killed_at_any_moment_it_continues_to_the_same_folder(kills: int, tmp_path: Path) -> None:
    source, raw = find_source("ct_phantom"), tmp_path / "raw"
    assert source.write_settings is not None
    source.write_settings(raw, 8)
    whole = prepare(source, benchmark="ctlesionvqa", root=raw, out=tmp_path / "whole")
    command = [*PHANTOM, "--from", str(raw), "--out", str(tmp_path / "out"), "-j", "2"]
    moments = np.random.default_rng(0).integers(1, 8, kills)
    for moment in moments:
        running = subprocess.Popen(
            [sys.executable, "-m", "medtune", *command], env={**os.environ, _MARK: str(tmp_path)}
        )
        finished = work_path(tmp_path / "out") / "finished.jsonl"
        until = time.monotonic() + 120
        before = _num_finished(finished)
        while running.poll() is None and _num_finished(finished) < min(before + moment // 3 + 1, 8):
            assert time.monotonic() < until
            time.sleep(0.02)
        running.kill()
        running.wait()
        while _left_over(str(tmp_path)):
            assert time.monotonic() < until, "the processes that copy files end with the one that was killed"
            time.sleep(0.1)
    assert main(command) == 0
    assert _tree(tmp_path / "out") == _tree(whole.root)
    assert not work_path(tmp_path / "out").exists()


def _left_over(mark: str) -> list[Path]:
    """Returns the processes that were started with a mark in their environment and still run."""
    wanted = f"{_MARK}={mark}".encode()
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if wanted in (process / "environ").read_bytes().split(b"\0"):
                found.append(process)
    return found


def _num_finished(file: Path) -> int:
    return file.read_bytes().count(b"\n") if file.is_file() else 0
