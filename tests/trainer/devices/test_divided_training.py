"""Tests that a training with divided weights equals one device: losses, gradient norms and what is learnt."""

from collections.abc import Sequence

import pytest

from medtune.trainer.recipe.schema import StrategyName
from tests.ranks import run_ranks
from tests.trainer.devices.divided import FULL, LORA, Case, Course, trained, trained_in_rank

FAMILIES = tuple(
    Case(name, tuning)
    for name in ("nano_mllama", "nano_qwen25vl", "nano_llava", "nano_gemma3", "nano_radfm", "nano_ct_chat")
    for tuning in (LORA,)
)


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
        pytest.param("deepspeed_stage_2", marks=pytest.mark.soak),
        pytest.param("deepspeed_stage_3", marks=pytest.mark.slow),
        pytest.param("deepspeed_stage_2_offload", marks=pytest.mark.slow),
        pytest.param("deepspeed_stage_3_offload", marks=pytest.mark.slow),
    ],
)
def test_two_ranks_learn_what_one_device_learns(strategy: StrategyName) -> None:
    _compare([Case("nano_pocket", LORA), Case("nano_pocket", FULL)], strategy)


@pytest.mark.slow
def test_weights_that_no_answer_depends_on_stay_as_they_are() -> None:
    """LLaVA's last vision layer gets no gradient; on one device neither weight decay nor moments touch it."""
    _compare([Case("nano_llava", FULL)], "fsdp")


@pytest.mark.parametrize(
    "strategy",
    [pytest.param("fsdp", marks=pytest.mark.slow), pytest.param("deepspeed_stage_3", marks=pytest.mark.soak)],
)
def test_families_learn_with_a_share_of_the_weights_on_each_rank(strategy: StrategyName) -> None:
    _compare(FAMILIES, strategy)
