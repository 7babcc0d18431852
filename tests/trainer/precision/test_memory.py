"""Tests that the estimate of memory counts the bytes that a loaded twin, its gradients and AdamW's moments have."""

import itertools
from collections.abc import Iterator
from typing import Any, get_args

import pytest
import torch
from torch import Tensor

from medtune.models.assemble import zoo_entry
from medtune.models.tuning.apply import adapt, parameters_by_part, set_learning
from medtune.models.tuning.optimizers import build_optimizer
from medtune.models.tuning.plan import PartTuning, Precision, Tuning
from medtune.models.tuning.precision import precise, set_types
from medtune.models.tuning.quantize import is_quantized, quantize_language
from medtune.trainer.plan.gathered import Divided, layers_of, units_of
from medtune.trainer.plan.held import Held, held
from medtune.trainer.recipe.read import read_recipe
from medtune.trainer.recipe.schema import StrategyName
from medtune.trainer.training.stages import part_table
from tests.models.twins import logprobs

CPU = torch.device("cpu")
MODES: dict[str, Tuning] = {
    "lora": Tuning(PartTuning("lora"), PartTuning("full"), PartTuning("lora")),
    "part": Tuning(
        PartTuning("frozen"), PartTuning("frozen"), PartTuning("part", parameters=r".*embed_tokens.weight|.*norm.*")
    ),
    "full": Tuning(PartTuning("full"), PartTuning("full"), PartTuning("full")),
}


def _planned(
    name: str, tuning: Tuning, precision: Precision, *settings: str, four_bit: bool = False, is_gpu: bool = False
) -> Held:
    """Returns what `validate` counts on a model without weights."""
    model = zoo_entry(name).skeleton()
    if four_bit:
        quantize_language(model, precision=precision, device=torch.device("meta"))
    adapt(model, [tuning], seed=0)
    set_types(model, precision)
    recipe = read_recipe("nano_busi_lora", [f"train.precision={precision}", *settings])
    rows = set_learning(model, tuning)
    return held(recipe.train, rows, Divided(units_of(model), layers_of(model)), is_gpu=is_gpu)


@pytest.mark.parametrize("file", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("precision", ["32-true", "bf16-mixed"])
@pytest.mark.parametrize("name", ["nano_pocket", "nano_qwen25vl"])
def test_the_estimate_is_the_real_model_s(name: str, precision: Precision, mode: str, file: torch.dtype) -> None:
    planned = _planned(name, MODES[mode], precision)
    assembled = zoo_entry(name).assemble(0)
    model = assembled.model.to(file)
    adapt(model, [MODES[mode]], seed=0)
    set_types(model, precision)
    set_learning(model, MODES[mode])
    model.train()
    with precise(precision, CPU)():
        (-logprobs(assembled, name).sum()).backward()
    optimizer = build_optimizer("adamw", parameters_by_part(model, MODES[mode], weight_decay=0.0), scaled_loss=False)
    learning = [p for p in model.parameters() if p.requires_grad]
    for parameter in learning:
        # A step without some token or module leaves its weights without a gradient; the next one brings it.
        parameter.grad = torch.zeros_like(parameter) if parameter.grad is None else parameter.grad
    optimizer.step()
    found = [p.grad for p in learning] + [
        t for state in optimizer.state.values() for t in state.values() if t.dim() > 0
    ]
    assert planned.weights == pytest.approx(sum(map(_bytes, model.parameters())))
    assert planned.gradients + planned.moments == pytest.approx(sum(_bytes(t) for t in found if t is not None))
    assert {t.dtype for t in found if t is not None} == {torch.float32}


def _bytes(tensor: Tensor) -> int:
    return tensor.numel() * tensor.element_size()


def test_in_4_bits_it_is_the_real_model_s_but_for_unfilled_blocks() -> None:
    pytest.importorskip("bitsandbytes")
    planned = _planned("nano_qwen25vl", MODES["lora"], "bf16-mixed", four_bit=True)
    model = zoo_entry("nano_qwen25vl").assemble(0).model
    quantize_language(model, precision="bf16-mixed", device=CPU)
    adapt(model, [MODES["lora"]], seed=0)
    set_types(model, "bf16-mixed")
    packed = [p for p in model.parameters() if is_quantized(p)]
    assert packed
    real = sum(_bytes(p) for p in model.parameters()) + sum(_bytes(each) for p in packed for each in _constants(p))
    # Each layer's constants come in blocks of 256, which tiny layers do not fill.
    assert 0 <= real - planned.weights <= 4 * len(packed)


def _constants(weight: Any) -> Iterator[Tensor]:
    """Yields the scales of a weight's blocks, without the tables of the 16 and 256 levels, which do not grow."""
    yield weight.quant_state.absmax
    yield weight.quant_state.state2.absmax


@pytest.mark.parametrize("strategy", get_args(StrategyName))
@pytest.mark.parametrize(("precision", "mode"), itertools.product(["32-true", "bf16-mixed"], MODES))
def test_strategies_divide_the_same_bytes(strategy: StrategyName, precision: Precision, mode: str) -> None:
    alone = _planned("nano_pocket", MODES[mode], precision)
    settings = (f"train.strategy={strategy}", "train.devices=2")
    shared = _planned("nano_pocket", MODES[mode], precision, *settings, is_gpu=True)
    stage = {"fsdp": 3, "auto": 0, "ddp": 0}.get(strategy, int(strategy.split("_")[2]) if "stage" in strategy else 0)
    one, away = alone.gradients, strategy.endswith("_offload")
    assert alone.moments == 2 * one
    weights = alone.weights / (2 if stage == 3 else 1)
    masters = one / 2 if stage in (1, 2) or (stage == 3 and away) else 0
    states = (one / (2 if stage >= 2 else 1), masters, 2 * one / (2 if stage >= 1 else 1))
    # Stage 2 stages the weights that it sends back, stage 3 collects gradients in a buffer of their own.
    staged = one / 2
    assert shared.weights == pytest.approx(0 if away and stage == 3 else weights)
    assert (shared.gradients, shared.masters, shared.moments) == pytest.approx((0, 0, 0) if away else states)
    assert shared.host == pytest.approx(sum(states) + staged + (weights if stage == 3 else 0) if away else 0)
    assert (shared.gathered > 0) == (stage == 3)
    on_cpu = _planned("nano_pocket", MODES[mode], precision, *settings)
    assert on_cpu.host == 0
    assert on_cpu.gradients + on_cpu.masters + on_cpu.moments == pytest.approx(sum(states) + (staged if away else 0))


def test_the_table_prints_the_types() -> None:
    model = zoo_entry("nano_pocket").assemble(0).model.half()
    adapt(model, [Tuning()], seed=0)
    set_types(model, "bf16-mixed")
    vision, projector, language = part_table(set_learning(model, Tuning())).splitlines()[2:]
    assert vision.split()[-2:] == ["bfloat16", "-"]
    assert projector.split()[-2:] == ["-", "float32"]
    assert language.split()[-2:] == ["bfloat16", "float32"]
