"""Tests that a training with divided weights equals one device: losses, gradient norms and what is learnt."""

import os
import time
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
import torch
import torch.distributed as dist
from torch._C._distributed_c10d import TCPStore

from medtune.models.assemble import zoo_entry
from medtune.models.nano.transformers_vlm import write_nano
from medtune.models.tuning.apply import adapt
from medtune.models.tuning.plan import Lora, PartTuning
from medtune.models.weights.loading_options import Loading
from medtune.trainer.commands.cli import main
from medtune.trainer.devices.ranks import barrier, join_ranks
from medtune.trainer.experiment.open_data import cannot_divide
from medtune.trainer.recipe.read import read_recipe
from medtune.trainer.recipe.schema import StrategyName
from tests.models.transformers_vlm.test_relatives import RELATIVES
from tests.ranks import run_ranks, torchrun_environment
from tests.trainer.conftest import Curve, weights_apart
from tests.trainer.devices.divided import FULL, LORA, Case, Course, trained, trained_in_rank

FAMILIES = tuple(
    Case(name, LORA)
    for name in ("nano_mllama", "nano_qwen25vl", "nano_ct_chat", "nano_llava", "nano_gemma3", "nano_radfm")
)
FEW = (FAMILIES[2], Case("nano_llava", FULL))
"""Volumes, and a vision layer that no answer depends on.

It gets no gradient: on one device neither weight decay nor moments touch it. Positions on three axes are in
tests/trainer/losses, and an image beside the row is in a whole run (tests/trainer/devices/test_strategies.py).
"""


def _same_course(mine: Course, other: Course) -> None:
    assert len(mine.losses) == 3
    assert mine.losses == pytest.approx(other.losses, abs=1e-6)
    assert mine.norms == pytest.approx(other.norms, rel=1e-5)


def _same_weights(mine: Course, other: Course) -> None:
    assert mine.learnt.keys() == other.learnt.keys()
    worst = {name: float(abs(mine.learnt[name] - other.learnt[name]).max()) for name in mine.learnt}
    assert max(worst.values()) < 1e-4, max(worst, key=worst.__getitem__)


def _compare(cases: Sequence[Case], strategy: StrategyName) -> None:
    ranks = run_ranks(2, trained_in_rank, cases, strategy, timeout_s=500)
    for number, case in enumerate(cases):
        one = trained(case)
        for courses in ranks:
            assert courses[number].is_freed, f"{case.name}: the model is still in memory"
            _same_course(courses[number], one)
        # What is learnt is gathered by the first rank.
        _same_weights(ranks[0][number], one)


@pytest.mark.parametrize(
    "strategy",
    [
        "fsdp",
        # tests/trainer/devices/test_strategies.py takes the others through a whole run.
        pytest.param("deepspeed_stage_2", marks=pytest.mark.soak),
        pytest.param("deepspeed_stage_3", marks=pytest.mark.soak),
        # The slow suite has stage 2 on devices, and offloads in stage 3.
        pytest.param("deepspeed_stage_2_offload", marks=pytest.mark.soak),
        pytest.param("deepspeed_stage_3_offload", marks=pytest.mark.slow),
    ],
)
def test_two_ranks_learn_what_one_device_learns(strategy: StrategyName) -> None:
    _compare([Case("nano_pocket", LORA), Case("nano_pocket", FULL)], strategy)


@pytest.mark.parametrize(
    ("strategy", "cases"),
    [
        pytest.param("fsdp", FEW, marks=pytest.mark.slow, id="fsdp-few"),
        pytest.param("fsdp", FAMILIES, marks=pytest.mark.soak, id="fsdp"),
        pytest.param("deepspeed_stage_3", FAMILIES, marks=pytest.mark.soak, id="deepspeed_stage_3"),
    ],
)
def test_families_learn_with_a_share_of_the_weights_on_each_rank(strategy: StrategyName, cases: Sequence[Case]) -> None:
    _compare(cases, strategy)


@pytest.fixture
def experts(tmp_path: Path) -> Case:
    write_nano(RELATIVES["qwen3_vl_moe"](), tmp_path, seed=0)
    language = PartTuning("lora", lr=1e-2, lora=Lora(r=4, alpha=8.0, targets=".*"))
    return Case("auto", replace(LORA, language=language), loading=Loading(weights=str(tmp_path)))


@pytest.mark.soak
@pytest.mark.parametrize("strategy", ["ddp", "fsdp", "deepspeed_stage_2"])
def test_experts_learn_what_they_learn_on_one_device(strategy: StrategyName, experts: Case) -> None:
    _compare([experts], strategy)


