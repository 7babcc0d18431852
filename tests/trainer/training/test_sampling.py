"""Tests that the order of the data depends only on the seed, not on devices or micro-batches."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from medtune.trainer.training.sampling import AllGroups, EndlessRow, ResumableOrder, StepOrder


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


class Thinned:
    """A member of a mixture whose epochs have different groups."""

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
