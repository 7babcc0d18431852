"""What LoRA reaches in the models over volumes, against lists written by hand; what is saved and read back."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from medtune.models.assemble import zoo_entry
from medtune.models.contract import Assembled, Model
from medtune.models.tuning.apply import apply_tuning, parameters_by_part
from medtune.models.tuning.plan import PartTuning, Tuning
from medtune.models.weights.checkpoint import load_trained, trainable_names, write_trained
from tests.models.any_twin import EVERY_TWIN, VOLUMES, logprobs

SPLIT = [*[f"self_attn.{n}_proj" for n in "qkvo"], *[f"mlp.{n}_proj" for n in ("gate", "up", "down")]]
FUSED = ["self_attn.qkv_proj", "self_attn.o_proj", "mlp.gate_up_proj", "mlp.down_proj"]


def _layers(prefix: str, names: list[str], number: int) -> set[str]:
    return {f"{prefix}.{layer}.{name}" for layer in range(number) for name in names}


def _both(*names: str) -> set[str]:
    return {f"{name}.{kind}" for name in names for kind in ("weight", "bias")}


LLAMA = _layers("language.model.layers", SPLIT, 2)
LANGUAGE = {
    "nano_radfm": LLAMA,
    "nano_m3d_llama2": LLAMA,
    "nano_m3d_phi3": _layers("language.model.layers", FUSED, 2),
    "nano_merlin": LLAMA,
    "nano_ct_chat": LLAMA,
}
M3D_VISION = {"vision.vit.patch_embedding.patch_embeddings.1"} | _layers(
    "vision.vit.blocks", ["attn.qkv", "attn.out_proj", "mlp.linear1", "mlp.linear2"], 1
)
CTVIT_LAYER = ["attention.to_q", "attention.to_kv", "attention.to_out", "mlp.to_hidden", "mlp.to_out"]
VISION = {
    "nano_radfm": {"vision.patch_embedding.1"}
    | _layers("vision.blocks", ["attn.qkv", "attn.out_proj", "mlp.linear1", "mlp.linear2"], 1),
    "nano_m3d_llama2": M3D_VISION,
    "nano_m3d_phi3": M3D_VISION,
    "nano_ct_chat": {"vision.patch_embedding.1", *[f"vision.position_bias.net.{n}" for n in (0, 2, 4)]}
    | _layers("vision.spatial.layers", CTVIT_LAYER, 1)
    | _layers("vision.temporal.layers", CTVIT_LAYER, 1),
}
PROJECTOR_LORA = {
    "nano_radfm": {"projector.linear"}
    | _layers(
        "projector.resampler.blocks", ["0.q_proj", "0.k_proj", "0.v_proj", "0.output_proj", "1.fc", "1.c_proj"], 1
    ),
    "nano_m3d_llama2": {"projector.mlp.0", "projector.mlp.2"},
    "nano_m3d_phi3": {"projector.mlp.0", "projector.mlp.2"},
    "nano_merlin": {"projector.each"},
    "nano_ct_chat": {"projector.mlp.0", "projector.mlp.2"},
}
PROJECTOR = {
    "nano_radfm": {"projector.tags", "projector.resampler.latents"}
    | {f"{n}.weight" for n in PROJECTOR_LORA["nano_radfm"]}
    | {"projector.linear.bias"}
    | _both("projector.resampler.layer_norm", "projector.resampler.blocks.0.1.ln")
    | _both(*[f"projector.resampler.blocks.0.0.{n}_layer_norm" for n in ("context", "latents")]),
    "nano_m3d_llama2": _both("projector.mlp.0", "projector.mlp.2"),
    "nano_m3d_phi3": _both("projector.mlp.0", "projector.mlp.2"),
    "nano_merlin": _both("projector.each"),
    "nano_ct_chat": {
        "projector.pool.query_QD", "projector.pool.attention.in_proj_weight",
        "projector.pool.attention.out_proj.weight",
    } | _both("projector.pool.norm_query", "projector.pool.norm_features", "projector.norm", "projector.mlp.0",
              "projector.mlp.2"),
}  # fmt: skip
CLIP = [*[f"self_attn.{n}_proj" for n in ("q", "k", "v", "out")], "mlp.fc1", "mlp.fc2"]
WITHOUT_LORA = (("nano_merlin",), ("nano_gemma3", "nano_mllama"))
"""A tower of 3D convolutions; a projector that is a bare parameter, and one that is a single layer itself."""
PASSED_BY = {
    # LLaVA-1.5 and LLaVA-NeXT-Video read the last layer but one of their tower.
    "nano_llava": {f"whole.model.vision_tower.encoder.layers.1.{name}" for name in CLIP},
    "nano_llava_next_video": {f"whole.model.vision_tower.encoder.layers.1.{name}" for name in CLIP},
    # The twin has two decoder layers: what is added to the visual tokens behind the last one reaches no answer.
    "nano_qwen3vl": {f"whole.model.visual.deepstack_merger_list.1.linear_fc{n}" for n in (1, 2)},
}
each_model = pytest.mark.parametrize("name", VOLUMES)
FROZEN, FULL, LORA = PartTuning("frozen"), PartTuning("full"), PartTuning("lora")


def _tuned(name: str, tuning: Tuning) -> tuple[Assembled, Model]:
    assembled = zoo_entry(name).assemble(0)
    apply_tuning(assembled.model, tuning, seed=0)
    assembled.model.train()
    return assembled, assembled.model


def _adapted(model: Model) -> set[str]:
    return {name.removesuffix(".lora_A") for name, _ in model.named_modules() if name.endswith(".lora_A")}


@each_model
def test_lora_reaches_the_layers_of_the_language_model_and_nothing_else(name: str) -> None:
    _, model = _tuned(name, Tuning(FROZEN, FROZEN, LORA))
    assert _adapted(model) == LANGUAGE[name]
    assert all(".lora_" in n for n in trainable_names(model))


@each_model
def test_lora_of_the_projector(name: str) -> None:
    assert _adapted(_tuned(name, Tuning(FROZEN, LORA, FROZEN))[1]) == PROJECTOR_LORA[name]


@pytest.mark.parametrize("name", VISION)
def test_lora_of_the_tower(name: str) -> None:
    assert _adapted(_tuned(name, Tuning(LORA, FROZEN, FROZEN))[1]) == VISION[name]


def test_a_tower_of_convolutions_says_that_it_takes_no_lora() -> None:
    with pytest.raises(ValueError, match="has none that LoRA could adapt; use full"):
        _tuned("nano_merlin", Tuning(LORA, FROZEN, FROZEN))


@each_model
def test_projector_is_trained_beside_lora(name: str) -> None:
    _, model = _tuned(name, Tuning(FROZEN, FULL, LORA))
    assert {n for n in trainable_names(model) if ".lora_" not in n} == PROJECTOR[name]


@pytest.mark.parametrize("name", EVERY_TWIN)
def test_every_adapter_lies_on_the_data_s_way(name: str) -> None:
    """A module whose weight is taken past its forward would keep its adapter at zero in silence."""
    vision, projector = (FROZEN if name in without else LORA for without in WITHOUT_LORA)
    assembled, model = _tuned(name, Tuning(vision, projector, LORA))
    (-logprobs(assembled, name).sum()).backward()
    grads = {n: p.grad for n, p in model.named_parameters() if ".lora_B" in n}
    untouched = {n.partition(".lora_B")[0] for n, grad in grads.items() if grad is None or not grad.any()}
    assert untouched == PASSED_BY.get(name, set())


@each_model
def test_what_learnt_is_saved_and_answers_the_same_when_read_back(name: str, tmp_path: Path) -> None:
    tuning = Tuning(FROZEN, FULL, LORA)
    assembled, model = _tuned(name, tuning)
    optimizer = torch.optim.AdamW(parameters_by_part(model, tuning, weight_decay=0.0))
    before = logprobs(assembled, name).detach()
    for _ in range(2):
        optimizer.zero_grad()
        (-logprobs(assembled, name).sum()).backward()
        optimizer.step()
    model.eval()
    with torch.no_grad():
        after = logprobs(assembled, name)
    assert float((after - before).abs().max()) > 1e-3
    path = tmp_path / "weights.safetensors"
    write_trained(path, {n: p for n, p in model.named_parameters() if p.requires_grad}, about={})
    again, other = _tuned(name, tuning)
    load_trained(other, path)
    other.eval()
    with torch.no_grad():
        assert torch.equal(logprobs(again, name), after)


@each_model
def test_weights_of_another_model_are_refused(name: str, tmp_path: Path) -> None:
    path = tmp_path / "pocket.safetensors"
    _, pocket = _tuned("nano_pocket", Tuning(FROZEN, FULL, LORA))
    write_trained(path, {n: p for n, p in pocket.named_parameters() if p.requires_grad}, about={})
    _, model = _tuned(name, Tuning(FROZEN, FULL, LORA))
    with pytest.raises(
        ValueError, match=r"pocket\.safetensors: the weights are not those of this recipe's model\.tuning"
    ):
        load_trained(model, path)


def test_rows_of_new_tokens_learn_beside_lora() -> None:
    pattern = r"model\.embed_tokens\.weight|lm_head\.weight"
    tuning = Tuning(FULL, FULL, PartTuning("lora", parameters=pattern))
    _, model = _tuned("nano_m3d_llama2", tuning)
    whole = {n for n in trainable_names(model) if n.startswith("language.") and ".lora_" not in n}
    assert whole == {"language.model.embed_tokens.weight", "language.lm_head.weight"}
    _, model = _tuned("nano_m3d_llama2", Tuning(FROZEN, FULL, PartTuning("part", parameters=pattern)))
    assert {n for n in trainable_names(model) if n.startswith("language.")} == whole
    with pytest.raises(ValueError, match=r"model\.tuning\.language\.parameters: 'wte' fits no parameter of the part"):
        _tuned("nano_m3d_llama2", Tuning(FROZEN, FULL, PartTuning("part", parameters="wte")))
