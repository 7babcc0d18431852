"""Tests the real questions of ReXSonoVQA up to the report, on simulated videos that have the real lengths."""

import json
import shutil
from collections import Counter
from fractions import Fraction
from pathlib import Path

import av
import numpy as np
import pytest
from av.video.frame import VideoFrame

from medtune.benchmarks.facets import DURATION_BINS
from medtune.benchmarks.rexsonovqa.sources import rexsonovqa
from medtune.data.prepared.read import open_prepared
from medtune.trainer.commands.cli import main

# The shortest clip lasts 0.42 s, and the model looks at 4 frames.
FPS = 12
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


def write_video(path: Path, length_s: float, seed: int) -> None:
    rng = np.random.default_rng(seed)
    grey = rng.integers(0, 255, (16, 36, 64, 3), dtype=np.uint8)
    with av.open(str(path), "w") as container:
        stream = container.add_stream("libx264", rate=FPS)
        stream.width, stream.height, stream.pix_fmt = 64, 36, "yuv420p"
        stream.codec_context.options = {"preset": "ultrafast", "crf": "40"}
        for number in range(int(length_s * FPS) + 2):
            picture = VideoFrame.from_ndarray(grey[number % len(grey)], format="rgb24")
            picture.pts, picture.time_base = number, Fraction(1, FPS)
            container.mux(stream.encode(picture))
        container.mux(stream.encode(None))


@pytest.mark.slow
def test_real_questions_to_the_report(shared_real: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    raw, out, run = tmp_path / "raw", tmp_path / "prepared", tmp_path / "run"
    shutil.copytree(shared_real / "rexsonovqa" / "benchmark_questions", raw / "benchmark_questions")
    shutil.copy(shared_real / "rexsonovqa" / rexsonovqa.METADATA, raw)
    ends: dict[str, float] = {}
    for segment in rexsonovqa.read_segments(raw / rexsonovqa.METADATA).values():
        ends[segment.video] = max(ends.get(segment.video, 0), segment.end_s or 0)
    (raw / "videos").mkdir()
    for seed, (video, end_s) in enumerate(ends.items()):
        write_video(raw / "videos" / f"{video}.mp4", end_s, seed)
    assert main(["prepare", "rexsonovqa", "--from", str(raw), "--out", str(out)]) == 0
    manifest = open_prepared(out).manifest
    assert (sum(manifest.counts["test"].values()), manifest.num_patients["test"]) == (514, 35)
    assert dict(manifest.rejected) == {}
    settings = [f"data.root={out}", *SETTINGS]
    assert main(["eval", "nano_busi_lora", "--out", str(run), "--set", *settings]) == 0
    results = json.loads((run / "results.json").read_text())
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
    rows = tables["Multiple choice by clip duration, percent right"]
    assert [(name, n) for name, n, _ in rows] == list(zip(DURATION_BINS, MCQ_BY_DURATION, strict=True))
    # No judge has read them: only a reply that says nothing has points, and the others are counted.
    free = tables["Free response by clip duration, mean of 0 to 2"]
    assert phase["unscored"] + sum(n for _, n, _ in free) == sum(FREE_BY_DURATION)
    assert "ReXSonoVQA" in (run / "report.html").read_text("utf-8")
    capsys.readouterr()
    assert main(["score", "rexsonovqa", "--predictions", str(predictions), "--questions", str(out)]) == 0
    assert "Gemini 3 Pro" in capsys.readouterr().out
