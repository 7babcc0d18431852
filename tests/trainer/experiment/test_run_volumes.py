"""Tests a run on volumes: each is read once, trained on, audited with a blank scan, and shown in the report."""

import json
import os
import re
import signal
import time
from collections.abc import Collection
from pathlib import Path

import numpy as np
import pytest

from medtune.data.media.volumes import augment, cache
from medtune.data.media.volumes.augment import augment_volume
from medtune.data.types import Volume
from medtune.eval.results.metrics_file import read_metrics
from medtune.models.media_reader import MediaReader
from medtune.trainer.commands.cli import main
from medtune.trainer.experiment.evaluate import waiting_text
from medtune.trainer.launch.stop import INTERRUPTED
from medtune.trainer.series.grid import GRID
from tests.trainer.conftest import Capture, Curve, Nano, Told, json_of

QUICK = ("log.wandb=disabled", "train.max_steps=2", "train.batch_size=2", "eval.conditions=[image,text_only]")


def run(root: Path, out: Path, *overrides: str) -> int:
    return main(["run", "nano_ct_lora", "--out", str(out), "--set", f"data.root={root}", *QUICK, *overrides])


def evaluated(root: Path, out: Path, *overrides: str) -> set[bytes]:
    """Returns what the untrained model answers to a scan each."""
    settings = (f"data.root={root}", *QUICK, "eval.conditions=[image]", *overrides)
    assert main(["eval", "nano_ct_lora", "--out", str(out), "--set", *settings]) == 0
    return answers_before(out)


def answers_before(out: Path) -> set[bytes]:
    lines = (out / "zero_shot" / "predictions.jsonl").read_bytes().splitlines()
    found = {line for line in lines if json.loads(line)["condition"] == "image"}
    assert found
    return found


