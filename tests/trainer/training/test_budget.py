"""Tests that a step's groups are divided by tokens: every group once, within the budget, evenly, with less padding."""

import os
import signal
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import lightning.pytorch as pl
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import load_file

from medtune.models.sequence.packing import spread
from medtune.trainer.commands.cli import main
from medtune.trainer.training.budget import TokenBudget, TokenOrder, dealt
from medtune.trainer.training.sampling import AllGroups, Draw, EndlessRow, ResumableOrder, StepOrder
from medtune.trainer.training.step_callbacks import StepLog
from tests.trainer.conftest import Capture, Curve, Nano

GROUPS = st.lists(st.lists(st.integers(1, 400), min_size=1, max_size=3), min_size=1, max_size=14)


@given(groups=GROUPS, tokens=st.integers(1, 1500), row_tokens=st.sampled_from([0, 192]), more=st.integers(0, 5))
@settings(max_examples=150, deadline=None)
def test_every_group_comes_once_and_within_the_budget_or_alone(
    groups: list[list[int]], tokens: int, row_tokens: int, more: int
) -> None:
    budget = TokenBudget(tokens, row_tokens)
    count = budget.fewest(groups) + more
    found = budget.divided(groups, count)
    assert sorted(number for each in found for number in each) == list(range(len(groups)))
    assert len(found) == min(count, len(groups)), "no micro-batch is empty, and none is left out"
    costs = [budget.computed([groups[number] for number in each]) for each in found]
    assert all(cost <= tokens or len(each) == 1 for cost, each in zip(costs, found, strict=True))
    assert costs == sorted(costs, reverse=True)


def test_groups_of_similar_length_come_together() -> None:
    groups = [[100], [10], [90], [10], [95], [12]]
    assert TokenBudget(300).divided(groups, 2) == [[0, 2, 4], [1, 3, 5]]


def test_a_group_that_is_longer_than_the_budget_is_alone() -> None:
    assert TokenBudget(50).divided([[20], [400], [20]], 2) == [[1], [0, 2]]
    with pytest.raises(ValueError, match="3 groups need 2 micro-batches of 50 tokens, not 1"):
        TokenBudget(50).divided([[20], [400], [20]], 1)


def test_the_cost_is_that_of_the_rows_that_are_packed() -> None:
    assert TokenBudget(1).computed([[30, 20], [7]]) == 3 * 30
    # Three trees of 57 tokens share a row of up to 192.
    assert TokenBudget(1, row_tokens=192).computed([[30, 20], [7]]) == 57
    assert spread([100, 60, 50, 90], row_tokens=192) == [[0, 2], [3, 1]]


