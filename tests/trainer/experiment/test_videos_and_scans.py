"""Tests the real questions of ReXSonoVQA up to the report, on simulated videos that have the real lengths."""

import json
import math
import shutil
from collections import Counter
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path

import av
import numpy as np
import pydicom
import pytest
import yaml
from av.video.frame import VideoFrame

from medtune.benchmarks.facets import DURATION_BINS
from medtune.benchmarks.rexsonovqa.segments import read_segments, segment_of
from medtune.benchmarks.rexsonovqa.sources import rexsonovqa
from medtune.data.media.videos.read import video_extent
from medtune.data.prepared.read import open_prepared
from medtune.trainer.commands.cli import main
from tests.data.media.videos.real_clips import CLIPS, write_release
from tests.examples import write_example
from tests.models.endpoint.chat_server import ChatServer, asked_text, completion, serving
from tests.trainer.conftest import Capture, Told, json_of

FRAMES = 5
"""Frames of the shortest clip of a video, of which the model looks at 4; it lasts from 0.42 s to 6.85 s."""
SETTINGS = (
    "model.name=nano_pocket_video",
    "model.answer_format=letter",
    "data.benchmark=rexsonovqa",
    "log.wandb=disabled",
    "eval.max_new_tokens=2",
    "eval.conditions=[image]",
)
# By clip duration, as the authors' script bins: below 5 s, 10 s, 20 s, and longer.
MCQ_BY_DURATION, FREE_BY_DURATION = (41, 98, 77, 33), (44, 95, 88, 38)
MCQ_TABLE = "Multiple choice by clip duration, percent right"
FREE_TABLE = "Free response by clip duration, mean of 0 to 2"


def write_video(path: Path, length_s: float, seed: int, *, fps: int = 12) -> None:
    rng = np.random.default_rng(seed)
    grey = rng.integers(0, 255, (16, 36, 64, 3), dtype=np.uint8)
    with av.open(str(path), "w") as container:
        stream = container.add_stream("libx264", rate=fps)
        stream.width, stream.height, stream.pix_fmt = 64, 36, "yuv420p"
        stream.codec_context.options = {"preset": "ultrafast", "crf": "40", "g": "24"}
        for number in range(int(length_s * fps) + 2):
            picture = VideoFrame.from_ndarray(grey[number % len(grey)], format="rgb24")
            picture.pts, picture.time_base = number, Fraction(1, fps)
            container.mux(stream.encode(picture))
        container.mux(stream.encode(None))


