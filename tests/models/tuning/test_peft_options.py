"""Tests that every option of LoRA gives the weights that plain peft gives, and can be merged and read back."""

from collections.abc import Mapping
from copy import deepcopy
from pathlib import Path

import pytest
import torch
from peft import LoraConfig, PeftModel, get_peft_model
from peft.optimizers import create_loraplus_optimizer
from torch import Tensor
from torch.optim import AdamW

from medtune.models.assemble import zoo_entry
from medtune.models.contract import Assembled
from medtune.models.tuning.apply import adapt, apply_tuning
from medtune.models.tuning.optimizer import build_optimizer, parameters_by_part
from medtune.models.tuning.plan import Lora, PartName, PartTuning, Tuning
from medtune.models.tuning.quantize import quantize_language
from medtune.models.tuning.starting_weights import start_pissa
from medtune.models.weights.checkpoint import load_trained, read_starts, trainable_names, write_trained
from medtune.models.weights.export import merge_adapters
from tests.models.twins import fresh, logprobs

NAME = "nano_pocket"
OPTIONS = {
    "rslora": Lora(r=4, alpha=6, rslora=True),
    "dora": Lora(r=4, alpha=6, dora=True),
    "gaussian": Lora(r=4, alpha=6, init="gaussian"),
    "pissa": Lora(r=4, alpha=6, init="pissa"),
    "all": Lora(r=4, alpha=6, rslora=True, dora=True, init="pissa", lr_ratio=8),
}
LANGUAGE = r"model\.layers\.\d+\.(self_attn|mlp)\.\w+_proj"


def tuning(lora: Lora, **parts: PartTuning) -> Tuning:
    return Tuning(projector=PartTuning(), language=PartTuning("lora", lr=1e-2, lora=lora), **parts)


def gapped() -> Assembled:
    """Returns the model with four singular values of each weight well above the others, as in trained models.

    Only then have the fast decomposition and the exact one of the reference the same result.
    """
    assembled = fresh(NAME)
    for name, module in assembled.model.named_modules():
        if name.startswith("language.") and name.endswith("_proj"):
            U, S, V = torch.linalg.svd(module.get_parameter("weight").data, full_matrices=False)
            S[:4] = S[0] * torch.tensor([4.0, 3.5, 3.0, 2.5])
            module.get_parameter("weight").data = U @ torch.diag(S) @ V
    return assembled


def ours(lora: Lora) -> Assembled:
    assembled = gapped()
    apply_tuning(assembled.model, tuning(lora), seed=0)
    if lora.init == "pissa":
        start_pissa(assembled.model, {"language"})
    assembled.model.eval()
    return assembled


def of_peft(lora: Lora) -> tuple[Assembled, PeftModel]:
    """Returns the same model, whose language model was adapted by peft alone."""
    assembled = gapped()
    assembled.model.requires_grad_(False)
    config = LoraConfig(
        r=lora.r,
        lora_alpha=lora.alpha,
        use_rslora=lora.rslora,
        use_dora=lora.dora,
        init_lora_weights=True if lora.init == "default" else lora.init,
        target_modules=LANGUAGE,
    )
    torch.manual_seed(0)
    adapted = get_peft_model(assembled.model.get_submodule("language"), config)
    assembled.model.eval()
    assert isinstance(adapted, PeftModel)
    return assembled, adapted


def steps(assembled: Assembled, optimizer: torch.optim.Optimizer, count: int = 4) -> list[float]:
    losses = []
    for number in range(count):
        loss = -logprobs(assembled, NAME, seed=number).sum()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(float(loss.detach()))
    return losses


def weights(assembled: Assembled) -> Mapping[str, Tensor]:
    """Returns all weights, and of each adapter the product B A: singular vectors are unique only up to their sign."""
    every = {name: parameter.detach().clone() for name, parameter in assembled.model.named_parameters()}
    products = {name: B @ every[name.replace("lora_B", "lora_A")] for name, B in every.items() if ".lora_B" in name}
    return {name: tensor for name, tensor in every.items() if ".lora_A" not in name} | products


def close(one: Mapping[str, Tensor], two: Mapping[str, Tensor], *, atol: float = 1e-5) -> None:
    assert one.keys() == two.keys()
    for name in one:
        torch.testing.assert_close(one[name], two[name], rtol=1e-5, atol=atol)


