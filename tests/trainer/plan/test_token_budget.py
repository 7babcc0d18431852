"""Tests that the plan counts the passes of a training whose micro-batches are divided by tokens."""

from functools import cache

import pytest

from medtune.models.assemble import zoo_entry
from medtune.trainer.hours.steps import of_one_device
from medtune.trainer.plan.devices import GB, Devices
from medtune.trainer.plan.missing import change_that_fits
from medtune.trainer.plan.plan import Planner, Sizes
from medtune.trainer.recipe.read import read_recipe

BATCH = ("train.batch_size=16", "train.precision=bf16-mixed", "eval.batch_tokens=200", "eval.batch_size=1",
         "eval.readings=[likelihood]")  # fmt: skip
CARD = Devices(1, "card", 1e9)


@cache
def _planner(sizes: Sizes) -> Planner:
    """Returns one planner for all tests with these sizes: it rehearses a pass that several recipes share once."""
    return Planner(zoo_entry(read_recipe("nano_busi_lora", BATCH).model.name), sizes)


def _step(*settings: str, sizes: Sizes) -> float:
    plan = _planner(sizes).plan(read_recipe("nano_busi_lora", [*BATCH, *settings]), CARD)
    return next(phase.total for phase in plan.phases if phase.name == "training")


@pytest.mark.parametrize(("tokens", "groups"), [(800, 4), (999, 4), (100, 1), (100_000, 16)])
def test_a_budget_holds_as_many_of_the_longest_rows_as_fit(tokens: int, groups: int) -> None:
    sizes = Sizes(row_tokens=200)
    by_tokens = _step(f"train.micro_batch_tokens={tokens}", sizes=sizes)
    assert by_tokens == _step(f"train.micro_batch_size={groups}", sizes=sizes)
    assert by_tokens != _step(f"train.micro_batch_size={groups + 1}", sizes=sizes)


@pytest.mark.parametrize(("tokens", "least", "groups"), [(800, None, 4), (800, 50, 16), (800, 100, 8), (10, 50, 1)])
def test_the_media_of_the_shortest_groups_are_counted(tokens: int, least: int | None, groups: int) -> None:
    recipe = read_recipe("nano_busi_lora", [*BATCH, f"train.micro_batch_tokens={tokens}"])
    planner = _planner(Sizes(200, least_tokens=least))
    assert planner._groups_of_pass(recipe.stages[0]) == groups


def test_a_smaller_budget_is_advised_where_it_makes_the_training_fit() -> None:
    settings = ("train.micro_batch_tokens=3200", "train.gradient_checkpointing=true")
    recipe = read_recipe("nano_busi_lora", [*BATCH, *settings])
    planner = _planner(Sizes(row_tokens=200))
    half = read_recipe("nano_busi_lora", [*BATCH, *settings, "train.micro_batch_tokens=1600"])
    peaks = [planner.plan(each, CARD).peak.total for each in (recipe, half)]
    assert peaks[1] < peaks[0]
    card = Devices(1, "card", sum(peaks) / 2 / GB)
    assert change_that_fits(recipe, planner._entry, card, planner) == "train.micro_batch_tokens=1600"


def test_the_probe_of_one_device_takes_an_even_share() -> None:
    stage = read_recipe("nano_busi_lora", [*BATCH, "train.micro_batch_tokens=800"]).stages[0]
    assert of_one_device(stage, world_size=3).batch_size == 6
    assert of_one_device(stage, world_size=3).micro_batch_tokens == 800