@given(count=st.integers(1, 20), world=st.integers(1, 4))
def test_each_micro_batch_is_dealt_to_one_device(count: int, world: int) -> None:
    passes = -(-count // world)
    given_out = [dealt(range(count), number=n, rank=r, world_size=world) for n in range(passes) for r in range(world)]
    assert sorted(each for each in given_out if each is not None) == list(range(count))
    assert None not in given_out[: (passes - 1) * world], "only the last pass may lack some"


def _order(
    lengths: list[int], *, world_size: int, tokens: int, batch: int, seed: int = 0, steps: int = 6
) -> TokenOrder:
    plain = StepOrder(EndlessRow([AllGroups(len(lengths))], seed=seed), batch, batch, world_size)
    return TokenOrder(plain, TokenBudget(tokens), lambda draw: (lengths[draw.group],), steps=steps)


@given(
    lengths=st.lists(st.integers(1, 300), min_size=1, max_size=20), world=st.integers(1, 4), batch=st.integers(1, 9),
    tokens=st.integers(1, 900), seed=st.integers(0, 9), step=st.integers(0, 5),
)  # fmt: skip
@settings(max_examples=80, deadline=None)
def test_a_step_holds_the_same_groups_on_any_number_of_devices_and_after_a_restart(
    lengths: list[int], world: int, batch: int, tokens: int, seed: int, step: int
) -> None:
    def passes(world_size: int) -> list[list[list[Draw]]]:
        order = _order(lengths, world_size=world_size, tokens=tokens, batch=batch, seed=seed)
        return [[order.micro_batch(step, n, rank) for rank in range(world_size)] for n in range(order.accumulate)]

    one, several = passes(1), passes(world)
    plain = StepOrder(EndlessRow([AllGroups(len(lengths))], seed=seed), batch, 1, world).step_groups(step)
    for found in (one, several):
        assert sorted(draw for each in found for rank in each for draw in rank) == sorted(plain)
        for rank in (rank for each in found for rank in each):
            cost = len(rank) * max((lengths[draw.group] for draw in rank), default=0)
            assert cost <= tokens or len(rank) == 1
    assert passes(world) == several, "another process that begins at this step gets the same"


def test_devices_compute_similar_micro_batches_at_the_same_time() -> None:
    lengths = [10, 20, 30, 40, 50, 60, 70, 80]
    order = _order(lengths, world_size=2, tokens=80, batch=8, steps=1)
    costs = [
        [len(each) * max(lengths[draw.group] for draw in each) for each in (order.micro_batch(0, n, r) for r in (0, 1))]
        for n in range(order.accumulate)
    ]
    assert all(abs(one - other) <= 20 for one, other in costs)
    assert abs(sum(one for one, _ in costs) - sum(other for _, other in costs)) <= 20


def test_lengths_that_vary_are_padded_less_than_by_count() -> None:
    rng = np.random.default_rng(0)
    lengths = [int(each) for each in rng.lognormal(6, 1, 400)]
    order = _order(lengths, world_size=1, tokens=8 * 1024, batch=64)
    filling = order.filling()
    plain = StepOrder(EndlessRow([AllGroups(400)], seed=0), 64, 8, 1)
    rows = [
        [lengths[draw.group] for draw in plain.micro_batch(step, number, 0)]
        for step in range(6)
        for number in range(plain.accumulate)
    ]
    by_count = 1 - sum(map(sum, rows)) / sum(len(row) * max(row) for row in rows)
    assert by_count > 0.5
    assert filling.padding < by_count / 2
    assert filling.largest <= 8 * 1024


def test_a_stage_whose_epochs_are_not_counted_is_refused() -> None:
    plain = StepOrder(EndlessRow([AllGroups(3)], seed=0), 2, 2, 1)
    with pytest.raises(ValueError, match=r"train\.micro_batch_tokens needs the number of steps"):
        _ = TokenOrder(plain, TokenBudget(10), lambda draw: (1,), steps=None).accumulate


def test_what_is_longer_than_the_budget_is_said() -> None:
    said = _order([10, 12, 90], world_size=1, tokens=40, batch=3, steps=2).filling().said()
    assert "train.micro_batch_tokens 40: the largest pass within it computes 24 tokens; 2% padding over 2 steps" in said
    assert "2 groups are longer, up to 90 tokens: each is a pass alone" in said


STEPS = ("train.batch_size=5", "train.clip_norm=3.5", "model.tuning.language.lora.dropout=0", "eval.val_questions=2")
TOKENS = "train.micro_batch_tokens=900"


@pytest.fixture(scope="module")
def by_count(prepared_tiny: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("count") / "run"
    assert Nano(prepared_tiny).here("train", out, *STEPS, "train.micro_batch_size=5") == 0
    return out


def _learns_the_same(one: Path, other: Path, curve: Curve) -> None:
    assert len(curve(one, "train/loss")) == 4
    assert curve(one, "train/loss") == pytest.approx(curve(other, "train/loss"), abs=1e-6)
    assert curve(one, "train/gradient_norm") == pytest.approx(curve(other, "train/gradient_norm"), rel=1e-4)
    mine, theirs = (load_file(run / "checkpoints" / "last.safetensors") for run in (one, other))
    assert max(float((mine[name] - theirs[name]).abs().max()) for name in mine) < 1e-4


def test_one_device(nano: Nano, by_count: Path, tmp_path: Path, curve: Curve) -> None:
    out = tmp_path / "run"
    assert nano.here("train", out, *STEPS, TOKENS) == 0
    _learns_the_same(out, by_count, curve)
    assert curve(out, "train/loss") != curve(by_count, "train/loss"), "the passes are other ones"


def test_a_resume_divides_otherwise_and_continues_the_same_losses(
    nano: Nano, by_count: Path, tmp_path: Path, curve: Curve, monkeypatch: pytest.MonkeyPatch
) -> None:
    after_step = StepLog.on_train_batch_end

    def stopped_in_the_second_step(log: StepLog, trainer: pl.Trainer, *rest: Any) -> None:
        if trainer.global_step == 2:
            os.kill(os.getpid(), signal.SIGINT)
        after_step(log, trainer, *rest)

    out = tmp_path / "run"
    monkeypatch.setattr(StepLog, "on_train_batch_end", stopped_in_the_second_step)
    assert nano.here("train", out, *STEPS, TOKENS) == 130
    monkeypatch.undo()
    assert len(curve(out, "train/loss")) == 2
    assert nano.here("train", out, *STEPS, "train.micro_batch_tokens=1", extra=("--resume",)) == 0
    _learns_the_same(out, by_count, curve)


@pytest.mark.soak
@pytest.mark.parametrize("strategy", ["ddp", "fsdp", "deepspeed_stage_2", "deepspeed_stage_3"])
def test_two_devices(nano: Nano, by_count: Path, tmp_path: Path, curve: Curve, strategy: str) -> None:
    out = tmp_path / "run"
    nano.finished("train", out, *STEPS, TOKENS, "train.devices=2", f"train.strategy={strategy}")
    _learns_the_same(out, by_count, curve)


def test_validate_says_what_a_pass_holds(prepared_tiny: Path, capsys: Capture) -> None:
    settings = [f"data.root={prepared_tiny}", "train.batch_size=5", "train.max_steps=4"]
    main(["validate", "nano_busi_lora", "--set", *settings, TOKENS])
    said = capsys.readouterr().out
    assert "budget     train.micro_batch_tokens 900: the largest pass within it computes " in said
    assert "padding over 4 steps" in said
    assert "groups are longer" not in said
    main(["validate", "nano_busi_lora", "--set", *settings, "train.micro_batch_tokens=3"])
    said = capsys.readouterr().out
    assert "20 groups are longer, up to " in said
    assert "accumulates 5 x 1 devices" in said


def row(groups: int, seed: int) -> EndlessRow:
    return EndlessRow([AllGroups(groups)], seed=seed)


@given(
    groups=st.integers(1, 30), batch=st.integers(1, 12), micro=st.integers(1, 12),
    world=st.integers(1, 5), seed=st.integers(0, 9), step=st.integers(0, 40),
)  # fmt: skip
def test_every_group_of_a_step_is_taken_once(
    groups: int, batch: int, micro: int, world: int, seed: int, step: int
) -> None:
    shared = StepOrder(row(groups, seed), batch, micro, world)
    whole = StepOrder(row(groups, seed), batch, batch, 1).micro_batch(step, 0, 0)
    parts = [shared.micro_batch(step, part, rank) for part in range(shared.accumulate) for rank in range(world)]
    assert [group for part in parts for group in part] == whole
    assert all(len(part) <= micro for part in parts)


@given(groups=st.integers(1, 30), batch=st.integers(1, 12), seed=st.integers(0, 9))
def test_an_epoch_has_every_group_once(groups: int, batch: int, seed: int) -> None:
    order = StepOrder(row(groups, seed), batch, batch, 1)
    taken = [draw.group for step in range(groups) for draw in order.step_groups(step)]
    for epoch in range(batch):
        assert sorted(taken[epoch * groups : (epoch + 1) * groups]) == list(range(groups))


def test_resuming_continues_the_same_row() -> None:
    whole = list(ResumableOrder(epoch_steps=6, length=18, accumulate=3, start_step=lambda: 0))
    rest = ResumableOrder(epoch_steps=6, length=18, accumulate=3, start_step=lambda: 4)
    assert list(rest) == whole[12:]
    assert len(rest) == 18


@dataclass(frozen=True, slots=True)
class Thinned(AllGroups):
    """A member of a mixture whose epochs have different groups."""

    num_groups: int = 11

    def groups_in(self, epoch: int) -> range:
        return range(epoch % 3, 11, 3)


@given(
    sizes=st.lists(st.integers(1, 20), min_size=2, max_size=4), batch=st.integers(1, 9), micro=st.integers(1, 9),
    world=st.integers(1, 4), seed=st.integers(0, 9), step=st.integers(0, 400),
)  # fmt: skip
@settings(max_examples=40, deadline=None)
def test_a_mixtures_step_is_the_same_on_any_number_of_devices_and_after_a_restart(
    sizes: list[int], batch: int, micro: int, world: int, seed: int, step: int
) -> None:
    def mixed() -> EndlessRow:
        return EndlessRow([*map(AllGroups, sizes), Thinned()], shares=[*sizes, 3], seed=seed)

    walked = StepOrder(mixed(), batch, micro, world)
    for earlier in range(0, step, 97):
        walked.step_groups(earlier)
    parts = [walked.micro_batch(step, part, rank) for part in range(walked.accumulate) for rank in range(world)]
    assert [draw for part in parts for draw in part] == StepOrder(mixed(), batch, batch, 1).step_groups(step)


@given(shares=st.lists(st.floats(0.05, 5), min_size=2, max_size=4), seed=st.integers(0, 9))
@settings(max_examples=15, deadline=None)
def test_each_part_gets_its_share_of_every_thousand(shares: list[float], seed: int) -> None:
    mixed = EndlessRow([AllGroups(7) for _ in shares], shares=shares, seed=seed)
    for block in range(3):
        drawn = [mixed[place].member for place in range(block * 1024, (block + 1) * 1024)]
        for part, share in enumerate(shares):
            assert abs(drawn.count(part) - 1024 * share / sum(shares)) <= 1


def test_every_part_goes_through_its_epochs_without_gaps() -> None:
    mixed = EndlessRow([AllGroups(5), Thinned()], shares=[2, 1], seed=3)
    taken: dict[tuple[int, int], list[int]] = {}
    for place in range(3000):
        draw = mixed[place]
        assert draw.place == place
        taken.setdefault((draw.member, draw.epoch), []).append(draw.group)
    last = {part: max(epoch for of_part, epoch in taken if of_part == part) for part in (0, 1)}
    for (part, epoch), groups in taken.items():
        if epoch < last[part]:
            assert sorted(groups) == list(range(5) if part == 0 else Thinned().groups_in(epoch))
    assert taken[0, 0] != taken[0, 1]


def test_shares_are_checked() -> None:
    with pytest.raises(ValueError, match="a share above 0 for each of 2 members"):
        EndlessRow([AllGroups(5), AllGroups(5)], shares=[1, 0], seed=0)
