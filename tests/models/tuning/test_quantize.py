"""Tests QLoRA: which layers are held in 4 bits, their outputs, and the answers of adapters that are read back."""

from copy import deepcopy
from pathlib import Path

import bitsandbytes as bnb
import pytest
import torch
from torch import nn

from medtune.models.assemble import zoo_entry
from medtune.models.contract import Assembled, Model
from medtune.models.sequence.packing import PackedRows, Shown, pack
from medtune.models.sequence.tree import grow
from medtune.models.tuning.apply import PartRow, apply_tuning
from medtune.models.tuning.plan import Lora, PartTuning, Precision, Tuning
from medtune.models.tuning.quantize import precise, quantize_language, set_types
from medtune.models.weights.checkpoint import load_trained, trainable_names, write_trained
from tests.models.twins import EVERY_TWIN, TWINS, expanded

CPU = torch.device("cpu")
ONE_OF_EACH_KIND = ("nano_pocket", "nano_m3d_phi3", "nano_mllama", "nano_qwen25vl")


def _quantized(
    name: str, tuning: Tuning | None = None, precision: Precision = "32-true"
) -> tuple[Assembled, tuple[PartRow, ...]]:
    assembled = zoo_entry(name).assemble(0)
    quantize_language(assembled.model, precision=precision, device=CPU)
    rows = apply_tuning(assembled.model, tuning or Tuning(projector=PartTuning("frozen")), seed=0)
    return assembled, rows


def _rows(assembled: Assembled) -> PackedRows:
    tree = grow([assembled.family.layout("Is there a cyst?", "yes", shapes=())], [0])
    return pack([[Shown(tree, None)]], pad_id=assembled.family.pad_id)


def _logprobs(assembled: Assembled) -> torch.Tensor:
    read: torch.Tensor = assembled.model(_rows(assembled), None).logprobs_T
    return read


def _stirred(model: nn.Module) -> None:
    """Gives the adapters random values, because at zero they would change nothing."""
    torch.manual_seed(1)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if ".lora_B" in name:
                parameter.normal_(std=0.1)


def _unpacked(model: Model) -> Model:
    """Returns the same model with plain layers that hold the dequantised weights."""
    plain = deepcopy(model)
    for name, layer in list(plain.named_modules()):
        if isinstance(layer, bnb.nn.Linear4bit):
            whole = nn.Linear(layer.in_features, layer.out_features, bias=layer.bias is not None)
            whole.weight.data = bnb.functional.dequantize_4bit(layer.weight.data, layer.weight.quant_state)
            if layer.bias is not None:
                whole.bias = layer.bias
            plain.set_submodule(name, whole.requires_grad_(False))
    return plain


@pytest.mark.parametrize("name", EVERY_TWIN)
def test_just_the_language_models_linear_layers_are_held_in_4_bits(name: str) -> None:
    model = zoo_entry(name).assemble(0).model
    quantize_language(model, precision="32-true", device=CPU)
    found = {each for each, module in model.named_modules() if isinstance(module, bnb.nn.Linear4bit)}
    assert found == expanded(TWINS[name].language) != set()
    assert all(model.get_parameter(f"{each}.weight").dtype == torch.uint8 for each in found)
    rest = {n: p for n, p in model.named_parameters() if n.rpartition(".")[0] not in found}
    assert {p.dtype for p in rest.values()} == {torch.float32}


@pytest.mark.parametrize("name", ONE_OF_EACH_KIND)
def test_answers_and_gradients_are_those_of_the_weights_that_the_4_bits_stand_for(name: str) -> None:
    assembled, _ = _quantized(name)
    _stirred(assembled.model)
    assembled.model.train()
    plain = Assembled(_unpacked(assembled.model), assembled.family, assembled.transform, {})
    found, wanted = _logprobs(assembled), _logprobs(plain)
    torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-5)
    found.sum().backward()
    wanted.sum().backward()
    for (path, one), (other_path, two) in zip(
        [(n, p.grad) for n, p in assembled.model.named_parameters() if ".lora_" in n],
        [(n.replace(".base_layer", ""), p.grad) for n, p in plain.model.named_parameters() if ".lora_" in n],
        strict=True,
    ):
        assert path == other_path
        torch.testing.assert_close(one, two, rtol=1e-3, atol=1e-5)
    # The loss of precision is visible: with the original weights, the answers differ.
    untouched = zoo_entry(name).assemble(0)
    assembled.model.eval()
    with torch.no_grad():
        assert (_logprobs(_quantized(name)[0]) - _logprobs(untouched)).abs().max() > 1e-3


