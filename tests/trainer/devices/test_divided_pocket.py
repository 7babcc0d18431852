"""Tests that pocket, a small pretrained model, learns under every strategy what it learns on one device."""

from functools import cache

import pytest

from medtune.models.tuning.plan import Lora, PartTuning, Tuning
from medtune.trainer.recipe.schema import StrategyName
from tests.ranks import run_ranks
from tests.trainer.devices.divided import Case, Course, trained, trained_in_rank

RATE = 1e-4
"""Learning rates at which a pretrained model learns; larger ones make rounding grow from step to step."""
ADAPTED = PartTuning("lora", lr=RATE, lora=Lora(r=4, alpha=8.0))
CASES = {
    "lora": Case("pocket", Tuning(PartTuning("frozen"), PartTuning("full", lr=RATE), ADAPTED)),
    "full": Case("pocket", Tuning(*(PartTuning("full", lr=RATE / 10),) * 3)),
}
STRATEGIES: tuple[StrategyName, ...] = (
    "ddp",
    "fsdp",
    "deepspeed_stage_1",
    "deepspeed_stage_2",
    "deepspeed_stage_3",
    "deepspeed_stage_2_offload",
    "deepspeed_stage_3_offload",
)


@cache
def one_device(name: str) -> Course:
    return trained(CASES[name])


@pytest.mark.soak
@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_pocket_learns_on_two_ranks_what_it_learns_on_one_device(name: str, strategy: StrategyName) -> None:
    ranks = run_ranks(2, trained_in_rank, [CASES[name]], strategy, timeout_s=900)
    one = one_device(name)
    for (course,) in ranks:
        assert course.is_freed
        assert len(course.losses) == 3
        assert course.losses == pytest.approx(one.losses, abs=5e-5)
        assert course.norms == pytest.approx(one.norms, rel=2e-3)
    learnt = ranks[0][0].learnt
    assert learnt.keys() == one.learnt.keys()
    apart = max(float(abs(learnt[each] - one.learnt[each]).max()) for each in learnt)
    losses = max(
        abs(mine - other) for (course,) in ranks for mine, other in zip(course.losses, one.losses, strict=True)
    )
    norms = max(
        abs(mine / other - 1) for (course,) in ranks for mine, other in zip(course.norms, one.norms, strict=True)
    )
    print(f"{name}, {strategy}: losses {losses:.1e}, norms {norms:.1e} (relative), weights {apart:.1e} apart")
    assert apart < 1e-4
