"""Tests the real clips and the cine DICOM of ../shared from their files to the report, with a tiny random model."""

import json
from pathlib import Path

import pydicom
import pytest

from medtune.data.media.videos.read import video_extent
from medtune.data.prepared.read import open_prepared
from medtune.trainer.commands.cli import main
from tests.data.media.videos.real_clips import CLIPS, write_release

CONDITIONS = ("image", "text_only", "other_image", "blank_image", "shuffled_frames")


@pytest.mark.slow
def test_clips_and_cine_dicom_to_the_report(
    shared_real: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
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
    phase = json.loads((run / "results.json").read_text())["phases"]["zero_shot"]
    assert phase["overall"]["n"] == 5
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
