"""The data order belongs to the seed alone: devices and micro-batches only share it out."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from medtune.trainer.order import ResumableOrder, StepOrder


@given(
    groups=st.integers(1, 30), batch=st.integers(1, 12), micro=st.integers(1, 12),
    world=st.integers(1, 5), seed=st.integers(0, 9), step=st.integers(0, 40),
)  # fmt: skip
def test_every_group_of_a_step_is_taken_once(
    groups: int, batch: int, micro: int, world: int, seed: int, step: int
) -> None:
    shared = StepOrder(groups, batch, micro, world, seed)
    whole = StepOrder(groups, batch, batch, 1, seed).micro_batch(step, 0, 0)
    parts = [shared.micro_batch(step, part, rank) for part in range(shared.accumulate) for rank in range(world)]
    assert [group for part in parts for group in part] == whole
    assert all(len(part) <= micro for part in parts)


@given(groups=st.integers(1, 30), batch=st.integers(1, 12), seed=st.integers(0, 9))
def test_an_epoch_has_every_group_once(groups: int, batch: int, seed: int) -> None:
    order = StepOrder(groups, batch, batch, 1, seed)
    taken = [group for step in range(groups) for group in order.step_groups(step)]
    for epoch in range(batch):
        assert sorted(taken[epoch * groups : (epoch + 1) * groups]) == list(range(groups))


def test_resuming_continues_the_same_row() -> None:
    whole = list(ResumableOrder(max_steps=6, accumulate=3, start_step=lambda: 0))
    rest = ResumableOrder(max_steps=6, accumulate=3, start_step=lambda: 4)
    assert list(rest) == whole[12:]
    assert len(rest) == 18
