"""What LoRA reaches, against a list written by hand; what is saved; and that it answers the same when read back."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from medtune.models.assemble import zoo_entry
from medtune.models.contract import PARTS, Assembled, Model, part_parameters
from medtune.models.tuning.apply import GradientAudit, apply_tuning, parameters_by_part
from medtune.models.tuning.plan import Lora, PartTuning, Tuning
from medtune.models.weights.checkpoint import load_trained, trainable_names, write_trained
from tests.models.transformers_vlm.twins import NANOS, encoded, picture, rows, size_of

SELF = [f"self_attn.{n}_proj" for n in "qkvo"]
CROSS = [f"cross_attn.{n}_proj" for n in "qkvo"]
MLP = [f"mlp.{n}_proj" for n in ("gate", "up", "down")]


def _layers(prefix: str, *blocks: list[str]) -> set[str]:
    return {f"{prefix}.{layer}.{name}" for layer, block in enumerate(blocks) for name in block}


def _below(root: str, names: list[str]) -> set[str]:
    return {f"whole.{root}.{name}" for name in names}


FC = ["mlp.fc1", "mlp.fc2"]
CLIP = [*[f"self_attn.{n}_proj" for n in ("q", "k", "v", "out")], *FC]
LLAMA = _layers("whole.model.language_model.layers", *[SELF + MLP] * 2)
MERGER = [f"{layer}.{kind}" for layer in ("mlp.0", "mlp.2") for kind in ("weight", "bias")]
MERGER3 = [f"{layer}.{kind}" for layer in ("norm", "linear_fc1", "linear_fc2") for kind in ("weight", "bias")]
TWO_LINEAR = [f"{layer}.{kind}" for layer in ("linear_1", "linear_2") for kind in ("weight", "bias")]

LANGUAGE = {
    "nano_gemma3": LLAMA,
    "nano_internvl": LLAMA,
    "nano_llava": LLAMA,
    "nano_llava_next_video": LLAMA,
    "nano_llava_onevision": LLAMA,
    "nano_llava_video": LLAMA,
    "nano_mllama": _layers("whole.model.language_model.layers", *[SELF + MLP, CROSS + MLP] * 2),
    "nano_qwen25vl": LLAMA,
    "nano_qwen2vl": LLAMA,
    "nano_qwen3vl": LLAMA,
}
VISION = {
    "nano_gemma3": _layers("whole.model.vision_tower.encoder.layers", *[CLIP] * 2),
    "nano_internvl": _layers(
        "whole.model.vision_tower.encoder.layer",
        *[[*[f"attention.{n}" for n in ("q_proj", "k_proj", "v_proj", "projection_layer")], *FC]] * 2,
    ),
    "nano_llava": _layers("whole.model.vision_tower.encoder.layers", *[CLIP] * 2),
    "nano_llava_next_video": _layers("whole.model.vision_tower.encoder.layers", *[CLIP] * 2),
    "nano_llava_onevision": _layers("whole.model.vision_tower.encoder.layers", *[CLIP] * 2),
    "nano_llava_video": _layers("whole.model.vision_tower.encoder.layers", *[CLIP] * 2),
    "nano_mllama": _layers("whole.model.vision_model.transformer.layers", *[[*SELF, *FC]] * 2)
    | _layers("whole.model.vision_model.global_transformer.layers", [*SELF, *FC]),
    "nano_qwen25vl": _layers("whole.model.visual.blocks", *[["attn.qkv", "attn.proj", *MLP]] * 2),
    "nano_qwen2vl": _layers("whole.model.visual.blocks", *[["attn.qkv", "attn.proj", *FC]] * 2),
    "nano_qwen3vl": _layers(
        "whole.model.visual.blocks", *[["attn.qkv", "attn.proj", "mlp.linear_fc1", "mlp.linear_fc2"]] * 3
    ),
}
PROJECTOR = {
    "nano_gemma3": _below("model.multi_modal_projector", ["mm_input_projection_weight", "mm_soft_emb_norm.weight"]),
    "nano_internvl": _below("model.multi_modal_projector", ["layer_norm.weight", "layer_norm.bias", *TWO_LINEAR]),
    "nano_llava": _below("model.multi_modal_projector", TWO_LINEAR),
    "nano_llava_next_video": _below("model.multi_modal_projector", TWO_LINEAR) | {"whole.model.image_newline"},
    "nano_llava_onevision": _below("model.multi_modal_projector", TWO_LINEAR) | {"whole.model.image_newline"},
    "nano_llava_video": _below("model.multi_modal_projector", TWO_LINEAR) | {"whole.model.image_newline"},
    "nano_mllama": _below("model.multi_modal_projector", ["weight", "bias"]),
    "nano_qwen25vl": _below("model.visual.merger", ["ln_q.weight", *MERGER]),
    "nano_qwen2vl": _below("model.visual.merger", ["ln_q.weight", "ln_q.bias", *MERGER]),
    "nano_qwen3vl": _below("model.visual.merger", MERGER3)
    | _below("model.visual.deepstack_merger_list.0", MERGER3)
    | _below("model.visual.deepstack_merger_list.1", MERGER3),
}
each_family = pytest.mark.parametrize("name", NANOS)
FROZEN, FULL, LORA = PartTuning("frozen"), PartTuning("full"), PartTuning("lora")


def _tuned(name: str, tuning: Tuning) -> tuple[Assembled, Model]:
    assembled = zoo_entry(name).assemble(0)
    apply_tuning(assembled.model, tuning, seed=0)
    assembled.model.train()
    return assembled, assembled.model


def _adapted(model: Model) -> set[str]:
    return {name.removesuffix(".lora_A") for name, _ in model.named_modules() if name.endswith(".lora_A")}


def _logprobs(assembled: Assembled) -> torch.Tensor:
    image = picture()
    laid = rows(assembled, [assembled.family.layout("Plane?", "head", shape=size_of(image))], [0])
    read: torch.Tensor = assembled.model(laid, encoded(assembled, image)).logprobs_T
    return read


@each_family
def test_lora_reaches_attention_and_mlp_of_the_language_model_and_nothing_else(name: str) -> None:
    _, model = _tuned(name, Tuning(FROZEN, FROZEN, LORA))
    assert _adapted(model) == LANGUAGE[name]
    assert all(".lora_" in n for n in trainable_names(model))


@each_family
def test_lora_of_the_tower_leaves_the_projector_out(name: str) -> None:
    _, model = _tuned(name, Tuning(LORA, FROZEN, FROZEN))
    assert _adapted(model) == VISION[name]


@each_family
def test_targets_count_from_the_group_on(name: str) -> None:
    targets = Lora(targets=r"layers\.\d+\.(self_attn|cross_attn)\.(q|v)_proj")
    _, model = _tuned(name, Tuning(FROZEN, FROZEN, PartTuning("lora", lora=targets)))
    assert _adapted(model) == {n for n in LANGUAGE[name] if n.endswith(("attn.q_proj", "attn.v_proj"))}


@each_family
def test_projector_is_trained_beside_lora(name: str) -> None:
    _, model = _tuned(name, Tuning(LORA, FULL, LORA))
    learning = set(trainable_names(model))
    assert {n for n in learning if ".lora_" not in n} == PROJECTOR[name]
    assert _adapted(model) == LANGUAGE[name] | VISION[name]


@each_family
def test_every_parameter_has_one_group_and_one_rate(name: str) -> None:
    tuning = Tuning(LORA, FULL, LORA)
    _, model = _tuned(name, tuning)
    named = [n for part in PARTS for n, _ in part_parameters(model, part)]
    assert sorted(named) == sorted(n for n, _ in model.named_parameters())
    rated = [p for group in parameters_by_part(model, tuning, weight_decay=0.1) for p in group["params"]]
    assert {id(p) for p in rated} == {id(p) for p in model.parameters() if p.requires_grad}
    assert len(rated) == len({id(p) for p in rated})


@each_family
def test_untrained_lora_answers_like_the_model_without_it(name: str) -> None:
    plain, (tuned, _) = zoo_entry(name).assemble(0), _tuned(name, Tuning(LORA, FULL, LORA))
    plain.model.eval()
    tuned.model.eval()
    assert torch.equal(_logprobs(plain), _logprobs(tuned))


@each_family
def test_what_learnt_is_saved_and_answers_the_same_when_read_back(name: str, tmp_path: Path) -> None:
    tuning = Tuning(FROZEN, FULL, LORA)
    assembled, model = _tuned(name, tuning)
    audit = GradientAudit(model, tuning)
    optimizer = torch.optim.AdamW(parameters_by_part(model, tuning, weight_decay=0.0))
    before = _logprobs(assembled).detach()
    for _ in range(2):
        optimizer.zero_grad()
        (-_logprobs(assembled).sum()).backward()
        optimizer.step()
    audit.judge(audit.reached())
    model.eval()
    after = _logprobs(assembled).detach()
    assert float((after - before).abs().max()) > 1e-3
    path = tmp_path / "weights.safetensors"
    write_trained(path, {n: p for n, p in model.named_parameters() if p.requires_grad}, about={})
    again, other = _tuned(name, tuning)
    load_trained(other, path)
    other.eval()
    assert torch.equal(_logprobs(again), after)


@each_family
def test_frozen_tower_and_projector_build_no_graph(name: str) -> None:
    assembled, _ = _tuned(name, Tuning(FROZEN, FROZEN, LORA))
    assert not _tensors_with_graph(encoded(assembled, picture()))
    assembled, _ = _tuned(name, Tuning(FROZEN, FULL, LORA))
    assert _tensors_with_graph(encoded(assembled, picture()))


@each_family
def test_groups_that_do_not_learn_stay_in_evaluation_mode(name: str) -> None:
    _, model = _tuned(name, Tuning(FROZEN, FULL, FROZEN))
    modes = {part: model.get_submodule(model.part_roots[part][0]).training for part in PARTS}
    assert modes == {"vision": False, "projector": True, "language": False}


def _tensors_with_graph(shown: Any) -> bool:
    found = shown.states_MTPE if hasattr(shown, "states_MTPE") else shown.tokens[0]
    return bool(found.requires_grad)
