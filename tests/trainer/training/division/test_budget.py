"""Tests that a step's groups are divided by tokens: every group once, within the budget, evenly, with less padding."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from medtune.models.sequence.packing import spread
from medtune.trainer.training.budget import TokenBudget, TokenOrder, dealt
from medtune.trainer.training.sampling import AllGroups, Draw, EndlessRow, StepOrder

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