# That all real questions are read, and how long their clips are, is in tests/benchmarks/rexsonovqa/test_source.py.
@pytest.mark.soak
def test_real_questions_to_the_report(shared_real: Path, tmp_path: Path, capsys: Capture) -> None:
    raw, out, run = tmp_path / "raw", tmp_path / "prepared", tmp_path / "run"
    shutil.copytree(shared_real / "rexsonovqa" / "benchmark_questions", raw / "benchmark_questions")
    shutil.copy(shared_real / "rexsonovqa" / rexsonovqa.METADATA, raw)
    ends: dict[str, float] = {}
    segments = read_segments(raw / rexsonovqa.METADATA)
    for segment in segments.values():
        ends[segment.video] = max(ends.get(segment.video, 0), segment.end_s or 0)
    shortest: dict[str, float] = {}
    for file in (raw / "benchmark_questions").glob("*/*.json"):
        asked_about = segment_of(file.stem, segments)
        assert asked_about is not None
        lengths_s = [float(row["time_end"]) - float(row["time_start"]) for row in json_of(file)]
        shortest[asked_about.video] = min(shortest.get(asked_about.video, math.inf), *lengths_s)
    (raw / "videos").mkdir()
    for seed, (video, end_s) in enumerate(ends.items()):
        write_video(raw / "videos" / f"{video}.mp4", end_s, seed, fps=max(2, math.ceil(FRAMES / shortest[video])))
    assert main(["prepare", "rexsonovqa", "--from", str(raw), "--out", str(out)]) == 0
    manifest = open_prepared(out).manifest
    assert (sum(manifest.counts["test"].values()), manifest.num_patients["test"]) == (514, 35)
    assert dict(manifest.rejected) == {}
    settings = [f"data.root={out}", *SETTINGS]
    assert main(["eval", "nano_busi_lora", "--out", str(run), "--set", *settings]) == 0
    results = json_of(run / "results.json")
    phase = results["phases"]["zero_shot"]
    assert phase["overall"]["n"] == 249
    predictions = run / "zero_shot" / "predictions.jsonl"
    answers = [json.loads(line) for line in predictions.read_text().splitlines()]
    questions = {question.id: question for question in open_prepared(out).questions("test")}
    read = Counter((questions[each["question_id"]].facets["format"], each["reading"]) for each in answers)
    assert read == {("mcq", "likelihood"): 249, ("mcq", "generation"): 249, ("free", "generation"): 265}
    tables = {table["title"]: table["rows"] for table in phase["tables"]}
    asked = Counter(
        (questions[each["question_id"]].facets["format"], questions[each["question_id"]].facets["duration"])
        for each in answers
        if each["reading"] == "generation"
    )
    for kind, numbers in (("mcq", MCQ_BY_DURATION), ("free", FREE_BY_DURATION)):
        assert tuple(asked[kind, name] for name in DURATION_BINS) == numbers
    rows = tables[MCQ_TABLE]
    assert [(name, n) for name, n, _ in rows] == list(zip(DURATION_BINS, MCQ_BY_DURATION, strict=True))
    # No judge has read them: only a reply that says nothing has points, and the others are counted.
    free = tables[FREE_TABLE]
    assert phase["unscored"] + sum(n for _, n, _ in free) == sum(FREE_BY_DURATION)
    assert "ReXSonoVQA" in (run / "report.html").read_text("utf-8")
    capsys.readouterr()
    assert main(["score", "rexsonovqa", "--predictions", str(predictions), "--questions", str(out)]) == 0
    assert "Gemini 3 Pro" in capsys.readouterr().out


CONDITIONS = ("image", "text_only", "other_image", "blank_image", "shuffled_frames")


@pytest.mark.slow
def test_clips_and_cine_dicom_to_the_report(shared_real: Path, tmp_path: Path, capsys: Capture) -> None:
    raw, out, run, clips = tmp_path / "raw", tmp_path / "prepared", tmp_path / "run", shared_real / "ultrasound_clips"
    assert set(CLIPS) == {path.name for path in clips.iterdir()}
    write_release(raw, clips)
    assert main(["prepare", "rexsonovqa", "--from", str(raw), "--out", str(out)]) == 0
    prepared = open_prepared(out)
    assert (prepared.num_questions("test"), dict(prepared.manifest.rejected)) == (10, {})
    # The cine DICOM is kept without its header: frames and times, to the bit.
    (stored,) = {g.media[0].path for g in prepared.groups("test") if g.media[0].path.suffix == ".mkv"}
    cine = clips / "pydicom_us_cine_30f.dcm"
    assert len(video_extent(stored).times_s) == 30
    settings = [
        "model.name=nano_pocket_video", "model.answer_format=letter", "data.benchmark=rexsonovqa", f"data.root={out}",
        "log.wandb=disabled", f"eval.conditions=[{','.join(CONDITIONS)}]", "eval.max_new_tokens=4",
    ]  # fmt: skip
    assert main(["eval", "nano_busi_lora", "--out", str(run), "--set", *settings]) == 0
    phase = json_of(run / "results.json")["phases"]["zero_shot"]
    assert phase["overall"]["n"] == 5
    assert {MCQ_TABLE, FREE_TABLE} <= {table["title"] for table in phase["tables"]}
    assert set(phase["metrics"]) == set(CONDITIONS)
    free = phase["metrics"]["image"]["robust"]["rubric"]
    assert (free["n"] + free["unscored"], free["unparsable"] + free["unscored"]) == (5, 5)
    assert "ReXSonoVQA" in (run / "report.html").read_text("utf-8")
    answers = [json.loads(line) for line in (run / "zero_shot" / "predictions.jsonl").read_text().splitlines()]
    read = [each for each in answers if each["reading"] == "likelihood"]
    by_condition = {name: [a["option_logprobs"] for a in read if a["condition"] == name] for name in CONDITIONS}
    assert len({str(logprobs) for logprobs in by_condition.values()}) == len(CONDITIONS)
    capsys.readouterr()
    predictions = run / "zero_shot" / "predictions.jsonl"
    assert main(["score", "rexsonovqa", "--predictions", str(predictions), "--questions", str(out)]) == 0
    assert "Gemini 3 Pro" in capsys.readouterr().out
    header = pydicom.dcmread(cine, stop_before_pixels=True)
    named = {str(header.get(name, "")).encode() for name in ("PatientName", "PatientID", "StudyInstanceUID")}
    # A few letters turn up in compressed frames by chance.
    secrets = {name for name in named if len(name) >= 8}
    assert secrets
    for path in (*out.rglob("*"), *run.rglob("*")):
        assert not path.is_file() or not any(secret in path.read_bytes() for secret in secrets), path


