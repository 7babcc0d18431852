"""Tests that the plan advises only changes that the recipe and its model accept, and that fit."""

from dataclasses import replace
from functools import cache
from typing import NamedTuple

import pytest

from medtune.models.assemble import ZooEntry, zoo_entry
from medtune.trainer.plan.devices import GB, Devices, on_devices
from medtune.trainer.plan.missing import change_that_fits, is_accepted, missing_memory
from medtune.trainer.plan.plan import Plan, Planner, Sizes
from medtune.trainer.recipe.read import read_recipe
from medtune.trainer.recipe.schema import Recipe

SIZES = Sizes(row_tokens=200)


class Planned(NamedTuple):
    """A recipe on devices, and its plan."""

    recipe: Recipe
    entry: ZooEntry
    planner: Planner
    plan: Plan


@cache
def _planner(name: str) -> Planner:
    """Returns one planner for all tests: it rehearses a pass that several recipes share once."""
    return Planner(zoo_entry(name), SIZES)


def _planned(devices: Devices, *settings: str) -> Planned:
    recipe = on_devices(read_recipe("nano_busi_lora", settings), devices)
    entry, planner = zoo_entry(recipe.model.name), _planner(recipe.model.name)
    return Planned(recipe, entry, planner, planner.plan(recipe, devices))


def _card(size: float, count: int = 1) -> Devices:
    return Devices(count, "card", size / GB)


@pytest.mark.parametrize(
    ("settings", "change"),
    [
        (("train.precision=32-true",), "train.precision=bf16-mixed"),
        (("train.precision=bf16-mixed", "train.micro_batch_size=1"), "train.gradient_checkpointing=true"),
        (
            ("train.precision=bf16-mixed", "train.micro_batch_size=16", "train.gradient_checkpointing=true"),
            "train.micro_batch_size=1",
        ),
    ],
)
def test_the_first_change_that_fits_is_named_and_does_fit(settings: tuple[str, ...], change: str) -> None:
    # No answers are asked for in parallel, so that the training is the largest phase.
    settings = (*settings, "eval.batch_tokens=200", "eval.batch_size=1", "eval.readings=[likelihood]")
    before, after = (_planned(_card(1e9), *each) for each in (settings, (*settings, change)))
    assert after.plan.peak.total < before.plan.peak.total
    card = _card((before.plan.peak.total + after.plan.peak.total) / 2)
    assert not before.plan.fits(card)
    assert after.plan.fits(card)
    assert change_that_fits(before.recipe, before.entry, card, before.planner) == change
    said = missing_memory(before.plan, before.recipe, before.entry, card, before.planner) or ""
    assert said.endswith(f"Set {change}")
    assert before.plan.peak.name in said


def test_nothing_is_advised_where_nothing_fits() -> None:
    card = _card(1000)
    planned = _planned(card)
    assert change_that_fits(planned.recipe, planned.entry, card, planned.planner) is None
    said = missing_memory(planned.plan, planned.recipe, planned.entry, card, planned.planner) or ""
    assert "No single change of the recipe makes it fit" in said


def test_what_an_entry_or_the_recipe_refuses_is_not_accepted() -> None:
    recipe = read_recipe("nano_busi_lora", ["model.tuning.language.mode=full"])
    entry = zoo_entry("nano_pocket")
    model = entry.skeleton()
    in_4_bits = replace(recipe, model=replace(recipe.model, language_bits=4))
    assert is_accepted(recipe, entry, model)
    assert not is_accepted(in_4_bits, entry, model)


def test_small_models_need_no_gpu_and_large_ones_do() -> None:
    cpu = Devices(1, "CPU", 8.0, is_gpu=False)
    planned = _planned(cpu)
    assert missing_memory(planned.plan, planned.recipe, planned.entry, cpu, planned.planner) is None
    large = replace(planned.plan, parameters=7_000_000_000)
    said = missing_memory(large, planned.recipe, planned.entry, cpu, planned.planner) or ""
    assert "no GPU here" in said
