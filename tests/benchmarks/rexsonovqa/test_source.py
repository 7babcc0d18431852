"""Tests the reader of ReXSonoVQA: its table, its errors about wrong rows and videos, and the real questions."""

import json
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from medtune.benchmarks import find_source
from medtune.benchmarks.facets import DURATION_BINS
from medtune.benchmarks.rexsonovqa.segments import read_segments
from medtune.benchmarks.rexsonovqa.sources import rexsonovqa
from medtune.data.raw.source import SourceTable
from medtune.data.types import Box, Size
from medtune.trainer.commands.cli import main
from tests.examples import write_example

KIDNEY = "Scan_of_the_Kidney"


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(rexsonovqa, "_frame_size", lambda path: Size(64, 40))
    write_example("rexsonovqa", tmp_path / "raw")
    return tmp_path / "raw"


def read(root: Path) -> SourceTable:
    return find_source("rexsonovqa").read(root, 0, root.parent)


def change(root: Path, **fields: object) -> None:
    """Sets fields of the first multiple-choice question about the kidney."""
    file = root / "benchmark_questions" / "mcq" / f"{KIDNEY}.json"
    rows = json.loads(file.read_text())
    rows[0] |= fields
    file.write_text(json.dumps(rows))


def change_metadata(root: Path, **fields: object) -> None:
    file = root / rexsonovqa.METADATA
    entries = json.loads(file.read_text())
    entries[KIDNEY] |= fields
    file.write_text(json.dumps(entries))


def test_kept_questions_of_both_formats_are_read(root: Path) -> None:
    table = read(root)
    assert Counter(q.facets["format"] for q in table.questions) == {"mcq": 6, "free": 6}
    assert not table.rejects
    assert table.notes == (
        "4 questions of files whose name differs from the metadata's",
        "6 questions that end after their segment, and were cut there",
        "6 questions that the authors did not keep",
    )
    asked, free = table.questions[0], table.questions[6]
    assert (asked.text, asked.options[1]) == ("Why is the probe moved, 0?", "reason B of 1")
    assert {q.answer_kind for q in table.questions} == {"choice", "rubric"}
    assert free.answer == "To see plane 1 of 0."
    assert all(q.split is None for q in table.questions)


def test_clips_are_parts_of_whole_videos_and_cropped(root: Path) -> None:
    table = read(root)
    clips = {
        q.text[-2] + q.facets["format"]: ref
        for q in table.questions
        if "Clip0" in q.media_id
        for ref in table.media[q.media_id]
    }
    assert {(ref.path.name, ref.kind, ref.region) for ref in clips.values()} == {
        ("exampleClip0.dcm", "video", Box(16, 4, 48, 36))
    }
    # Segment 1.25 s to 7.25 s; the second clip asks for 0.01 s more.
    assert {number: (ref.start_s, ref.end_s) for number, ref in clips.items() if "mcq" in number} == {
        "0mcq": (1.25, 3.25),
        "1mcq": (1.75, 7.25),
    }


def test_both_formats_of_a_window_share_a_media_item(root: Path) -> None:
    table = read(root)
    assert len(table.media) == 6
    assert len({q.patient_id for q in table.questions}) == 3


def test_a_segment_that_is_cut_already_is_taken_as_it_is(root: Path) -> None:
    (root / "videos" / "exampleClip0.dcm").rename(root / "videos" / f"{KIDNEY}.mp4")
    table = read(root)
    refs = [ref for (ref,) in table.media.values() if ref.path.stem == KIDNEY]
    assert [(ref.start_s, ref.end_s, ref.region) for ref in refs] == [(0.0, 2.0, None), (0.5, 6.0, None)]


@pytest.mark.parametrize("name", ["exampleClip0.webm", "sub/A title [exampleClip0].mkv"])
def test_videos_are_known_by_the_id_in_their_names(root: Path, name: str) -> None:
    (root / "videos" / "sub").mkdir()
    (root / "videos" / "exampleClip0.dcm").rename(root / "videos" / name)
    assert not read(root).rejects


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"answer": "E"}, "mcq, file 3, number 1, field 'answer': 'E' is not among the 4 options"),
        ({"answer": 3}, "mcq, file 3, number 1, field 'answer': wanted a text"),
        ({"question": "[MCQ] Why?"}, "field 'question': wanted two or more different options"),
        ({"question": "[MCQ] Why?\nA. a\nB. a"}, "field 'question': wanted two or more different options"),
        ({"time_start": None}, "field 'time_start': wanted seconds of 0 or more, got null"),
        ({"time_start": -1}, "field 'time_start': wanted seconds of 0 or more, got -1"),
        ({"time_start": 9, "time_end": 12}, "the clip 9.0 to 12.0 s is empty in a segment of 6.00 s"),
        ({"time_start": 2, "time_end": 2}, "the clip 2.0 to 2.0 s is empty"),
        ({"question_type": None}, "field 'question_type': wanted a text"),
    ],
)
def test_a_wrong_question_is_rejected_alone(root: Path, fields: dict[str, object], reason: str) -> None:
    change(root, **fields)
    (reject,) = read(root).rejects
    assert reason in str(reject)
    assert KIDNEY not in str(reject)
    assert len(read(root).questions) == 11