@pytest.mark.parametrize("option", OPTIONS)
def test_weights_are_pefts_before_and_after_training(option: str) -> None:
    lora = OPTIONS[option]
    mine, (theirs, adapted) = ours(lora), of_peft(lora)
    close(weights(mine), weights(theirs))
    # Adam makes a step of any gradient's sign, so that float32's rounding, which is another one on each CPU, grows.
    for each in (mine, theirs):
        each.model.double()
    groups = parameters_by_part(mine.model, tuning(lora), weight_decay=0.0)
    made = create_loraplus_optimizer(adapted, AdamW, lr=1e-2, loraplus_lr_ratio=lora.lr_ratio)
    losses = steps(mine, build_optimizer("adamw", groups, scaled_loss=False))
    assert losses == pytest.approx(steps(theirs, made), abs=1e-4)
    assert losses[0] - losses[-1] > 0.1
    close(weights(mine), weights(theirs), atol=2e-4)


@pytest.mark.parametrize("option", OPTIONS)
def test_untrained_adapters_change_no_answer(option: str) -> None:
    plain = gapped()
    plain.model.eval()
    torch.testing.assert_close(logprobs(ours(OPTIONS[option]), NAME), logprobs(plain, NAME), rtol=1e-4, atol=1e-5)


def stirred(assembled: Assembled) -> Assembled:
    torch.manual_seed(1)
    with torch.no_grad():
        for parameter in assembled.model.parameters():
            if parameter.requires_grad:
                parameter.add_(torch.randn_like(parameter) * 0.05)
    return assembled


