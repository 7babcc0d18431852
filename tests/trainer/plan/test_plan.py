"""Tests that the plan advises only changes that the recipe and its model accept, and that fit."""

import shlex
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest
import torch

from medtune.data import catalog
from medtune.models.assemble import ZooEntry, zoo_entry
from medtune.models.contract import Model
from medtune.models.tuning.quantize import quantize_language, set_types
from medtune.models.weights.loading_options import DEFAULT, Loading
from medtune.trainer.commands.cli import main
from medtune.trainer.experiment.runnable import adapted_as_stages_say
from medtune.trainer.plan.devices import GB, Devices, on_devices
from medtune.trainer.plan.missing import change_that_fits, is_accepted, missing_memory, plan_table
from medtune.trainer.plan.plan import Plan, Planner, Sizes
from medtune.trainer.recipe.read import find_recipe, read_recipe
from medtune.trainer.recipe.schema import Recipe
from tests.ranks import Forked
from tests.soak import in_suites
from tests.trainer.conftest import QUICK, Nano

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


@pytest.mark.parametrize("settings", [(), ("model.language_bits=4",)], ids=str)
def test_a_model_that_is_there_already_is_planned_with_and_not_built_again(settings: tuple[str, ...]) -> None:
    devices = _card(8 * GB)
    recipe, entry = read_recipe("nano_busi_lora", settings), zoo_entry("nano_pocket")
    built: list[int] = []
    model = entry.skeleton(recipe.model)
    if settings:
        quantize_language(model, precision=recipe.train.precision, device=torch.device("meta"))
    adapted_as_stages_say(recipe, model)
    set_types(model, recipe.train.precision)

    def skeleton(loading: Loading = DEFAULT, /) -> Model:
        built.append(1)
        return entry.skeleton(loading)

    counting = replace(entry, skeleton=skeleton)
    alone = Planner(counting, SIZES).plan(recipe, devices)
    number = len(built)
    assert Planner(counting, SIZES, adapted=(recipe, model)).plan(recipe, devices) == alone
    assert len(built) - number == number - 1


def test_a_phase_of_which_a_part_is_not_known_may_fit() -> None:
    card = _card(1e12)
    planned = _planned(card)
    partly = replace(planned.plan, unknown=("the activations",))
    for plan, judged in ((planned.plan, "  fits: "), (partly, "  may fit: ")):
        of_phases = plan_table(plan, card, planned.recipe, SIZES).splitlines()[1 : len(plan.phases) + 1]
        assert all(judged in line for line in of_phases)


SHORT = ("train.max_steps=1", "eval.readings=[likelihood]", "eval.conditions=[image]", "eval.val_questions=2")
HEADERS = 0.1
"""The share that the names of the tensors take in files of tiny weights."""


def _plan(*settings: str) -> Plan:
    recipe = read_recipe("nano_busi_lora", [*QUICK, *SHORT, *settings])
    entry = zoo_entry(recipe.model.name)
    return Planner(entry, Sizes(20, 4)).plan(recipe, Devices(1, "CPU", 8.0, is_gpu=False))


def _weights(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.rglob("*.safetensors"))


@pytest.mark.parametrize("mode", ["lora", "full"])
def test_a_run_and_its_exports_take_what_is_planned(mode: str, nano: Nano, tmp_path: Path) -> None:
    run, setting = tmp_path / "run", f"model.tuning.language.mode={mode}"
    assert nano.here("train", run, *SHORT, setting) == 0
    plan = _plan(setting)
    # A third file is there while it is written.
    trained = plan.disk["trained weights (one while it is written)"] * 2 / 3
    adapter = plan.disk.get("adapter in PEFT's format (two while it is written)", 0) / 2
    assert (adapter > 0) == (mode == "lora")
    assert _weights(run / "checkpoints") == pytest.approx(trained + adapter, rel=HEADERS)
    for dtype, name in (("bfloat16", "merged in 16 bits"), ("float32", "in float32")):
        out = tmp_path / dtype
        assert main(["export", str(run), "--out", str(out), "--dtype", dtype, "--no-proof"]) == 0
        assert _weights(out) == pytest.approx(plan.export[name], rel=HEADERS)
    if mode == "lora":
        assert main(["export", str(run), "--out", str(tmp_path / "adapter"), "--adapter", "--no-proof"]) == 0
        assert _weights(tmp_path / "adapter") == pytest.approx(plan.export["--adapter"], rel=HEADERS)
    assert ("--adapter" in plan.export) == (mode == "lora")


COMMAND = "$ medtune validate "


def _tables(name: str) -> dict[str, list[str]]:
    """Returns the lines of each table in a recipe's header by the arguments of its command."""
    found: dict[str, list[str]] = {}
    arguments: str | None = None
    for line in find_recipe(name).read_text("utf-8").splitlines():
        inside = line.removeprefix("#").strip()
        if inside.startswith(COMMAND):
            arguments = inside.removeprefix(COMMAND)
            found[arguments] = []
        elif arguments is not None and line.startswith("#     "):
            found[arguments].append(inside)
        else:
            arguments = None
    return found


TABLES = [(name, arguments) for name in catalog.names(catalog.RECIPES) for arguments in _tables(name)]
IN_SLOW = [each for each in TABLES if each[1] == "radfm_ctlesionvqa --no-weights --devices 4xA6000-48GB"]
"""The one that is soonest planned."""