@pytest.fixture
def chat() -> Iterator[ChatServer]:
    """A judge that accepts every answer whose reference is "Axial"."""
    with serving() as server:
        server.reply = lambda body: completion(
            json.dumps({"right": "Reference: Axial" in asked_text(body), "explanation": "."})
        )
        yield server


def test_from_tables_to_judged_answers(chat: ChatServer, tmp_path: Path, capsys: Capture, shown: Told) -> None:
    raw, out, run = tmp_path / "raw", tmp_path / "prepared", tmp_path / "run"
    write_example("m3d_vqa", raw)
    assert main(["prepare", "m3d_vqa", "--from", str(raw), "--out", str(out)]) == 0
    settings = [
        "model.name=nano_pocket_ct", "data.benchmark=m3d_vqa", f"data.root={out}", "log.wandb=disabled",
        "eval.readings=[generation]", "eval.conditions=[image]", "eval.max_new_tokens=4", "model.answer_format=letter",
    ]  # fmt: skip
    assert main(["eval", "nano_busi_lora", "--out", str(run), "--set", *settings]) == 0
    before = json_of(run / "results.json")["phases"]["zero_shot"]
    assert before["overall"]["n"] == 20
    assert set(before["by"]["task"]) == {"plane", "phase", "organ", "abnormality", "location"}
    free = before["metrics"]["image"]["robust"]["free_answers"]
    assert (free["value"], free["n"], free["unscored"]) == (None, 0, 20)
    judge = tmp_path / "judge.yaml"
    endpoint = {"base_url": chat.base_url, "model": "judge-1", "cache": str(tmp_path / "cache")}
    judge.write_text(yaml.safe_dump({"endpoint": endpoint}))
    assert main(["judge", str(run), "--judge", str(judge)]) == 0
    after = json_of(run / "results.json")["phases"]["zero_shot"]
    free = after["metrics"]["image"]["robust"]["free_answers"]
    assert (free["value"], free["n"], free["unparsable"], free["unscored"]) == (0.2, 20, 0, 0)
    assert after["overall"] == before["overall"]
    capsys.readouterr()
    predictions = run / "zero_shot" / "predictions.jsonl"
    assert "of 20" in shown(main(["score", "m3d_vqa", "--predictions", str(predictions), "--questions", str(out)]))
    scores = json_of(predictions.parent / "scores.json")
    assert {"robust", "official"} <= set(scores["metrics"]["image"])
