"""Tests that the hours count what a real run does, and that the probe leaves nothing behind."""

import csv
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import count
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.distributed as dist

from medtune.data.media.volumes.cache import VolumeCache
from medtune.data.types import MediaGroup, Prediction, PredictionKey, Prompt, Question, Request
from medtune.eval.asking.plan import Visit, prediction_key
from medtune.eval.predictions.files import stored_predictions
from medtune.models.answering import LocalAnswerer
from medtune.models.volumes.volume_parts import VolumeInput
from medtune.models.weights.export import assemble_model
from medtune.trainer.commands.cli import main
from medtune.trainer.experiment.open_data import open_data
from medtune.trainer.hours import probe as probing
from medtune.trainer.hours.probe import Hours, probe
from medtune.trainer.hours.steps import StageTimes, Validated, of_one_device
from medtune.trainer.hours.validate_hours import hours_table
from medtune.trainer.hours.work import (
    Cost,
    Pieces,
    asking_of,
    choose,
    num_further_states,
    num_validations,
    together,
    volumes_from_files,
)
from medtune.trainer.plan.devices import this_machine
from medtune.trainer.recipe.read import read_recipe
from medtune.trainer.recipe.schema import Stage
from medtune.trainer.training.batches import stage_batches
from medtune.trainer.training.lightning_module import FineTuning
from medtune.trainer.training.mixture import stage_mixture
from medtune.trainer.training.sampling import AllGroups, EndlessRow, StepOrder
from medtune.trainer.training.stages import PlannedStage
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
    fields = [f"data.root={prepared_tiny}", *QUICK, "train.strategy=fsdp"]
    assert main(["validate", "nano_busi_lora", "--probe", "--probe-size", "2", "--set", *fields]) == 0
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


# Few large items, as where one scan has forty questions and most have one.
SIZES = [1] * 70 + [3] * 20 + [40] * 7


def estimates(sizes: list[int], *, in_piece: int, pieces: int) -> tuple[list[float], list[bool]]:
    """Returns the estimated mean for each of many seeds, and whether the interval held the true one."""
    true, found, held = float(np.mean(sizes)), [], []
    for seed in range(400):
        chosen = choose(sizes, in_piece=in_piece, pieces=pieces, seed=seed)
        took = tuple(float(sum(sizes[place] for place in piece)) for piece in chosen.pieces)
        units = tuple(map(len, chosen.pieces))
        unit = Pieces(took, units, sum(units) / len(sizes)).unit
        found.append(unit.seconds)
        held.append(abs(unit.seconds - true) <= unit.half_s)
    return found, held


def test_the_mean_over_all_items_is_estimated_without_bias() -> None:
    found, held = estimates(SIZES, in_piece=5, pieces=4)
    error = float(np.std(found)) / len(found) ** 0.5
    assert abs(np.mean(found) - np.mean(SIZES)) < 3 * error
    assert np.mean(held) > 0.9
    # As many items from the beginning of the data would be 3.8 times too cheap.
    assert np.mean(SIZES[:20]) < 0.3 * np.mean(SIZES)


def test_the_warm_up_is_no_cheaper_than_the_rest() -> None:
    """It is left out, so that a warm-up of the smallest items would make the estimate too high."""
    warm = [
        np.mean([SIZES[place] for place in choose(SIZES, in_piece=5, pieces=3, seed=seed).warm_up])
        for seed in range(400)
    ]
    assert abs(np.mean(warm) - np.mean(SIZES)) < 3 * np.std(warm) / len(warm) ** 0.5


def test_no_item_is_measured_twice_and_a_seed_decides() -> None:
    chosen = choose(SIZES, in_piece=5, pieces=4, seed=3)
    places = [*chosen.warm_up, *(place for piece in chosen.pieces for place in piece)]
    assert len(places) == len(set(places)) == 25
    assert choose(SIZES, in_piece=5, pieces=4, seed=3) == chosen != choose(SIZES, in_piece=5, pieces=4, seed=4)


@pytest.mark.parametrize("number", [0, 1, 7, 20])
def test_few_items_are_all_measured_once_without_an_interval(number: int) -> None:
    chosen = choose([1] * number, in_piece=5, pieces=3, seed=0)
    assert [place for piece in chosen.pieces for place in piece] == list(range(number))
    whole = Pieces(tuple(map(float, map(len, chosen.pieces))), tuple(map(len, chosen.pieces)), 1.0)
    assert whole.all(number) == Cost(float(number), 0.0)


def test_the_interval_is_that_of_t_and_narrows_with_the_share_that_was_measured() -> None:
    """The reference is scipy's interval of a mean."""
    from scipy import stats

    took = (3.0, 5.0, 4.0, 8.0)
    low, high = stats.t.interval(0.95, 3, loc=np.mean(took), scale=stats.sem(took))
    unit = Pieces(took, (1, 1, 1, 1)).unit
    assert (unit.seconds - unit.half_s, unit.seconds + unit.half_s) == pytest.approx((low, high))
    assert Pieces(took, (1, 1, 1, 1), 0.75).unit.half_s == pytest.approx(unit.half_s / 2)


def test_whole_phases_add_without_an_interval() -> None:
    assert together([Cost(3.0), Cost(4.0)]) == Cost(7.0, 0.0)


def times(first: tuple[float, ...], again: tuple[float, ...], from_files: tuple[int, int]) -> StageTimes:
    once = (1,) * len(first)
    return StageTimes(0.0, Pieces(first, once), Pieces(again, once), from_files, (Validated(), Validated()))


