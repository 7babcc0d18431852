"""Tests LoRA on the stacks of experts against plain peft: answers, gradients, merging, folders and refusals."""

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from peft import LoraConfig, PeftModel, get_peft_model
from safetensors.torch import load_file, save_file
from torch import nn

from medtune.models.contract import Assembled
from medtune.models.nano.transformers_vlm import write_nano
from medtune.models.transformers_vlm.generic.loading import from_checkpoint
from medtune.models.tuning.apply import adapt, recompute_activations
from medtune.models.tuning.plan import Lora, PartTuning, Tuning
from medtune.models.weights.export import merge_adapters
from medtune.models.weights.loading_options import Loading
from medtune.models.weights.read_adapter import merge_adapter
from medtune.models.weights.write_adapter import WEIGHTS, Base, write_adapter
from medtune.models.zoo.nano_any_size import build_qwen3vl
from tests.models.twins import logprobs

pytestmark = pytest.mark.filterwarnings("ignore:Could not find a config file")
EXPERTS = {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 24, "mlp_only_layers": []}
ALL = Lora(r=4, alpha=6, targets=".*")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    where = tmp_path_factory.mktemp("experts")
    write_nano(build_qwen3vl(transformers.Qwen3VLMoeConfig, **EXPERTS), where, seed=0)
    return where


def loaded(folder: Path) -> Assembled:
    assembled = from_checkpoint(str(folder), Loading(weights=str(folder)))
    assembled.model.requires_grad_(False)
    assembled.model.eval()
    return assembled


def tuned(folder: Path, lora: Lora = ALL) -> tuple[Assembled, tuple[str, ...]]:
    assembled = loaded(folder)
    return assembled, adapt(
        assembled.model, [Tuning(PartTuning(), PartTuning(), PartTuning("lora", lora=lora))], seed=0
    )


def stirred(model: nn.Module) -> None:
    generator = torch.Generator().manual_seed(1)
    for name, parameter in model.named_parameters():
        if "lora_" in name:
            parameter.data.normal_(std=0.1, generator=generator)


def said(assembled: Assembled) -> torch.Tensor:
    return logprobs(assembled, "nano_qwen3vl")


def learnt(assembled: Assembled) -> dict[str, torch.Tensor]:
    """Returns the gradients by the names that plain peft gives them."""
    assembled.model.zero_grad()
    (-said(assembled).sum()).backward()
    found = {name: p.grad for name, p in assembled.model.named_parameters() if p.requires_grad and p.grad is not None}
    return {name.replace("base_model.model.", ""): grad.clone() for name, grad in found.items()}


def test_answers_gradients_folder_and_merged_weights_are_plain_pefts(folder: Path, tmp_path: Path) -> None:
    mine, theirs, untrained = tuned(folder)[0], loaded(folder), said(loaded(folder)).detach()
    assert torch.equal(said(mine), untrained)
    whole = theirs.model.of_transformers
    layers = [
        name for name, module in whole.named_modules() if "language_model" in name and isinstance(module, nn.Linear)
    ]
    stacks = ["mlp.experts.down_proj", "mlp.experts.gate_up_proj"]
    config = LoraConfig(r=4, lora_alpha=6, target_modules=layers, target_parameters=stacks)
    wrapped = get_peft_model(whole, config)
    stirred(mine.model)
    stirred(wrapped)
    theirs.model.eval()
    answers = said(mine).detach()
    assert float((answers - untrained).abs().max()) > 0.1
    torch.testing.assert_close(answers, said(theirs).detach(), rtol=0, atol=1e-6)
    gradients, wanted = learnt(mine), learnt(theirs)
    assert sum(".experts." in name for name in gradients) == 8
    assert gradients.keys() == wanted.keys()
    for name, gradient in gradients.items():
        assert gradient.any(), name
        torch.testing.assert_close(gradient, wanted[name], rtol=1e-4, atol=1e-6)
    mine.model.train()
    recompute_activations(mine.model)
    for name, gradient in learnt(mine).items():
        torch.testing.assert_close(gradient, wanted[name], rtol=1e-4, atol=1e-6)
    mine.model.eval()
    write_adapter(tmp_path / "adapter", mine.model, dict(_learning(mine)), Base("twin"), about={})
    read = loaded(folder)
    PeftModel.from_pretrained(read.model.of_transformers, str(tmp_path / "adapter"))
    torch.testing.assert_close(said(read).detach(), answers, rtol=0, atol=1e-6)
    wrapped.save_pretrained(str(tmp_path / "peft"))
    begun = [merge_adapter(loaded(folder), str(tmp_path / name), base="twin") for name in ("adapter", "peft")]
    merge_adapters(mine.model)
    merged = dict(wrapped.merge_and_unload().named_parameters())
    for each in (mine, *begun):
        torch.testing.assert_close(dict(each.model.of_transformers.named_parameters()), merged, rtol=0, atol=1e-6)