def test_evaluation_computes_what_training_does() -> None:
    assembled, _ = _quantized("nano_pocket")
    _stirred(assembled.model)
    assembled.model.train()
    learning = _logprobs(assembled).detach()
    assembled.model.eval()
    with torch.no_grad():
        torch.testing.assert_close(_logprobs(assembled), learning, rtol=0, atol=1e-6)
    assembled.model.train()
    _logprobs(assembled).sum().backward()
    assert all(p.grad is not None for n, p in assembled.model.named_parameters() if ".lora_" in n)


@pytest.mark.parametrize("name", ONE_OF_EACH_KIND)
def test_adapters_on_a_newly_quantised_base_answer_the_same(name: str, tmp_path: Path) -> None:
    assembled, _ = _quantized(name)
    _stirred(assembled.model)
    assembled.model.eval()
    path = tmp_path / "adapters.safetensors"
    learnt = trainable_names(assembled.model)
    assert all(".lora_" in each for each in learnt)
    write_trained(path, {n: p for n, p in assembled.model.named_parameters() if n in learnt}, about={})
    again, _ = _quantized(name)
    again.model.eval()
    with torch.no_grad():
        assert not torch.equal(_logprobs(again), _logprobs(assembled))
        load_trained(again.model, path)
        assert torch.equal(_logprobs(again), _logprobs(assembled))


def test_table_counts_weights_not_bytes() -> None:
    plain = apply_tuning(zoo_entry("nano_pocket").assemble(0).model, Tuning(), seed=0)
    _, held = _quantized("nano_pocket", Tuning())
    assert [row.parameters for row in held] == [row.parameters for row in plain]
    assert [row.trainable for row in held] == [row.trainable for row in plain]
    per_layer = 2 * 32 * 32 + 2 * 32 * 16 + 3 * 32 * 64
    assert [row.quantized for row in held] == [0, 0, 2 * per_layer]
    skeleton = zoo_entry("nano_pocket").skeleton()
    quantize_language(skeleton, precision="auto", device=torch.device("meta"))
    assert apply_tuning(skeleton, Tuning(), seed=0) == held


def test_bfloat16_leaves_the_4_bits_alone() -> None:
    assembled, _ = _quantized("nano_pocket", precision="bf16-mixed")
    held = assembled.model.get_parameter("language.model.layers.0.self_attn.q_proj.base_layer.weight").clone()
    set_types(assembled.model, "bf16-mixed")
    after = assembled.model.get_parameter("language.model.layers.0.self_attn.q_proj.base_layer.weight")
    assert torch.equal(held, after)
    assert after.dtype == torch.uint8
    with precise("bf16-mixed", CPU)():
        found = _logprobs(assembled)
    found.sum().backward()
    assert found.isfinite().all()
    wide, _ = _quantized("nano_pocket")
    torch.testing.assert_close(found, _logprobs(wide), rtol=0.05, atol=0.1)


def test_4_bits_cannot_learn() -> None:
    with pytest.raises(ValueError, match=r"language\..* is to learn, but model.language_bits holds it in 4 bits"):
        _quantized("nano_pocket", Tuning(language=PartTuning("full")))
    part = PartTuning("lora", parameters=r".*layers\.0\.mlp\.up_proj\.weight", lora=Lora(targets=".*q_proj"))
    with pytest.raises(ValueError, match=r"up_proj\.weight is to learn, but"):
        _quantized("nano_pocket", Tuning(language=part))
