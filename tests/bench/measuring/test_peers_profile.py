import pytest

from bench import peers_profile
from bench.measuring import divided
from bench.measuring.peer_training import TrainingCase

SMALL = TrainingCase(questions=2, images=1, visual_tokens=16, target=0.0)


def test_each_operator_belongs_to_one_part() -> None:
    told = {
        "aten::mm": divided.PRODUCTS,
        "aten::addmm_": divided.PRODUCTS,
        "aten::mul": divided.OTHERS,
        "aten::_scaled_dot_product_flash_attention_for_cpu_backward": divided.ATTENTION,
        "Optimizer.step#AdamW.step": divided.PYTHON,
        "_FusedBackward": divided.PYTHON,
    }
    assert {name: divided.part_of(name) for name in told} == told


def test_it_runs_on_one_thing_alone() -> None:
    with pytest.raises(ValueError, match="leave 'pocket' out"):
        peers_profile.bench("pocket")


@pytest.mark.soak
def test_the_parts_make_the_whole_and_fewer_tokens_are_read() -> None:
    found = peers_profile.measured(SMALL, steps=4, width=64, layers=1)
    assert all(each.agree for each in found.ways)
    step, replies = found.ways[:5], found.ways[5:]
    for whole, *parts in (step, replies):
        assert [each.title.rpartition(", ")[2] for each in parts] == list(divided.PARTS)
        for side in ("quick_s", "plain_s"):
            taken = [getattr(each, side) for each in parts]
            assert min(taken) > 0
            assert sum(taken) == pytest.approx(getattr(whole, side), rel=1e-4)
    assert all(limit.kept for limit in found.limits)


@pytest.mark.soak
def test_another_learning_rate_is_not_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peers_profile, "LR", 0.5)
    assert not peers_profile.measured(SMALL, steps=4, width=64, layers=1).ways[0].agree