LOST = "base_model.model.model.language_model.layers.1.mlp.experts.base_layer.lora_"


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (
            lambda t: {n: v for n, v in t.items() if LOST not in n},
            "1 layers that its target_modules or target_parameters name have no",
        ),
        (lambda t: {n: v for n, v in t.items() if f"{LOST}A" not in n}, "only one of its matrices"),
        (lambda t: {n: v[:8] if f"{LOST}A" in n else v for n, v in t.items()}, "has rank 2, but adapter_config.json"),
        (lambda t: {n.replace("layers.1.mlp.experts", "layers.1.mlp"): v for n, v in t.items()}, "not in the model"),
    ],
)
def test_a_folder_that_does_not_fit_the_stacks_is_refused(
    spoil: Callable[[dict[str, torch.Tensor]], dict[str, torch.Tensor]], message: str, folder: Path, tmp_path: Path
) -> None:
    assembled, _ = tuned(folder)
    write_adapter(tmp_path / "adapter", assembled.model, dict(_learning(assembled)), Base("twin"), about={})
    path = tmp_path / "adapter" / WEIGHTS
    save_file({name: tensor.clone() for name, tensor in spoil(load_file(path)).items()}, path)
    with pytest.raises(ValueError, match=message):
        merge_adapter(loaded(folder), str(tmp_path / "adapter"), base="twin")


def _learning(assembled: Assembled) -> list[tuple[str, nn.Parameter]]:
    return [(name, p) for name, p in assembled.model.named_parameters() if p.requires_grad]


def test_adapters_of_stacks_in_16_bits_are_drawn_in_32(folder: Path) -> None:
    narrow, wide = (loaded(folder) for _ in range(2))
    narrow.model.bfloat16()
    for each in (narrow, wide):
        adapt(each.model, [Tuning(PartTuning(), PartTuning(), PartTuning("lora", lora=ALL))], seed=0)
    assert len(_learning(wide)) > 8
    torch.testing.assert_close(dict(_learning(narrow)), dict(_learning(wide)), rtol=0, atol=0)


def test_what_does_not_learn_names_the_targets_that_adapt_it(folder: Path) -> None:
    _, notes = tuned(folder, replace(ALL, targets=None))
    assert re.search(r"mlp\.experts\.gate_up_proj \(.*model\.tuning\.language\.lora\.targets adapts ", notes[0])
    assembled, notes = tuned(folder, replace(ALL, targets=r".*experts\.down_proj"))
    assert {name.partition(".lora_")[0].rpartition("layers")[2] for name, _ in _learning(assembled)} == {
        ".0.mlp.experts", ".1.mlp.experts"
    }  # fmt: skip
    assert "experts.gate_up_proj (" in notes[0]
    assert "experts.down_proj (" not in notes[0]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"dora": True}, r"lora.targets names layers\.0\.mlp\.experts\.\w+, .*lora\.dora is True.*Leave dora out"),
        ({"dropout": 0.1}, r"lora\.dropout is 0\.1, which peft has for layers alone"),
        ({"init": "pissa"}, r"lora\.init is pissa"),
        ({"targets": r".*experts"}, r"'\.\*experts' names layers\.0\.mlp\.experts, which holds stacks .*down_proj"),
    ],
)
def test_what_peft_cannot_do_with_stacks_is_refused(change: dict[str, Any], message: str, folder: Path) -> None:
    with pytest.raises(ValueError, match=message):
        tuned(folder, replace(ALL, **change))


@pytest.mark.parametrize("change", [{"dora": True}, {"dropout": 0.1}])
def test_targets_without_stacks_take_every_option(change: dict[str, Any], folder: Path) -> None:
    assembled, _ = tuned(folder, replace(ALL, targets=r"(?!.*\.experts\.).*", **change))
    assert {name.split(".")[-4] for name, _ in _learning(assembled)} >= {"q_proj", "o_proj"}
