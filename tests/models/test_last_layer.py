"""The last layer makes of tokens that nobody reads nothing, and of the others what it made before."""

from typing import Any

import pytest
import torch

from medtune.models.last_layer import read_alone
from medtune.models.tuning.apply import apply_tuning, recompute_activations
from medtune.models.tuning.plan import Lora, PartTuning, Tuning
from tests.models.twins import fresh, layout, row_each, seen
from tests.trainer.one_step import furthest

NAMES = ("nano_qwen25vl", "nano_qwen3vl", "nano_qwen35", "nano_gemma3", "nano_mllama", "nano_internvl", "nano_pocket")


def _decoder(model: Any) -> Any:
    return model.of_transformers.get_decoder()


def _told(name: str, monkeypatch: pytest.MonkeyPatch, *, whole: bool, recomputes: bool = False) -> Any:
    assembled = fresh(name)
    apply_tuning(assembled.model, Tuning(language=PartTuning("lora", lr=1e-3, lora=Lora(dropout=0.0))), seed=0)
    for parameter_name, parameter in assembled.model.named_parameters():
        if "lora_B" in parameter_name:
            torch.manual_seed(len(parameter_name))
            torch.nn.init.normal_(parameter, std=0.1)
    assembled.model.train()
    if recomputes:
        recompute_activations(assembled.model)
    if whole:
        monkeypatch.setattr("medtune.models.last_layer._BY_TOKEN", ())
    else:
        monkeypatch.undo()
    rows = row_each(assembled, [layout(assembled, name, "head"), layout(assembled, name, "a heart")], [0, 0])
    logprobs_T = assembled.model(rows, seen(assembled, name, 1)).logprobs_T
    logprobs_T.sum().backward()
    gradients = {n: p.grad.clone() for n, p in assembled.model.named_parameters() if p.grad is not None}
    assert all("forward" not in module.__dict__ for module in _decoder(assembled.model).layers[-1].modules())
    return logprobs_T.detach(), gradients


@pytest.mark.parametrize("name", NAMES)
def test_what_is_read_and_learnt_is_the_same(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    plain, gradients = _told(name, monkeypatch, whole=True)
    mine, same = _told(name, monkeypatch, whole=False)
    assert torch.allclose(mine, plain, atol=1e-5)
    assert furthest(same, gradients) < 1e-4
    again, recomputed = _told(name, monkeypatch, whole=False, recomputes=True)
    assert torch.allclose(again, plain, atol=1e-5)
    assert furthest(recomputed, gradients) < 1e-4


class _Layer(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.mlp = torch.nn.Linear(4, 4)


def test_the_tokens_that_are_read_are_taken_out_once_each() -> None:
    decoder = torch.nn.Module()
    decoder.layers = torch.nn.ModuleList([_Layer(), _Layer()])
    states_BLE = torch.randn(2, 9, 4, requires_grad=True)
    mlp: Any = decoder.layers[1].mlp
    plain_BLE = mlp(states_BLE)
    products: list[int] = []
    linear = mlp.forward

    def counted(states: torch.Tensor) -> Any:
        products.append(states.shape[:2].numel())
        return linear(states)

    mlp.forward = counted
    row_T, place_T = torch.tensor([1, 0, 1]), torch.tensor([3, 8, 3])
    with read_alone(decoder, row_T, place_T):
        made_BLE = mlp(states_BLE)
    assert products == [2], "of two targets at one place, where a tree branches, one is computed"
    assert torch.allclose(made_BLE[row_T, place_T], plain_BLE[row_T, place_T])
    assert (made_BLE == 0).all(-1).sum() == 16
    (mine,) = torch.autograd.grad(made_BLE[row_T, place_T].sum(), states_BLE)
    (theirs,) = torch.autograd.grad(plain_BLE[row_T, place_T].sum(), states_BLE)
    assert torch.allclose(mine, theirs)
    with read_alone(decoder, torch.arange(2).repeat(9), torch.arange(9).repeat_interleave(2)):
        mlp(states_BLE)
    assert products == [2, 18], "where nearly all is read, nothing is taken out"