def test_volumes_from_files_cost_what_the_cache_saves() -> None:
    """A step takes 2 s, and 3 s for each volume from a file; the first steps read two, the others none."""
    measured = times((8.0, 8.0, 8.0), (2.0, 2.0, 2.0), (6, 0))
    assert measured.all(10, from_files=7).seconds == pytest.approx(10 * 2 + 7 * 3)
    assert measured.all(10, from_files=0).seconds == pytest.approx(20)


def test_changed_volumes_are_read_again_in_every_step() -> None:
    """One of two volumes is changed: the first steps read two from files, and the others one."""
    measured = times((8.0, 8.0), (5.0, 5.0), (4, 2))
    assert measured.all(10, from_files=10 + 4).seconds == pytest.approx(10 * 2 + 14 * 3)


def test_without_a_cache_all_steps_count_alike() -> None:
    measured = times((8.0, 6.0), (2.0, 4.0), (0, 0))
    assert measured.all(10, from_files=0) == Pieces((8.0, 6.0, 2.0, 4.0), (1, 1, 1, 1)).unit.times(10)


def test_a_cache_never_makes_a_step_dearer() -> None:
    assert times((2.0, 2.0), (3.0, 3.0), (4, 0)).all(10, from_files=20) == Cost(30.0)


def stage(steps: int, *, first_step: int = 0) -> PlannedStage:
    return PlannedStage(Stage("training", max_steps=steps), 1, first_step, is_last=True)


@pytest.mark.parametrize(("steps", "validations"), [(1, 1), (19, 1), (20, 1), (21, 2), (40, 2), (45, 3)])
def test_a_stage_is_validated_at_its_steps_and_its_end(steps: int, validations: int) -> None:
    assert num_validations(stage(steps), every_steps=20) == validations


def test_states_behind_validations_are_not_saved_twice() -> None:
    """Steps of the run are counted: 5 + 5 = 10, 15 and 20 are steps 5, 10 and 15 of the stage."""
    assert num_further_states(stage(16, first_step=5), every_steps=10, saved_every=5) == 2
    assert num_further_states(stage(16), every_steps=10, saved_every=None) == 0


@pytest.mark.parametrize(("batch", "micro", "world"), [(8, 8, 1), (8, 2, 3), (128, 4, 16), (6, 4, 2), (2, 8, 4)])
def test_one_device_does_what_rank_0_does(batch: int, micro: int, world: int) -> None:
    row = EndlessRow([AllGroups(50)], seed=0)
    order = StepOrder(row, batch, micro, world)
    run = Stage("training", max_steps=1, batch_size=batch, micro_batch_size=micro)
    mine = [len(order.micro_batch(0, number, rank=0)) for number in range(order.accumulate)]
    one = of_one_device(run, world_size=world)
    alone = StepOrder(row, one.batch_size, one.micro_batch_size, 1)
    assert [len(alone.micro_batch(0, number, rank=0)) for number in range(alone.accumulate)] == mine


def visit(group: MediaGroup, *conditions: str) -> Visit:
    asked = (
        Request(question, Prompt(question.text, ("a", "b"), "a"), "likelihood", condition)  # type: ignore[arg-type]
        for condition in conditions
        for question in group.questions
    )
    return Visit(group, tuple(asked))


def test_a_text_without_media_is_read_once_and_a_device_has_its_share() -> None:
    """Five images are asked the same two questions, with the image and without it."""
    groups = [
        MediaGroup(
            f"m{number}",
            (None,),  # type: ignore[arg-type]
            tuple(Question(f"q{number}{text}", f"m{number}", text, ("a", "b"), "a", "choice", "p") for text in "xy"),
        )
        for number in range(5)
    ]
    plan = [(visit(group, "image", "text_only"),) for group in groups]
    whole = asking_of(plan, world_size=1)
    assert (whole.questions, len(whole.requests), len(whole.mine), len(whole.texts)) == (10, 20, 5, 2)
    assert {request.condition for visits in whole.mine for each in visits for request in each.requests} == {"image"}
    half = asking_of(plan, world_size=2)
    assert (half.questions, len(half.requests), len(half.mine), len(half.texts)) == (10, 20, 3, 2)


def test_volumes_are_read_from_files_as_often_as_the_cache_gets_entries(prepared_ct: Path, tmp_path: Path) -> None:
    fields = [f"data.root={prepared_ct}", "train.batch_size=2", "train.micro_batch_size=2", "train.group_questions=3"]
    recipe = read_recipe("nano_ct_lora", fields)
    data = open_data(recipe, training=True)
    assembled = assemble_model(recipe.model.name, recipe.train.seed, recipe.model)
    assert isinstance(assembled.transform, VolumeInput)
    cached = replace(assembled, transform=replace(assembled.transform, cache=VolumeCache(tmp_path / "cache")))
    mixture = stage_mixture(recipe, recipe.stages[0], data.training_sets, limit=None)
    batches = stage_batches(mixture, recipe.stages[0], cached, world_size=1)
    entries = []
    for step in range(5):
        _ = batches[step]
        entries.append(len(list((tmp_path / "cache").iterdir())))
    assert [volumes_from_files(batches, range(end)) for end in range(1, 6)] == entries
    assert volumes_from_files(batches, range(2, 5)) == entries[4] - entries[1]
    assert entries[4] < 10, "groups of one volume come again"
    plain = stage_batches(mixture, recipe.stages[0], assembled, world_size=1)
    assert volumes_from_files(plain, range(5)) == 0
