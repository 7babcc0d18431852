"""Tests that the hours count what a real run does, and that the probe leaves nothing behind."""

import csv
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from itertools import count
from pathlib import Path

import pytest
import torch
import torch.distributed as dist

from medtune.data.types import MediaGroup, Prediction, PredictionKey, Request
from medtune.eval.asking.plan import prediction_key
from medtune.eval.predictions.shards import stored_predictions
from medtune.models.answering import LocalAnswerer
from medtune.trainer.commands.cli import main
from medtune.trainer.commands.validate_hours import hours_table
from medtune.trainer.experiment.open_data import open_data
from medtune.trainer.hours import probe as probing
from medtune.trainer.hours.probe import Hours, probe
from medtune.trainer.plan.devices import this_machine
from medtune.trainer.recipe.read import read_recipe
from medtune.trainer.training.lightning_module import FineTuning
from tests.trainer.conftest import QUICK, Nano


@pytest.fixture
def own_tmp(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder for temporary files; wandb keeps empty folders there until its process ends."""
    folder = tmp_path / "tmp"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


def ticking() -> Callable[[], float]:
    """Returns a clock that ticks once each time that it is read."""
    ticks: Iterator[int] = count()
    return lambda: float(next(ticks))


def probed(root: Path, *overrides: str) -> Hours:
    recipe = read_recipe("nano_busi_lora", [f"data.root={root}", *QUICK, *overrides])
    return probe(open_data(recipe, training=True), size=2, clock=ticking())


def counts(hours: Hours) -> dict[str, dict[str, int]]:
    return {row.name: dict(row.counts) for row in hours.rows}


CONDITIONS = ("eval.conditions=[image,text_only,other_image]", "train.max_steps=5", "train.save_every_steps=1")


def test_the_hours_count_what_the_run_does(nano: Nano, prepared_tiny: Path, tmp_path: Path, own_tmp: Path) -> None:
    run = tmp_path / "run"
    assert nano.here("run", run, *CONDITIONS) == 0
    counted = counts(probed(prepared_tiny, *CONDITIONS))
    for phase, folder in (("zero-shot", run / "zero_shot"), ("final", run / "final")):
        said = stored_predictions(folder)
        assert counted[phase]["answers"] == len(said)
        assert counted[phase]["questions"] == len({key.question_id for key in said})
    validations = sorted((run / "validation").iterdir())
    assert counted["validations"]["validations"] == len(validations) == 3
    assert counted["validations"]["answers"] == len(stored_predictions(validations[0]))
    with (run / "metrics.csv").open(newline="") as file:
        steps = [row["step"] for row in csv.DictReader(file) if row.get("train/loss")]
    assert counted["training"]["steps"] == len(steps) == 5
    assert counted["training"]["further states"] == 2, "after steps 1 and 3, which no validation follows"


def test_the_probe_leaves_nothing_behind(
    prepared_tiny: Path, tmp_path: Path, own_tmp: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    before, files = dict(os.environ), sorted(prepared_tiny.rglob("*"))
    deterministic = torch.are_deterministic_algorithms_enabled()
    assert (
        main(
            [
                "validate",
                "nano_busi_lora",
                "--probe",
                "--probe-size",
                "2",
                "--set",
                f"data.root={prepared_tiny}",
                *QUICK,
                "train.strategy=fsdp",
            ]
        )
        == 0
    )
    assert dict(os.environ) == before
    assert not dist.is_initialized()
    assert torch.are_deterministic_algorithms_enabled() == deterministic
    assert torch.is_autocast_cache_enabled()
    assert sorted(prepared_tiny.rglob("*")) == files
    assert list(tmp_path.iterdir()) == [own_tmp], "nothing in the working directory"
    assert not list(own_tmp.glob("medtune-probe-*"))


@pytest.mark.slow
def test_volumes_of_the_probe_are_cached_elsewhere(prepared_ct: Path, own_tmp: Path) -> None:
    """A run fills the cache of the prepared folder; the probe must not, or the run would find it half full."""
    files = sorted(prepared_ct.rglob("*"))
    recipe = read_recipe("nano_ct_lora", [f"data.root={prepared_ct}", "log.wandb=disabled", "eval.batch_size=1"])
    hours = probe(open_data(recipe, training=True), size=2, clock=ticking())
    assert sorted(prepared_ct.rglob("*")) == files
    assert not list(own_tmp.glob("medtune-probe-*"))
    assert {"zero-shot", "training", "validations", "final", "audit"} == set(counts(hours))


def test_the_probe_trains_and_asks_no_more_than_it_says(
    prepared_tiny: Path, own_tmp: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    passes, told = list[int](), list[PredictionKey]()
    step, answer = FineTuning.training_step, LocalAnswerer.answer

    def noted_step(self: FineTuning, batch: object, number: int) -> object:
        passes.append(number)
        return step(self, batch, number)  # type: ignore[arg-type]

    def noted_answer(self: LocalAnswerer, group: MediaGroup, requests: Sequence[Request]) -> Iterator[Prediction]:
        told.extend(map(prediction_key, requests))
        return answer(self, group, requests)

    monkeypatch.setattr(FineTuning, "training_step", noted_step)
    monkeypatch.setattr(LocalAnswerer, "answer", noted_answer)
    hours = probed(prepared_tiny, "eval.batch_size=1", "train.max_steps=300")
    said = {row.name: row.measured for row in hours.rows}
    assert "4 steps behind 4 others" in said["training"]
    assert len(passes) == 8 * 2, "two forward passes a step"
    assert "2 groups, behind 1 others" in said["zero-shot"]
    shown = {key for key in told if key.condition == "text_only"}
    assert len(shown) <= hours.rows[-2].counts["answers"] // 3
    assert len(told) < sum(row.counts.get("answers", 0) for row in hours.rows)


@pytest.mark.slow
def test_several_devices_share_the_work_as_in_a_run(prepared_tiny: Path, own_tmp: Path) -> None:
    alone, four = probed(prepared_tiny), probed(prepared_tiny, "train.devices=2", "train.nodes=2")
    for phase in ("zero-shot", "final"):
        groups = counts(alone)[phase]["groups"]
        assert counts(four)[phase]["groups a device"] == -(-groups // 4)
        assert counts(four)[phase]["questions"] == counts(alone)[phase]["questions"]
    assert counts(four)["training"]["steps"] == counts(alone)["training"]["steps"]
    table = hours_table(four, this_machine())
    assert "counted for each of 4 devices like it" in table
    assert "what the devices exchange" in table
    assert "exchange" not in hours_table(alone, this_machine())


@pytest.mark.slow
def test_the_same_seed_measures_the_same_work(prepared_tiny: Path, own_tmp: Path) -> None:
    """With a clock that counts its readings, the whole table is the same."""
    assert probed(prepared_tiny) == probed(prepared_tiny)


def test_a_missing_file_is_named(prepared_tiny: Path, own_tmp: Path, tmp_path: Path) -> None:
    copied = tmp_path / "copied"
    shutil.copytree(prepared_tiny, copied)
    for file in (copied / "media").iterdir():
        file.unlink()
    with pytest.raises(FileNotFoundError, match=str(copied)):
        probed(copied)
    assert not list(own_tmp.glob("medtune-probe-*"))
    assert probing.LEAST_SIZE == 2
