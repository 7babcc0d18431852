"""Tests LoRA on every twin: the adapted layers, the saved weights, and the answers after reading them back."""

from pathlib import Path
from typing import Any

import pytest
import torch

from medtune.models.contract import PARTS, Assembled, Model, parameters_of_parts
from medtune.models.tuning.apply import GradientAudit, apply_tuning
from medtune.models.tuning.optimizer import parameters_by_part
from medtune.models.tuning.plan import PartTuning, Tuning
from medtune.models.weights.checkpoint import load_trained, trainable_names, write_trained
from tests.models.twins import TWINS, each_twin, expanded, fresh, kinds_then_all, logprobs, seen

FROZEN, FULL, LORA = PartTuning("frozen"), PartTuning("full"), PartTuning("lora")


def _tuned(name: str, tuning: Tuning) -> tuple[Assembled, Model]:
    assembled = fresh(name)
    apply_tuning(assembled.model, tuning, seed=0)
    assembled.model.train()
    return assembled, assembled.model


def _adapted(model: Model) -> set[str]:
    return {name.removesuffix(".lora_A") for name, _ in model.named_modules() if name.endswith(".lora_A")}


def _lora_where_possible(name: str) -> Tuning:
    return Tuning(LORA if TWINS[name].vision else FROZEN, LORA if TWINS[name].projector else FROZEN, LORA)


@kinds_then_all
def test_lora_reaches_the_layers_of_the_language_model_and_nothing_else(name: str) -> None:
    assembled, model = _tuned(name, Tuning(FROZEN, FROZEN, LORA))
    assert _adapted(model) == expanded(TWINS[name].language) != set()
    assert all(".lora_" in n for n in trainable_names(model))
    assert not _tensor(seen(assembled, name, 0)).requires_grad, "a frozen tower and projector build no graph"


@kinds_then_all
@pytest.mark.parametrize("part", ["vision", "projector"])
def test_lora_of_the_tower_or_of_the_projector_leaves_the_other_out(name: str, part: str) -> None:
    tuning = Tuning(LORA, FROZEN, FROZEN) if part == "vision" else Tuning(FROZEN, LORA, FROZEN)
    if layers := getattr(TWINS[name], part):
        assert _adapted(_tuned(name, tuning)[1]) == expanded(layers)
        return
    with pytest.raises(ValueError, match="has none that LoRA could adapt; use full"):
        _tuned(name, tuning)


@each_twin
def test_projector_is_trained_beside_lora_and_every_parameter_has_one_part_and_one_rate(name: str) -> None:
    twin = TWINS[name]
    tuning = Tuning(LORA if twin.vision else FROZEN, FULL, LORA)
    tuned, model = _tuned(name, tuning)
    learning = set(trainable_names(model))
    assert {n for n in learning if ".lora_" not in n} == expanded(twin.projector_weights) != set()
    assert _adapted(model) == expanded(twin.language) | expanded(twin.vision)
    named = [n for own in parameters_of_parts(model).values() for n, _ in own]
    assert sorted(named) == sorted(n for n, _ in model.named_parameters())
    rated = [p for group in parameters_by_part(model, tuning, weight_decay=0.1) for p in group["params"]]
    assert {id(p) for p in rated} == {id(p) for p in model.parameters() if p.requires_grad}
    assert len(rated) == len({id(p) for p in rated})
    plain = fresh(name)
    plain.model.eval()
    tuned.model.eval()
    # Untrained adapters change no answer. As questions are answered: on some processors torch convolves with other
    # kernels where a weight wants a gradient.
    with torch.no_grad():
        assert torch.equal(logprobs(plain, name), logprobs(tuned, name))


@each_twin
def test_every_adapter_lies_on_the_data_s_way(name: str) -> None:
    """If a module's weight is used without its forward, its adapter silently stays at zero."""
    assembled, model = _tuned(name, _lora_where_possible(name))
    (-logprobs(assembled, name).sum()).backward()
    grads = {n: p.grad for n, p in model.named_parameters() if ".lora_B" in n}
    untouched = {n.partition(".lora_B")[0] for n, grad in grads.items() if grad is None or not grad.any()}
    assert untouched == expanded(TWINS[name].unreached)


@kinds_then_all
def test_what_learnt_is_saved_and_answers_the_same_when_read_back(name: str, tmp_path: Path) -> None:
    tuning = Tuning(FROZEN, FULL, LORA)
    assembled, model = _tuned(name, tuning)
    assert _tensor(seen(assembled, name, 0)).requires_grad
    audit = GradientAudit(model, tuning)
    optimizer = torch.optim.AdamW(parameters_by_part(model, tuning, weight_decay=0.0))
    before = logprobs(assembled, name).detach()
    for _ in range(2):
        optimizer.zero_grad()
        (-logprobs(assembled, name).sum()).backward()
        optimizer.step()
    audit.judge(audit.reached())
    model.eval()
    after = logprobs(assembled, name).detach()
    assert float((after - before).abs().max()) > 1e-3
    path = tmp_path / "weights.safetensors"
    write_trained(path, {n: p for n, p in model.named_parameters() if p.requires_grad}, about={})
    again, other = _tuned(name, tuning)
    load_trained(other, path)
    other.eval()
    assert torch.equal(logprobs(again, name), after)


@pytest.mark.parametrize("name", ["nano_qwen25vl", "nano_pocket_ct"])
def test_weights_of_another_model_are_refused(name: str, tmp_path: Path) -> None:
    path = tmp_path / "pocket.safetensors"
    _, pocket = _tuned("nano_pocket", Tuning(FROZEN, FULL, LORA))
    write_trained(path, {n: p for n, p in pocket.named_parameters() if p.requires_grad}, about={})
    _, model = _tuned(name, Tuning(FROZEN, FULL, LORA))
    with pytest.raises(ValueError, match=r"pocket\.safetensors: the weights are not those of this recipe's"):
        load_trained(model, path)


@kinds_then_all
def test_parts_that_do_not_learn_stay_in_evaluation_mode(name: str) -> None:
    _, model = _tuned(name, Tuning(FROZEN, FULL, FROZEN))
    modes = {part: model.get_submodule(model.part_roots[part][0]).training for part in PARTS}
    assert modes == {"vision": False, "projector": True, "language": False}


def _tensor(encoded: Any) -> torch.Tensor:
    if isinstance(encoded, torch.Tensor):
        return encoded
    found: torch.Tensor = encoded.states_MTPE if hasattr(encoded, "states_MTPE") else encoded.tokens[0]
    return found