@pytest.fixture(scope="module")
def whole_run(prepared_ct: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("runs") / "run"
    assert run(prepared_ct, out) == 0
    return out


def test_run_trains_and_reports_by_lesion_size(whole_run: Path) -> None:
    results = json_of(whole_run / "results.json")
    assert results["model"] == "nano_pocket_ct"
    assert results["provenance"] == "synthetic"
    final = results["phases"]["final"]
    assert {"subtype", "organ", "diameter", "hu_contrast", "sex"} <= set(final["by"])
    assert "data:image/" in (whole_run / "report.html").read_text("utf-8")
    audit = json_of(whole_run / "audit.json")
    assert {"thumbnail_regression", "linear_probe"} <= {row["name"] for row in audit["rows"]}


def test_each_volume_is_prepared_once_also_where_processes_read_ahead(
    whole_run: Path, prepared_ct: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    volumes = {path.name for path in (prepared_ct / "media").iterdir()}
    kept = sorted(path.name for path in (prepared_ct / "cache").iterdir())
    assert 0 < len(kept) <= len(volumes)

    def refuse(*_: object) -> None:
        raise AssertionError("a volume was decoded again")

    # Forked processes have it too.
    monkeypatch.setattr(cache, "load_volume", refuse)
    assert run(prepared_ct, tmp_path / "again", "data.workers=2") == 0
    assert sorted(path.name for path in (prepared_ct / "cache").iterdir()) == kept
    again = (tmp_path / "again" / "final" / "predictions.jsonl").read_bytes()
    assert again == (whole_run / "final" / "predictions.jsonl").read_bytes()


def test_without_the_cache_nothing_is_kept_and_answers_are_the_same(
    whole_run: Path, prepared_ct: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError("the cache was asked")

    monkeypatch.setattr(cache.VolumeCache, "transformed", refuse)
    assert evaluated(prepared_ct, tmp_path / "run", "data.cache=false") == answers_before(whole_run)


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
    about = json_of(out / "environment.json")["trained_on"]
    found = re.search(r"(\d+) groups, \d+ questions, share 1\.000, move in (\d+), grey in (\d+)", about)
    assert found, about
    groups, *changeable = map(int, found.groups())
    assert all(0 < number < groups for number in changeable)


def test_a_scan_is_not_mirrored(prepared_ct: Path, tmp_path: Path, capsys: Capture) -> None:
    assert run(prepared_ct, tmp_path / "run", "data.augment=[mirror]") == 1
    assert "no image of ctlesionvqa may be changed so" in capsys.readouterr().err


def test_audit_shows_a_scan_of_air(whole_run: Path) -> None:
    assert main(["audit", str(whole_run)]) == 0
    rows = {row["name"] for row in json_of(whole_run / "audit.json")["rows"]}
    assert "blank_image" in rows


def test_organs_without_a_mask_are_refused(prepared_ct: Path, tmp_path: Path, capsys: Capture) -> None:
    assert run(prepared_ct, tmp_path / "run", "model.name=nano_nn_m3d_llama2", "model.vision=null",
               "model.projector=null", "model.crop_organs=[spline]") == 1  # fmt: skip
    assert "model.crop_organs" in capsys.readouterr().err


def test_a_model_of_images_and_videos_needs_to_be_told_how_to_show_a_scan(
    prepared_ct: Path, tmp_path: Path, capsys: Capture
) -> None:
    settings = [f"data.root={prepared_ct}", "log.wandb=disabled", "model.name=nano_gemma3", "model.vision=null",
                "model.projector=null", "eval.conditions=[image]"]  # fmt: skip
    arguments = ["eval", "nano_ct_lora", "--limit", "2", "--out"]
    assert main([*arguments, str(tmp_path / "refused"), "--set", *settings]) == 1
    assert "holds volumes; model.name nano_gemma3 reads images and videos only" in (said := capsys.readouterr().err)
    assert "or show this one slices (model.volumes_as)" in said
    shown = [*settings, "model.volumes_as=slices", "model.video_frames=3"]
    assert main([*arguments, str(tmp_path / "shown"), "--set", *shown]) == 0
    results = json_of(tmp_path / "shown" / "results.json")
    assert results["phases"]["zero_shot"]["overall"]["n"] >= 2


TWIN = ("model.name=nano_qwen3vl", "model.weights=null", "model.dtype=float32", "train.precision=32-true")


@pytest.mark.slow
def test_a_model_of_pictures_is_asked_on_crops_around_the_organs_of_the_question(
    prepared_ct: Path, tmp_path: Path, capsys: Capture
) -> None:
    own = ["--set", f"data.root={prepared_ct}", *QUICK, *TWIN, "model.video_frames=4", "eval.conditions=[image]",
           "eval.max_new_tokens=2"]  # fmt: skip
    assert main(["validate", "qwen3vl_4b_ctlesionvqa_organ_lora", *own]) == 0
    said = capsys.readouterr().out
    assert re.search(r"sees +volumes are cropped to their organs and 20 mm around: .*kidney_left \+ kidney_right", said)
    words = ["eval", "qwen3vl_4b_ctlesionvqa_organ_lora", "--out", str(tmp_path / "run"), "--limit", "4", *own]
    assert main(words) == 0
    assert json_of(tmp_path / "run" / "results.json")["phases"]["zero_shot"]["overall"]["n"] >= 4


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        ("model.crop_organs=[spline]", "has no mask of spline; it has masks of: colon, kidney_left"),
        ("model.crop_organs=['of construction: liver_lesion']", "has no mask of of construction: liver_lesion"),
        ("model.volumes_as=null", "model.crop_organs is set without model.volumes_as"),
        ("model.crop_organs=null model.crop_margin_mm=5", "is set without model.crop_organs"),
    ],
)
def test_crops_that_cannot_be_are_refused(setting: str, said: str, prepared_ct: Path, capsys: Capture) -> None:
    own = ["--set", f"data.root={prepared_ct}", *TWIN]
    settings = setting.split(" model") if " model" in setting else [setting]
    settings = [settings[0], *(f"model{rest}" for rest in settings[1:])]
    assert main(["validate", "qwen3vl_4b_ctlesionvqa_organ_lora", *own, *settings]) == 1
    assert said in capsys.readouterr().err


@pytest.mark.slow
def test_grid_makes_a_run_of_every_pair_and_a_table(
    prepared_ct: Path, tmp_path: Path, capsys: Capture, refused: Told, shown: Told
) -> None:
    own = tmp_path / "pairs.yaml"
    own.write_text(
        "extends: pocket_ct_ablation\nmodel: {name: nano_pocket_ct}\n"
        "grid: {model.vision: [vit3d], model.projector: [linear, coca]}\n",
        "utf-8",
    )
    settings = [f"data.root={prepared_ct}", "train.precision=32-true", "train.max_steps=2", "train.batch_size=2",
                "eval.readings=[likelihood]", "eval.conditions=[image]", "eval.val_questions=2"]  # fmt: skip
    arguments = ["run", str(own), "--out", str(tmp_path / "out"), "--limit", "12"]
    assert "nano_pocket_ct" in shown(main(["show", str(own)]))
    own.write_text(own.read_text("utf-8").replace("pocket_ct_ablation", "pocket_ct_lora"), "utf-8")
    assert main([*arguments, "--set", *settings]) == 0
    found = json_of(tmp_path / "out" / GRID)["runs"]
    assert [row["settings"]["model.projector"] for row in found] == ["linear", "coca"]
    for name in ("vit3d-linear", "vit3d-coca"):
        assert len(list((tmp_path / "out" / name / "wandb").glob("offline-run-*"))) == 1, "a W&B run of its own"
    table = capsys.readouterr().out
    for row in found:
        name = "-".join(row["settings"].values())
        gain = json_of(tmp_path / "out" / name / "results.json")["gain"]
        assert (row["gain"], row["permutation_p"]) == (gain["value"], gain["permutation_p"])
    assert "p (patients, Holm)" in table
    assert "projector" in table
    assert "visual reasoning" in table
    assert "grid" in refused(main(["train", str(own), "--set", *settings]))


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
    found = json_of(out / GRID)["runs"]
    assert len(found) == 20
    for row in found:
        assert row["loss"][1] < row["loss"][0], row["settings"]
        name = "-".join(row["settings"].values())
        assert sum(each.name == "train/loss" for each in read_metrics(out / name / "metrics.csv")) == 20


PHASES = ("zero_shot", "final")


def test_a_second_run_whose_processes_read_ahead_gives_the_same_to_the_bit(
    nano_run: Path, nano: Nano, tmp_path: Path, curve: Curve, capsys: Capture, shown: Told
) -> None:
    out = tmp_path / "ahead"
    capsys.readouterr()
    said = shown(nano.here("run", out, "data.workers=2"))
    for phase in PHASES:
        answers = (out / phase / "predictions.jsonl").read_bytes()
        assert answers == (nano_run / phase / "predictions.jsonl").read_bytes()
        for run in (nano_run, out):
            (share,) = curve(run, f"{phase}/waited_for_media")
            assert 0 < share < 1
        assert f"{phase.replace('_', '-')}: waited for media" in said
    for name in ("train/loss", "val/accuracy"):
        assert curve(out, name) == curve(nano_run, name)


def test_the_time_of_reading_is_the_time_of_waiting(
    nano: Nano, tmp_path: Path, curve: Curve, monkeypatch: pytest.MonkeyPatch
) -> None:
    following = MediaReader.next

    def slowly(reader: MediaReader) -> object:
        reader.waited_s += 1000.0
        return following(reader)

    monkeypatch.setattr(MediaReader, "next", slowly)
    assert nano.here("eval", tmp_path / "run", "eval.conditions=[image]") == 0
    assert curve(tmp_path / "run", "zero_shot/waited_for_media")[0] > 10
    assert nano.here("eval", tmp_path / "run", "eval.conditions=[image]", extra=("--resume",)) == 0


def test_the_message_says_how_to_wait_less() -> None:
    assert waiting_text(0.049, workers=0) == "waited for media 4.9 % of the time"
    assert waiting_text(0.5, workers=2).endswith("; more processes that read ahead (data.workers) would shorten that")


# Ctrl-C while a run trains, and while it answers without further processes, is in test_run.py.
@pytest.mark.slow
def test_a_signal_to_all_processes_stops_the_run_and_resumes_exactly(
    nano_run: Path, nano: Nano, tmp_path: Path
) -> None:
    out = tmp_path / "stopped"
    process = nano.process("run", out, "data.workers=2")
    shard = out / "zero_shot" / "predictions.rank0.jsonl"
    while not (shard.is_file() and shard.stat().st_size):
        assert process.poll() is None
        time.sleep(0.001)
    os.killpg(process.pid, signal.SIGTERM)
    said, _ = process.communicate(timeout=120)
    assert process.returncode == INTERRUPTED, said
    assert "worker" not in said
    with pytest.raises(ProcessLookupError):
        os.killpg(process.pid, 0)
    assert nano.here("run", out, "data.workers=2", extra=("--resume",)) == 0
    for phase in PHASES:
        mine, its = (answers(run / phase) for run in (out, nano_run))
        assert mine.keys() == its.keys()
        for key, (text, logprobs) in mine.items():
            # What was left is read in other batches, whose padding moves the last digit of a float32 of 67, 8e-6.
            assert text == its[key][0]
            assert logprobs == pytest.approx(its[key][1], abs=5e-5)


def answers(phase: Path) -> dict[tuple[str, ...], tuple[str | None, list[float]]]:
    """Returns the reply and the log-probabilities of the options of each prediction, by what it answers."""
    rows = [json.loads(line) for line in (phase / "predictions.jsonl").read_text().splitlines()]
    return {
        (row["question_id"], row["condition"], row["reading"]): (row["text"], row["option_logprobs"] or [])
        for row in rows
    }