def test_zero_3_is_refused_for_adapters_of_experts(experts: Case) -> None:
    recipe = read_recipe("nano_busi_lora", ["train.strategy=deepspeed_stage_3", "train.devices=2"])
    recipe = replace(recipe, model=replace(recipe.model, tuning=experts.tuning))
    model = zoo_entry("auto", experts.loading.weights).assemble(0, experts.loading).model
    before = cannot_divide(model, recipe)
    assert before is not None
    assert "ZeRO-3 cannot gather" in before
    adapt(model, [experts.tuning], seed=0)
    assert cannot_divide(model, recipe) == before
    assert cannot_divide(model, replace(recipe, train=replace(recipe.train, strategy="fsdp"))) is None


FULL_of_unused_parameters = (
    "model.tuning.vision.mode=full",
    "model.tuning.vision.lr=1e-3",
    "model.tuning.projector.mode=full",
)


def _train(rank: int, world_size: int, name: str, root: str, out: str) -> int:
    settings = (
        f"model.name={name}", f"data.root={root}", f"train.devices={world_size}", "train.max_steps=3",
        "train.batch_size=2", "train.micro_batch_size=1", "eval.every_steps=3", "eval.val_questions=2",
        "eval.max_new_tokens=2", "log.wandb=disabled", *FULL_of_unused_parameters,
    )  # fmt: skip
    return main(["train", "nano_busi_lora", "--out", out, "--set", *settings])


@pytest.mark.parametrize(
    "name",
    [pytest.param("nano_llava", marks=pytest.mark.slow), pytest.param("nano_llava_onevision", marks=pytest.mark.soak)],
)
def test_ddp_trains_a_tower_whose_last_layer_is_never_read(
    name: str, prepared_tiny: Path, tmp_path: Path, curve: Curve
) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    assert run_ranks(1, _train, name, str(prepared_tiny), str(one)) == [0]
    assert run_ranks(2, _train, name, str(prepared_tiny), str(two)) == [0, 0]
    assert len(curve(two, "train/loss")) == 3
    assert curve(two, "train/loss") == pytest.approx(curve(one, "train/loss"), abs=1e-5)
    assert curve(two, "train/gradient_norm") == pytest.approx(curve(one, "train/gradient_norm"), rel=1e-4)
    assert weights_apart(two, one) < 1e-5


def joined(rank: int, world_size: int) -> float:
    """Joins the ranks and returns the sum of their ranks."""
    join_ranks(world_size, torch.device("cpu"), timeout_minutes=0.2)
    total = torch.tensor([float(rank)])
    dist.all_reduce(total)
    barrier()
    return float(total)


def joined_late(rank: int, world_size: int) -> float:
    """Joins rank 1 a second after rank 0, however long either takes to start."""
    store = TCPStore("127.0.0.1", int(os.environ["MASTER_PORT"]), is_master=False, timeout=timedelta(seconds=60))
    if rank == 0:
        store.set("rank 0 joins", "")
    else:
        store.wait(["rank 0 joins"])
        time.sleep(1)
    return joined(rank, world_size)


@pytest.fixture
def server() -> TCPStore:
    """The store of torchrun's agent, in which the addresses of ended ranks stand until the launcher ends."""
    return TCPStore("127.0.0.1", 0, is_master=True, timeout=timedelta(seconds=60))


def _variables(server: TCPStore, attempt: int, rank: int) -> dict[str, str]:
    agent = {"TORCHELASTIC_USE_AGENT_STORE": "True", "TORCHELASTIC_RESTART_COUNT": str(attempt)}
    return {**torchrun_environment(rank, 2, server.port), **agent}


def test_a_second_attempt_does_not_meet_the_first(server: TCPStore) -> None:
    def one_machine(attempt: int, rank: int) -> dict[str, str]:
        return {**_variables(server, attempt, rank), "GROUP_WORLD_SIZE": "1"}

    assert run_ranks(2, joined, environment=lambda rank: one_machine(0, rank)) == [1.0, 1.0]
    first = set(server.list_keys())
    assert run_ranks(2, joined_late, environment=lambda rank: one_machine(1, rank)) == [1.0, 1.0]
    second = set(server.list_keys()) - first
    # What the ranks of an attempt tell each other has the same names in each, but for the attempt.
    assert any("attempt 0" in key for key in first)
    assert {key.replace("attempt 0", "attempt 1") for key in first if "attempt 0" in key} <= second


def test_without_a_name_the_next_attempt_reads_the_keys_of_the_first(server: TCPStore) -> None:
    """The control, and what happens on several machines, whose counts of attempts differ."""
    assert run_ranks(2, joined, environment=lambda rank: _variables(server, 0, rank)) == [1.0, 1.0]
    first = set(server.list_keys())
    assert first
    assert not any("attempt" in key for key in first)
