"""Adapters within the products of their layer give peft's outputs and gradients; where they cannot, peft's own run."""

from typing import Any

import pytest
import torch
from peft.tuners.lora.layer import Linear
from torch import Tensor, nn

from medtune.models.tuning import fused_lora
from medtune.models.tuning.apply import adapt
from medtune.models.tuning.fused_lora import FusedLinear
from medtune.models.tuning.plan import Lora, PartTuning, Tuning
from tests.models.twins import fresh

_Found = dict[str, Tensor]


def _layer(*, bias: bool, dropout: float) -> FusedLinear:
    from peft import LoraConfig, inject_adapter_in_model

    torch.manual_seed(1)
    whole = nn.ModuleDict({"one": nn.Linear(24, 40, bias=bias)})
    inject_adapter_in_model(LoraConfig(r=4, lora_alpha=12, lora_dropout=dropout, target_modules="one"), whole)
    layer: Any = whole["one"]
    fused_lora.fuse(layer)
    nn.init.normal_(layer.lora_B["default"].weight)
    assert isinstance(layer, FusedLinear)
    return layer


def _passed(layer: FusedLinear, *, plain: bool) -> _Found:
    torch.manual_seed(2)
    x = torch.randn(3, 5, 24, requires_grad=True)
    layer.zero_grad()
    made = Linear.forward(layer, x) if plain else layer(x)
    (made * torch.arange(40.0)).sum().backward()
    assert x.grad is not None
    learnt = {name: p.grad.clone() for name, p in layer.named_parameters() if p.grad is not None}
    return {"made": made.detach(), "x": x.grad, **learnt}


@pytest.mark.parametrize(("bias", "dropout"), [(True, 0.0), (False, 0.0), (True, 0.3), (False, 0.3)])
def test_outputs_and_gradients_are_those_of_peft(bias: bool, dropout: float, monkeypatch: pytest.MonkeyPatch) -> None:
    layer = _layer(bias=bias, dropout=dropout)
    theirs, mine = _passed(layer, plain=True), _passed(layer, plain=False)
    assert mine.keys() == theirs.keys() > {"lora_A.default.weight", "lora_B.default.weight"}
    for name, each in mine.items():
        assert torch.allclose(each, theirs[name], rtol=1e-5, atol=1e-4), name
    layer.scaling["default"] *= 2
    assert not torch.allclose(_passed(layer, plain=False)["x"], mine["x"], atol=1e-2), "the scale is read"
    passed: list[float] = []
    apply = fused_lora._Fused.apply

    def noted(*given: Any) -> Any:
        passed.append(given[-1])
        return apply(*given)

    monkeypatch.setattr(fused_lora._Fused, "apply", noted)
    _passed(layer, plain=False)
    assert passed == [6.0], "once, with the doubled scale"


def test_where_weights_are_narrow_or_learn_themselves_peft_computes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fused_lora._Fused, "apply", None)
    layer = _layer(bias=True, dropout=0.0)
    with torch.autocast("cpu", torch.bfloat16):
        assert layer(torch.randn(2, 24)).dtype == torch.bfloat16
    layer.get_base_layer().weight.requires_grad_(True)
    _passed(layer, plain=False)
    layer.get_base_layer().weight.requires_grad_(False)
    with torch.no_grad():
        layer(torch.randn(2, 24))
    layer.to(torch.bfloat16)(torch.randn(2, 24, dtype=torch.bfloat16))


def test_lora_of_a_model_is_fused_and_other_adapters_are_not() -> None:
    for dora, wanted in ((False, True), (True, False)):
        model = fresh("nano_qwen25vl").model
        adapt(model, [Tuning(language=PartTuning("lora", lr=1e-3, lora=Lora(dora=dora)))], seed=0)
        adapted = [each for each in model.modules() if isinstance(each, Linear)]
        assert adapted
        assert all(
            fused_lora._fuses(each, torch.zeros(1, 1)) == wanted for each in adapted if type(each) is FusedLinear
        )