def test_the_recipes_that_the_plan_was_made_for_have_tables() -> None:
    devices = {(name, arguments.split("--devices ")[1].split()[0]) for name, arguments in TABLES}
    lora, full = "llama32_11b_fetal_gauge_lora", "llama32_11b_fetal_gauge_full"
    wanted = {(lora, "1xRTX4090-24GB"), (lora, "1xA100-40GB"), (lora, "1xA6000-48GB"), (full, "8xA100-80GB")}
    assert devices >= wanted | {("radfm_ctlesionvqa", "4xA6000-48GB"), ("radfm_ctlesionvqa", "8xA100-80GB")}


@pytest.mark.parametrize(("name", "arguments"), in_suites(TABLES, slow=IN_SLOW))
def test_a_table_is_what_validate_prints(name: str, arguments: str, tmp_path: Path) -> None:
    table = _tables(name)[arguments]
    assert len(table) > 5
    assert not any("does not fit" in line for line in table)
    # It ends with status 1, because the data are missing here, and nothing else.
    validating = Forked(["validate", *shlex.split(arguments)], folder=tmp_path)
    said = [line.strip() for line in validating.communicate(timeout=500)[0].splitlines()]
    assert [line.partition(":")[0] for line in said if line[:2] in ("1.", "2.", "3.")] == ["1. prepared data"]
    first = said.index(table[0])
    assert said[first : first + len(table)] == table


BATCH = ("train.batch_size=16", "train.precision=bf16-mixed", "eval.batch_tokens=200", "eval.batch_size=1",
         "eval.readings=[likelihood]")  # fmt: skip
CARD = Devices(1, "card", 1e9)


@cache
def _planner_of_token_budget(sizes: Sizes) -> Planner:
    """Returns one planner for all tests with these sizes: it rehearses a pass that several recipes share once."""
    return Planner(zoo_entry(read_recipe("nano_busi_lora", BATCH).model.name), sizes)


def _step(*settings: str, sizes: Sizes) -> float:
    plan = _planner_of_token_budget(sizes).plan(read_recipe("nano_busi_lora", [*BATCH, *settings]), CARD)
    return next(phase.total for phase in plan.phases if phase.name == "training")


BUDGETS = ((800, 4, 5), (999, 4, 5), (100, 1, 2), (100_000, 16, 15))


# What a budget above the batch holds is also test_a_pass_above_the_batch_is_counted_as_the_batch_that_it_is_cut_to.
@pytest.mark.parametrize(("tokens", "groups", "other"), in_suites(BUDGETS, plain=BUDGETS[:3]))
def test_a_budget_holds_as_many_of_the_longest_rows_as_fit(tokens: int, groups: int, other: int) -> None:
    sizes = Sizes(row_tokens=200)
    by_tokens = _step(f"train.micro_batch_tokens={tokens}", sizes=sizes)
    assert by_tokens == _step(f"train.micro_batch_size={groups}", sizes=sizes)
    assert by_tokens != _step(f"train.micro_batch_size={other}", sizes=sizes)


@pytest.mark.parametrize(("tokens", "least", "groups"), [(800, None, 4), (800, 50, 16), (800, 100, 8), (10, 50, 1)])
def test_the_media_of_the_shortest_groups_are_counted(tokens: int, least: int | None, groups: int) -> None:
    recipe = read_recipe("nano_busi_lora", [*BATCH, f"train.micro_batch_tokens={tokens}"])
    planner = _planner_of_token_budget(Sizes(200, least_tokens=least))
    assert planner._groups_of_pass(recipe.stages[0]) == groups


def test_a_pass_above_the_batch_is_counted_as_the_batch_that_it_is_cut_to() -> None:
    whole, above = (_step(f"train.micro_batch_size={size}", sizes=Sizes(row_tokens=200)) for size in (16, 64))
    assert whole == above


def test_a_smaller_budget_is_advised_where_it_makes_the_training_fit() -> None:
    settings = ("train.micro_batch_tokens=3200", "train.gradient_checkpointing=true")
    recipe = read_recipe("nano_busi_lora", [*BATCH, *settings])
    planner = _planner_of_token_budget(Sizes(row_tokens=200))
    half = read_recipe("nano_busi_lora", [*BATCH, *settings, "train.micro_batch_tokens=1600"])
    peaks = [planner.plan(each, CARD).peak.total for each in (recipe, half)]
    assert peaks[1] < peaks[0]
    card = Devices(1, "card", sum(peaks) / 2 / GB)
    assert change_that_fits(recipe, planner._entry, card, planner) == "train.micro_batch_tokens=1600"


def test_a_strategy_is_advised_with_an_optimizer_that_it_can_divide() -> None:
    cards = _card(1e9, count=2)
    settings = ("train.optimizer=adamw_8bit", "model.tuning.language.mode=full", "train.strategy=deepspeed_stage_3",
                "train.precision=bf16-mixed", "train.micro_batch_size=1", "train.gradient_checkpointing=true",
                "train.group_questions=1",
                "eval.batch_tokens=200", "eval.batch_size=1", "eval.readings=[likelihood]")  # fmt: skip
    before = _planned(cards, *settings)
    least = _planned(cards, *settings, "train.strategy=deepspeed_stage_3_offload", "train.optimizer=adamw")
    card = _card(least.plan.peak.total * 1.001, count=2)
    said = change_that_fits(before.recipe, before.entry, card, before.planner) or ""
    assert "train.optimizer=adamw" in said
