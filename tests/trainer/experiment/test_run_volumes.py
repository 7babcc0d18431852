"""Tests a run on volumes: each is read once, trained on, audited with a blank scan, and shown in the report."""

import csv
import json
import re
from collections.abc import Collection
from pathlib import Path

import numpy as np
import pytest

from medtune.data.media import augment
from medtune.data.media.volumes import cache
from medtune.data.media.volumes.geometry import augment_volume
from medtune.data.types import Volume
from medtune.trainer.commands.cli import main
from medtune.trainer.series import GRID

QUICK = ("log.wandb=disabled", "train.max_steps=2", "train.batch_size=2", "eval.conditions=[image,text_only]")


def run(root: Path, out: Path, *overrides: str) -> int:
    return main(["run", "nano_ct_lora", "--out", str(out), "--set", f"data.root={root}", *QUICK, *overrides])


@pytest.fixture(scope="module")
def whole_run(prepared_ct: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("runs") / "run"
    assert run(prepared_ct, out) == 0
    return out


def test_run_trains_and_reports_by_lesion_size(whole_run: Path) -> None:
    results = json.loads((whole_run / "results.json").read_text())
    assert results["model"] == "nano_pocket_ct"
    assert results["provenance"] == "synthetic"
    final = results["phases"]["final"]
    assert {"subtype", "organ", "diameter", "hu_contrast", "sex"} <= set(final["by"])
    assert "data:image/" in (whole_run / "report.html").read_text("utf-8")
    audit = json.loads((whole_run / "audit.json").read_text())
    assert {"thumbnail_regression", "linear_probe"} <= {row["name"] for row in audit["rows"]}


def test_each_volume_is_prepared_once(
    whole_run: Path, prepared_ct: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    volumes = {path.name for path in (prepared_ct / "media").iterdir()}
    kept = sorted(path.name for path in (prepared_ct / "cache").iterdir())
    assert 0 < len(kept) <= len(volumes)

    def refuse(*_: object) -> None:
        raise AssertionError("a volume was decoded again")

    monkeypatch.setattr(cache, "load_volume", refuse)
    assert run(prepared_ct, tmp_path / "again") == 0
    assert sorted(path.name for path in (prepared_ct / "cache").iterdir()) == kept
    again = (tmp_path / "again" / "final" / "predictions.jsonl").read_bytes()
    assert again == (whole_run / "final" / "predictions.jsonl").read_bytes()


def test_processes_read_ahead_from_the_cache_for_the_same_answers(
    whole_run: Path, prepared_ct: Path, tmp_path: Path
) -> None:
    assert run(prepared_ct, tmp_path / "run", "data.workers=2") == 0
    for phase in ("zero_shot", "final"):
        found = (tmp_path / "run" / phase / "predictions.jsonl").read_bytes()
        assert found == (whole_run / phase / "predictions.jsonl").read_bytes()


def test_without_the_cache_nothing_is_kept_and_answers_are_the_same(
    whole_run: Path, prepared_ct: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError("the cache was asked")

    monkeypatch.setattr(cache.VolumeCache, "transformed", refuse)
    assert run(prepared_ct, tmp_path / "run", "data.cache=false") == 0
    found = (tmp_path / "run" / "final" / "predictions.jsonl").read_bytes()
    assert found == (whole_run / "final" / "predictions.jsonl").read_bytes()


def test_changed_scans_are_learnt(prepared_ct: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Volume] = []

    def watch(volume: Volume, changes: Collection[str], *, rng: np.random.Generator) -> Volume:
        assert set(changes) <= {"move", "grey"}
        seen.append(volume)
        return augment_volume(volume, changes, rng=rng)

    monkeypatch.setattr(augment, "augment_volume", watch)
    out = tmp_path / "run"
    assert main(["train", "nano_ct_lora", "--out", str(out), "--set", f"data.root={prepared_ct}", *QUICK,
                 "data.augment=[move,grey]"]) == 0  # fmt: skip
    assert seen
    assert all(volume.target and set(volume.target) == set(volume.masks_IJK) for volume in seen)
    about = json.loads((out / "environment.json").read_text())["trained_on"]
    found = re.search(r"(\d+) groups, \d+ questions, share 1\.000, move in (\d+), grey in (\d+)", about)
    assert found, about
    groups, *changeable = map(int, found.groups())
    assert all(0 < number < groups for number in changeable)


def test_a_scan_is_not_mirrored(prepared_ct: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(prepared_ct, tmp_path / "run", "data.augment=[mirror]") == 1
    assert "no image of ctlesionvqa may be changed so" in capsys.readouterr().err


def test_audit_shows_a_scan_of_air(whole_run: Path) -> None:
    assert main(["audit", str(whole_run)]) == 0
    rows = {row["name"] for row in json.loads((whole_run / "audit.json").read_text())["rows"]}
    assert "blank_image" in rows


def test_organs_without_a_mask_are_refused(
    prepared_ct: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(prepared_ct, tmp_path / "run", "model.name=nano_nn_m3d_llama2", "model.vision=null",
               "model.projector=null", "model.crop_organs=[spline]") == 1  # fmt: skip
    assert "model.crop_organs" in capsys.readouterr().err


def test_a_model_of_images_and_videos_needs_to_be_told_how_to_show_a_scan(
    prepared_ct: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    settings = [f"data.root={prepared_ct}", "log.wandb=disabled", "model.name=nano_gemma3", "model.vision=null",
                "model.projector=null", "eval.conditions=[image]"]  # fmt: skip
    arguments = ["eval", "nano_ct_lora", "--limit", "2", "--out"]
    assert main([*arguments, str(tmp_path / "refused"), "--set", *settings]) == 1
    assert "holds volumes; model.name nano_gemma3 reads images and videos only" in (said := capsys.readouterr().err)
    assert "or show this one slices (model.volumes_as)" in said
    shown = [*settings, "model.volumes_as=slices", "model.video_frames=3"]
    assert main([*arguments, str(tmp_path / "shown"), "--set", *shown]) == 0
    results = json.loads((tmp_path / "shown" / "results.json").read_text())
    assert results["phases"]["zero_shot"]["overall"]["n"] >= 2


@pytest.mark.slow
def test_grid_makes_a_run_of_every_pair_and_a_table(
    prepared_ct: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    own = tmp_path / "pairs.yaml"
    own.write_text(
        "extends: pocket_ct_ablation\nmodel: {name: nano_pocket_ct}\n"
        "grid: {model.vision: [vit3d], model.projector: [linear, coca]}\n",
        "utf-8",
    )
    settings = [f"data.root={prepared_ct}", "train.precision=32-true", "train.max_steps=2", "train.batch_size=2"]
    arguments = ["run", str(own), "--out", str(tmp_path / "out"), "--limit", "12"]
    assert main(["show", str(own)]) == 0
    assert "nano_pocket_ct" in capsys.readouterr().out
    own.write_text(own.read_text("utf-8").replace("pocket_ct_ablation", "pocket_ct_lora"), "utf-8")
    assert main([*arguments, "--set", *settings]) == 0
    found = json.loads((tmp_path / "out" / GRID).read_text())["runs"]
    assert [row["settings"]["model.projector"] for row in found] == ["linear", "coca"]
    for name in ("vit3d-linear", "vit3d-coca"):
        assert len(list((tmp_path / "out" / name / "wandb").glob("offline-run-*"))) == 1, "a W&B run of its own"
    table = capsys.readouterr().out
    for row in found:
        name = "-".join(row["settings"].values())
        gain = json.loads((tmp_path / "out" / name / "results.json").read_text())["gain"]
        assert (row["gain"], row["permutation_p"]) == (gain["value"], gain["permutation_p"])
    assert "p (patients, Holm)" in table
    assert "projector" in table
    assert "visual reasoning" in table
    assert main(["train", str(own), "--set", *settings]) == 1
    assert "grid" in capsys.readouterr().err


@pytest.mark.soak
def test_every_pair_of_parts_learns_in_twenty_steps(prepared_ct: Path, tmp_path: Path) -> None:
    out = tmp_path / "grid"
    settings = [
        "model.name=nano_pocket_ct",
        f"data.root={prepared_ct}",
        "train.precision=32-true",
        "train.batch_size=2",
        "train.micro_batch_size=2",
    ]
    assert main(["run", "pocket_ct_ablation", "--out", str(out), "--limit", "4", "--set", *settings]) == 0
    found = json.loads((out / GRID).read_text())["runs"]
    assert len(found) == 20
    for row in found:
        assert row["loss"][1] < row["loss"][0], row["settings"]
        name = "-".join(row["settings"].values())
        with (out / name / "metrics.csv").open(newline="") as file:
            assert sum(bool(line.get("train/loss")) for line in csv.DictReader(file)) == 20