@pytest.mark.parametrize("option", OPTIONS)
def test_merging_changes_no_answer(option: str) -> None:
    assembled = stirred(ours(OPTIONS[option]))
    adapted = logprobs(assembled, NAME)
    assert merge_adapters(assembled.model) == 14
    assert not any("lora" in name for name, _ in assembled.model.named_parameters())
    torch.testing.assert_close(logprobs(assembled, NAME), adapted, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("four_bit", [False, True])
def test_dora_on_convolutions_and_on_4_bits(tmp_path: Path, *, four_bit: bool) -> None:
    how = PartTuning("lora", lora=Lora(r=4, dora=True))
    both = tuning(how.lora, vision=how)

    def built() -> Assembled:
        assembled = fresh(NAME)
        if four_bit:
            quantize_language(assembled.model, precision="32-true", device=torch.device("cpu"))
        rows = apply_tuning(assembled.model, both, seed=0)
        assembled.model.eval()
        skeleton = zoo_entry(NAME).skeleton()
        if four_bit:
            quantize_language(skeleton, precision="auto", device=torch.device("meta"))
        assert apply_tuning(skeleton, both, seed=0) == rows
        assert rows[0].adapted_modules == 1
        return assembled

    assembled = stirred(built())
    untouched, answers = logprobs(built(), NAME), logprobs(assembled, NAME)
    assert (answers - untouched).abs().max() > 1e-2
    path = tmp_path / "trained.safetensors"
    learnt = {name: p for name, p in assembled.model.named_parameters() if p.requires_grad}
    write_trained(path, learnt, about={})
    again = built()
    load_trained(again.model, path)
    assert torch.equal(logprobs(again, NAME), answers)
    if four_bit:
        # Adapters that were trained on 4 bits are merged into the weights of the checkpoint.
        with pytest.raises(ValueError, match="is in 4 bits"):
            merge_adapters(assembled.model)
        return
    merge_adapters(assembled.model)
    torch.testing.assert_close(logprobs(assembled, NAME), answers, rtol=1e-4, atol=1e-4)


def test_pissa_is_read_back_with_the_weights_that_it_left(tmp_path: Path) -> None:
    lora, path = OPTIONS["pissa"], tmp_path / "trained.safetensors"
    assembled = fresh(NAME)
    apply_tuning(assembled.model, tuning(lora), seed=0)
    starts = start_pissa(assembled.model, {"language"})
    stirred(assembled)
    learnt = {name: p for name, p in assembled.model.named_parameters() if name in trainable_names(assembled.model)}
    write_trained(path, learnt, about={}, starts=starts)
    assert read_starts(path).keys() == learnt.keys() == starts.keys()
    again = fresh(NAME)
    apply_tuning(again.model, tuning(lora), seed=5)
    load_trained(again.model, path)
    found, wanted = weights(again), weights(assembled)
    assert found.keys() == wanted.keys()
    assert all(torch.equal(found[name], wanted[name]) for name in wanted)
    untouched = fresh(NAME).model.state_dict()
    left = found["language.model.layers.0.mlp.up_proj.base_layer.weight"]
    assert (left - untouched["language.model.layers.0.mlp.up_proj.weight"]).abs().max() > 0.05


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_pissa_keeps_its_adapters_in_float32_over_16_bits(dtype: torch.dtype) -> None:
    assembled = fresh(NAME)
    assembled.model.to(dtype)
    wide = deepcopy(assembled.model).float()
    apply_tuning(assembled.model, tuning(OPTIONS["pissa"]), seed=0)
    start_pissa(assembled.model, {"language"})
    layer = assembled.model.get_submodule("language.model.layers.0.self_attn.q_proj")
    A, B = (layer.get_parameter(f"lora_{each}.default.weight") for each in "AB")
    assert A.dtype == B.dtype == torch.float32
    left = layer.get_parameter("base_layer.weight")
    whole = left.float() + 6 / 4 * B @ A
    wanted = wide.get_parameter("language.model.layers.0.self_attn.q_proj.weight")
    # Only the rounding of what is left remains, not that of the whole weight and of the adapters.
    assert (whole - wanted).abs().max() <= torch.finfo(dtype).eps * left.float().abs().max()


def test_rates_and_decay_are_those_of_lora_plus() -> None:
    lora = Lora(r=4, dora=True, lr_ratio=16)
    vision = PartTuning("lora", lr=1e-3, lora=Lora(r=4, dora=True, lr_ratio=2))
    assembled = fresh(NAME)
    apply_tuning(assembled.model, tuning(lora, vision=vision), seed=0)
    groups = {
        each["name"]: each
        for each in parameters_by_part(assembled.model, tuning(lora, vision=vision), weight_decay=0.1)
    }
    assert {name: (each["lr"], each["weight_decay"]) for name, each in groups.items()} == {
        "vision": (1e-3, 0.1), "vision_B": (2e-3, 0.1), "vision_B_vectors": (2e-3, 0.0),
        "language": (1e-2, 0.1), "language_B": (0.16, 0.1), "language_B_vectors": (0.16, 0.0),
    }  # fmt: skip
    _, adapted = of_peft(lora)
    theirs = create_loraplus_optimizer(adapted, AdamW, lr=1e-2, loraplus_lr_ratio=16)
    rates = {id(p): group["lr"] for group in theirs.param_groups for p in group["params"]}
    wanted = {
        name.removeprefix("base_model.model."): rates[id(p)]
        for name, p in adapted.named_parameters()
        if p.requires_grad
    }
    mine = {id(p): each["lr"] for name, each in groups.items() if name.startswith("language") for p in each["params"]}
    language = assembled.model.get_submodule("language")
    assert {name: mine[id(p)] for name, p in language.named_parameters() if p.requires_grad} == wanted


def test_stages_may_differ_in_how_fast_an_adapter_learns_and_in_nothing_else() -> None:
    model = fresh(NAME).model
    adapt(model, [tuning(Lora(r=4)), tuning(Lora(r=4, lr_ratio=4))], seed=0)
    with pytest.raises(ValueError, match=r"two stages give model\.tuning\.language\.lora different values"):
        adapt(fresh(NAME).model, [tuning(Lora(r=4)), tuning(Lora(r=4, dora=True))], seed=0)


@pytest.mark.parametrize(
    ("part", "lora", "message"),
    [
        ("vision", Lora(r=4, init="pissa"), r"init pissa: vision\S+ is a convolution"),
        ("language", Lora(r=64, init="pissa"), r"is 32 x 32, too small for lora\.r 64; lower it to 32"),
    ],
)
def test_layers_that_pissa_cannot_take_are_named(part: PartName, lora: Lora, message: str) -> None:
    how = PartTuning("lora", lora=lora)
    model = fresh(NAME).model
    none = PartTuning()
    apply_tuning(model, Tuning(how, none, none) if part == "vision" else Tuning(none, none, how), seed=0)
    with pytest.raises(ValueError, match=message):
        start_pissa(model, {part})