@pytest.mark.parametrize("keep", ["true", 1, False, None])
def test_only_a_true_keep_is_kept(root: Path, keep: object) -> None:
    change(root, keep=keep)
    assert len(read(root).questions) == 11


def test_missing_videos_reject_their_questions_and_are_listed(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (root / "videos" / "exampleClip0.dcm").unlink()
    table = read(root)
    assert (len(table.questions), len(table.rejects)) == (8, 4)
    assert main(["prepare", "rexsonovqa", "--from", str(root), "--list-missing"]) == 0
    assert capsys.readouterr().out == "videos/exampleClip0.mp4\thttps://www.youtube.com/watch?v=exampleClip0\n"


@pytest.mark.parametrize(
    ("fields", "start", "box"),
    [
        ({"roi": {"x": 3, "y": 2, "w": 21, "h": 9}}, 1.25, Box(2, 2, 22, 10)),
        ({"roi": None}, 1.25, None),
        ({"start_time": 0, "end_time": 0}, 0, Box(16, 4, 48, 36)),
    ],
)
def test_older_spellings_of_the_metadata(root: Path, fields: dict[str, object], start: float, box: Box | None) -> None:
    change_metadata(root, **fields)
    ref = next(ref for (ref,) in read(root).media.values() if "Clip0" in ref.path.name)
    assert (ref.start_s, ref.region) == (start, box)


def test_time_offset_is_the_older_name_of_the_start(root: Path) -> None:
    entries = json.loads((root / rexsonovqa.METADATA).read_text())
    entries[KIDNEY] = {"youtube_url": "https://youtu.be/exampleClip0?t=3", "time_offset": 1.5}
    (root / rexsonovqa.METADATA).write_text(json.dumps(entries))
    ref = next(ref for (ref,) in read(root).media.values() if "Clip0" in ref.path.name)
    assert (ref.start_s, ref.end_s) == (1.5, 3.5)


def test_a_region_outside_of_the_frame_is_rejected_and_names_no_file(root: Path) -> None:
    change_metadata(root, roi={"x": 70, "y": 0, "w": 9, "h": 9})
    table = read(root)
    assert len(table.rejects) == 4
    assert all("not in a frame of 64 x 40" in reject.reason for reject in table.rejects)


@pytest.mark.parametrize(
    ("text", "message"), [("{", "not as released"), ("[]", "not as released"), ('{"a": {}}', "not as released")]
)
def test_damaged_metadata_are_refused(root: Path, text: str, message: str) -> None:
    (root / rexsonovqa.METADATA).write_text(text)
    with pytest.raises(ValueError, match=message):
        read(root)


def test_a_folder_without_questions_is_refused(root: Path) -> None:
    shutil.rmtree(root / "benchmark_questions" / "free")
    with pytest.raises(ValueError, match=r"wanted questions in benchmark_questions/free"):
        read(root)


@pytest.fixture
def real(shared_real: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The authors' questions and metadata, with an empty file in place of each YouTube video."""
    monkeypatch.setattr(rexsonovqa, "_frame_size", lambda path: Size(1280, 720))
    folder = tmp_path / "real"
    shutil.copytree(shared_real / "rexsonovqa" / "benchmark_questions", folder / "benchmark_questions")
    shutil.copy(shared_real / "rexsonovqa" / rexsonovqa.METADATA, folder)
    for segment in read_segments(folder / rexsonovqa.METADATA).values():
        (folder / f"{segment.video}.mp4").touch()
    return folder


def test_real_questions_are_all_read_and_counted_as_by_the_authors(real: Path) -> None:
    table = read(real)
    assert table.rejects == ()
    assert table.missing == ()
    assert by(table, "format") == {"mcq": 249, "free": 265}
    for kind, numbers in (("mcq", (41, 98, 77, 33)), ("free", (44, 95, 88, 38))):
        found = Counter(q.facets["duration"] for q in table.questions if q.facets["format"] == kind)
        assert [found[name] for name in DURATION_BINS] == [*numbers]
    types = Counter((q.facets["format"], q.facets["task"][:5]) for q in table.questions)
    assert [types["mcq", f"Type{n}"] for n in (1, 2, 3)] == [103, 79, 67]
    assert [types["free", f"Type{n}"] for n in (1, 2, 3)] == [129, 57, 79]
    assert len({q.patient_id for q in table.questions}) == 35
    keys = Counter("ABCD"[q.options.index(q.answer)] for q in table.questions if q.options)
    assert keys == {"A": 110, "B": 52, "C": 43, "D": 44}
    assert "2 questions that end after their segment, and were cut there" in table.notes
    assert len(table.media) == 511


def test_real_list_of_what_to_fetch(real: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for file in real.glob("*.mp4"):
        file.unlink()
    assert main(["prepare", "rexsonovqa", "--from", str(real), "--list-missing"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(set(lines)) == 35
    assert all(line.startswith("videos/") and "\thttps://www.youtube.com/watch?v=" in line for line in lines)


def by(table: SourceTable, facet: str) -> dict[str, Any]:
    return dict(Counter(q.facets[facet] for q in table.questions))
