"""Real files of public sets through builder, nano model, scorer and report."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import PIL.Image
import pytest

from medtune.trainer.cli import main
from tests.data.sets.test_fpus23 import lay_out_real
from tests.data.sets.test_hc18 import draw_real_rows

QUICK = ("log.wandb=disabled", "eval.max_new_tokens=4", "eval.conditions=[image]")


def _draw_frames(fpus23: Path) -> None:
    """Replaces the linked frames, which are not at hand, by simulated ones: no two are equal."""
    for number, path in enumerate(sorted((fpus23 / "Dataset" / "four_poses").rglob("*.png"))):
        rng = np.random.default_rng(number)
        small_HW = rng.integers(0, 160, (39, 68)).astype(np.uint8)
        path.unlink()
        PIL.Image.fromarray(small_HW).resize((672, 389)).save(path, compress_level=1)


@pytest.fixture(scope="module")
def real_sets(shared_real: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("real")
    frame = root / "frame.png"
    PIL.Image.new("L", (672, 389), 60).save(frame)
    lay_out_real(shared_real, root / "fpus23", frame=frame, every=6)
    _draw_frames(root / "fpus23")
    draw_real_rows(shared_real, root / "hc18", count=12)
    (root / "busi").symlink_to(shared_real / "busi")
    (root / "pbf_us1").symlink_to(shared_real / "phantom_planes")
    return root


def _chosen(real_sets: Path, folder: Path, *names: str) -> Path:
    folder.mkdir()
    for name in names:
        (folder / name).symlink_to(real_sets / name)
    return folder


@pytest.mark.slow
@pytest.mark.parametrize(
    ("benchmark", "names", "tasks"),
    [
        (
            "fetal_gauge",
            ("fpus23", "hc18", "pbf_us1"),
            {"plane_identification", "fetal_orientation", "visual_grounding"},
        ),
        ("u2_bench", ("busi", "fpus23", "hc18"), {"DD", "LL", "VRA", "OD", "CVE", "CG"}),
    ],
)
def test_public_sets_to_the_report(
    real_sets: Path, tmp_path: Path, benchmark: str, names: tuple[str, ...], tasks: set[str]
) -> None:
    raw, out, run = _chosen(real_sets, tmp_path / "raw", *names), tmp_path / "prepared", tmp_path / "run"
    source = f"{benchmark}_rebuilt"
    assert main(["prepare", benchmark, "--source", source, "--from", str(raw), "--out", str(out)]) == 0
    manifest = json.loads((out / "manifest.json").read_text())
    assert manifest["provenance"] == "reconstruction"
    assert tasks <= {task for counts in manifest["counts"].values() for task in counts}
    settings = [f"data.benchmark={benchmark}", f"data.root={out}", *QUICK]
    assert main(["eval", "nano_busi_lora", "--out", str(run), "--limit", "40", "--set", *settings]) == 0
    results = json.loads((run / "results.json").read_text())
    assert results["provenance"] == "reconstruction"
    replies = (run / "zero_shot" / "predictions.jsonl").read_text("utf-8").splitlines()
    # The overall score leaves questions for a value out.
    assert len({json.loads(reply)["question_id"] for reply in replies}) >= 40
    assert "reconstruction" in (run / "report.html").read_text("utf-8")
    if benchmark == "fetal_gauge":
        assert set(results["stages"]["zero_shot"]["by"]["task"]) <= tasks
    assert (
        main(
            [
                "score",
                benchmark,
                "--predictions",
                str(run / "zero_shot" / "predictions.jsonl"),
                "--questions",
                str(out),
            ]
        )
        == 0
    )
