"""Every tiny twin through the whole command: zero-shot, a LoRA step, both readings, save, load, the same answers again.

On real breast ultrasound where it lies beside the checkout, else on the synthetic tree; those that take videos on
short clips as well; all twins in one process.
"""

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from medtune.benchmarks import find_source
from medtune.data.prepared.splits import Division, Fractions
from medtune.data.prepared.write import prepare
from medtune.trainer.commands.cli import main
from tests.examples import write_example
from tests.golden.files import shared_folder
from tests.models.twins import OF_IMAGES, OF_TRANSFORMERS, OF_VIDEOS
from tests.soak import in_suites

QUICK, SLOW = ("nano_qwen25vl",), ("nano_mllama",)
"""Positions on three axes; an image beside the row. Rows of several trees: tests/trainer/experiment/test_run.py."""
VIDEO_SLOW = ("nano_qwen25vl",)
"""A model of transformers; one of three modules trains on a video in tests/trainer/commands/test_score.py."""
TWINS = in_suites(OF_IMAGES, plain=QUICK, slow=SLOW)
VIDEO_TWINS = in_suites(OF_VIDEOS, slow=VIDEO_SLOW)


@pytest.fixture(scope="module")
def prepared_images(prepared_tiny: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    real = shared_folder() / "real" / "busi"
    if not real.is_dir():
        return prepared_tiny
    out = tmp_path_factory.mktemp("real") / "busi"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CONFIG_HOME", str(tmp_path_factory.getbasetemp() / "config"))
        prepare(find_source("busi"), benchmark="busi", root=real, out=out, limit=20)
    return out


@pytest.fixture(scope="module")
def prepared_clips(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Short clips, divided here because the benchmark's layout is for evaluation only.

    Real ones and a cine DICOM go to the report in tests/trainer/experiment/test_videos_and_scans.py.
    """
    folder = tmp_path_factory.mktemp("clips")
    write_example("rexsonovqa", folder / "raw")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CONFIG_HOME", str(tmp_path_factory.getbasetemp() / "config"))
        prepare(
            find_source("rexsonovqa"),
            benchmark="rexsonovqa",
            root=folder / "raw",
            out=folder / "prepared",
            division=Division(fractions=Fractions(0.4, 0.2, 0.4), unofficial="patient"),
        )
    return folder / "prepared"


@pytest.mark.parametrize("name", TWINS)
def test_run_and_evaluate_again(name: str, prepared_images: Path, tmp_path: Path) -> None:
    _run_and_evaluate_again(tmp_path, [f"model.name={name}", f"data.root={prepared_images}"])


@pytest.mark.parametrize("name", VIDEO_TWINS)
def test_run_and_evaluate_again_on_clips(name: str, prepared_clips: Path, tmp_path: Path) -> None:
    settings = [f"model.name={name}", f"data.root={prepared_clips}", "data.benchmark=rexsonovqa"]
    if name in OF_TRANSFORMERS:
        settings.append("model.video_frames=4")
    _run_and_evaluate_again(tmp_path, [*settings, "model.answer_format=letter"])


def _run_and_evaluate_again(folder: Path, about: Sequence[str]) -> None:
    run, again = folder / "run", folder / "again"
    settings = [
        *about, "log.wandb=disabled", "train.max_steps=1", "train.batch_size=2", "eval.every_steps=1",
        "eval.val_questions=2", "eval.max_new_tokens=2",
    ]  # fmt: skip
    assert main(["run", "nano_busi_lora", "--out", str(run), "--limit", "4", "--set", *settings]) == 0
    results = json.loads((run / "results.json").read_text())
    assert set(results["phases"]) == {"zero_shot", "final"}
    assert f"model.name={results['model']}" in about
    before, after = _predictions(run / "zero_shot"), _predictions(run / "final")
    seeing = {("likelihood", "image"), ("generation", "image")}
    assert {(p["reading"], p["condition"]) for p in before} == seeing
    assert {*seeing, ("likelihood", "text_only")} <= {(p["reading"], p["condition"]) for p in after}
    weights = run / "checkpoints" / "best.safetensors"
    arguments = ["eval", "nano_busi_lora", "--out", str(again), "--limit", "4"]
    assert main([*arguments, "--set", *settings, f"model.checkpoint={weights}"]) == 0
    assert _predictions(again / "final") == after
    assert [p for p in after if p["condition"] == "image"] != before, "the step changed nothing"


@pytest.mark.soak
def test_cold_process(prepared_tiny: Path) -> None:
    arguments = ["validate", "nano_busi_lora", "--set", "model.name=nano_mllama", f"data.root={prepared_tiny}"]
    done = subprocess.run(
        [sys.executable, "-m", "medtune", *arguments], capture_output=True, text=True, check=False, timeout=500
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert "(1 visual tokens)" in done.stdout


def _predictions(folder: Path) -> list[dict[str, object]]:
    rows = [json.loads(line) for line in (folder / "predictions.jsonl").read_text().splitlines()]
    return sorted(rows, key=lambda row: json.dumps(row, sort_keys=True))
