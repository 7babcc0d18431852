"""Tests checkpoints in the layouts of their authors' own code against transformers' own models."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from medtune.models.nano.transformers_vlm import Nano
from medtune.models.proof.weights import weights_check
from medtune.models.transformers_vlm.generic.loading import checkpoint_entry, from_checkpoint, read_config
from medtune.models.transformers_vlm.loading import read_processor
from medtune.models.transformers_vlm.originals.read import original_in, original_tensors
from medtune.models.weights.loading_options import Loading
from tests.models.transformers_vlm.generic.newer_checkpoints import phi4, qwen3_omni, qwen25_omni
from tests.models.transformers_vlm.originals import cut, internvl, llava, write_original
from tests.models.transformers_vlm.test_parity import pillow
from tests.models.twins import picture, size_of

CASES: dict[str, tuple[Callable[[], Nano], dict[str, Any]]] = {
    "InternVL3": (lambda: internvl("qwen2", attention_bias=True), {}),
    "InternVL3.5": (lambda: internvl("qwen3", attention_bias=True), {"template": "internvl3_5"}),
    "InternVL2 with Phi-3": (lambda: internvl("phi3", attention_bias=True), {"template": "phi3-chat"}),
    "InternVL2.5 with InternLM2": (lambda: internvl("llama", use_qk_norm=True, norm_type="rms_norm"), {}),
    "LLaVA-1.5, its tower elsewhere": (llava, {"tower_beside": True, "model_type": "llava"}),
    "LLaVA-Med": (lambda: llava("mistral"), {}),
    "HuatuoGPT-Vision": (lambda: llava("qwen2"), {"image_aspect_ratio": None}),
    "LLaVA-NeXT": (lambda: cut("llava_next"), {}),
    "LLaVA-OneVision": (lambda: cut("llava_onevision"), {"model_type": "llava_qwen"}),
    "Qwen2.5-Omni": (qwen25_omni, {}),
    "Qwen3-Omni": (qwen3_omni, {}),
    "Phi-4-multimodal": (phi4, {}),
    "Phi-4-multimodal, its adapter beside it": (phi4, {"beside": True}),
    "SigLIP in LLaVA": (lambda: llava("qwen2", tower="siglip_vision_model"), {}),
}


@pytest.mark.parametrize("name", CASES)
def test_logits_equal_transformers_own_model(name: str, tmp_path: Path) -> None:
    build, changes = CASES[name]
    plain = write_original(build(), tmp_path, **changes)
    made = from_checkpoint(str(tmp_path), Loading(weights=str(tmp_path)))
    speaks = "Omni" in name
    assert speaks or "prompt" in made.provenance
    picture_of = picture(width=90, height=60)
    laid = made.template.layout("Which plane?", "head", shapes=[size_of(picture_of)])
    processor = read_processor(tmp_path, name)
    asked = processor.apply_chat_template(
        [{"role": "user", "content": [{"type": "image"}, {"type": "text", "text": "Which plane?"}]}],
        add_generation_prompt=True,
    )
    inputs = processor(text=[asked], images=[pillow(picture_of)], return_tensors="pt")
    ids = inputs["input_ids"][0].tolist()
    assert list(laid.ids[: len(ids)]) == ids
    with torch.no_grad():
        ours, theirs = (model(**inputs).logits for model in (made.model.of_transformers, plain))
    torch.testing.assert_close(ours, theirs)
    assert weights_check(made.model, tmp_path, read_as=torch.float32, published=original_tensors).passed
    families = {"LLaVA-NeXT": None, "LLaVA-OneVision": "llava_onevision"}
    generic = "Omni" in name or "Phi-4" in name
    family = None if generic else families.get(name, "internvl" if "Intern" in name else "llava")
    assert checkpoint_entry(str(tmp_path)).family == family


def test_a_fault_in_a_file_in_its_authors_layout_is_seen(tmp_path: Path) -> None:
    write_original(internvl(), tmp_path)
    made = from_checkpoint(str(tmp_path), Loading(weights=str(tmp_path)))
    tensors = load_file(tmp_path / "model.safetensors")
    name = "vision_model.encoder.layers.0.attn.qkv.weight"
    queries, keys, values = tensors[name].chunk(3)
    save_file({**tensors, name: torch.cat([keys, queries, values])}, tmp_path / "model.safetensors")
    assert weights_check(made.model, tmp_path, read_as=torch.float32, published=original_tensors).passed is False
    save_file({**tensors, "mlp1.5.weight": torch.zeros(2)}, tmp_path / "model.safetensors")
    with pytest.raises(ValueError, match=r"not known: mlp1\.5\.weight"):
        from_checkpoint(str(tmp_path), Loading(weights=str(tmp_path)))


@pytest.mark.parametrize(
    ("build", "changes", "message"),
    [
        (internvl, {"ps_version": "v1"}, "ps_version is 'v1'"),
        (internvl, {"template": "internvl_zh"}, "template is 'internvl_zh'"),
        (internvl, {"llm_config": {"architectures": ["InternLM2VEForCausalLM"]}}, "model is 'InternLM2VEForCausalLM'"),
        (llava, {"mm_projector_type": "linear"}, "mm_projector_type is 'linear'"),
        (llava, {"image_aspect_ratio": "anyres"}, "is 'anyres with flat'"),
        (llava, {"mm_vision_tower": "biomedclip_cxr_518"}, "mm_vision_tower is 'biomedclip_cxr_518'"),
        (llava, {"mm_vision_tower": None, "mm_projector_cfg": {}}, "mm_vision_tower is None"),
        (llava, {"model_type": "llava_mpt2"}, "language model is 'mpt2'"),
    ],
)
def test_settings_that_transformers_class_lacks_are_refused_with_a_way_round(
    build: Callable[[], Nano], changes: dict[str, Any], message: str, tmp_path: Path
) -> None:
    write_original(build(), tmp_path, **changes)
    with pytest.raises(ValueError, match=rf"{message}.*model\.endpoint"):
        from_checkpoint(str(tmp_path), Loading(weights=str(tmp_path)))


@pytest.mark.parametrize("unknown", [True, False])
def test_an_image_has_its_place_in_a_token_that_a_tokenizer_without_one_has_free(unknown: bool, tmp_path: Path) -> None:
    plain = write_original(llava(), tmp_path)
    place = plain.config.image_token_id
    path, roles = tmp_path / "tokenizer.json", tmp_path / "tokenizer_config.json"
    told = json.loads(path.read_text("utf-8"))
    others = [each for each in told["added_tokens"] if each["content"] != "<image>"]
    held = next(each for each in told["added_tokens"] if each["content"] == "<image>")
    assert place == held["id"] == plain.config.text_config.vocab_size - 1
    told["added_tokens"] = [*others, {**held, "content": "<unk>"}] if unknown else others
    path.write_text(json.dumps(told), "utf-8")
    if unknown:
        roles.write_text(json.dumps({**json.loads(roles.read_text("utf-8")), "unk_token": "<unk>"}), "utf-8")
    made = from_checkpoint(str(tmp_path), Loading(weights=str(tmp_path)))
    assert made.provenance["image token"].startswith("<unk>" if unknown else "<image>")
    assert place in made.template.layout("Q", None, shapes=[size_of(picture(width=9, height=9))]).ids


@pytest.mark.parametrize(
    ("named", "expected"),
    [
        (
            "internvl2_5",
            "<|im_start|>system\nBe kind.<|im_end|>\n<|im_start|>user\nQ<|im_end|>\n<|im_start|>assistant\n",
        ),
        ("Hermes-2", "<|im_start|>system\nBe kind.<|im_end|><|im_start|>user\nQ<|im_end|><|im_start|>assistant\n"),
        ("phi3-chat", "<|system|>\nBe kind.<|end|><|user|>\nQ<|end|><|assistant|>\n"),
    ],
)
def test_turns_are_those_of_the_published_code(named: str, expected: str, tmp_path: Path) -> None:
    """Written out from InternVL's conversation.py: of its ChatML, only version 2.5 breaks lines between turns."""
    write_original(internvl(), tmp_path, template=named, system_message="Be kind.")
    template = read_processor(tmp_path, named).apply_chat_template
    asked = [{"role": "user", "content": [{"type": "text", "text": "Q"}]}]
    assert template(asked, add_generation_prompt=True) == expected


def test_a_llama_with_the_tokens_of_chatml_is_asked_in_it(tmp_path: Path) -> None:
    """Of LLaVA-1.6-34B, whose Yi has Llama's layers, the prompt is not Vicuna's."""
    write_original(llava(), tmp_path)
    assert read_config_prompt(tmp_path).startswith("vicuna_v1")
    path = tmp_path / "tokenizer.json"
    text = path.read_text("utf-8")
    assert "</s>" in text
    path.write_text(text.replace("<pad>", "<|im_start|>"), "utf-8")
    roles = tmp_path / "tokenizer_config.json"
    roles.write_text(roles.read_text("utf-8").replace("<pad>", "<|im_start|>"), "utf-8")
    assert read_config_prompt(tmp_path).startswith("ChatML")
    path.write_text(text.replace("<pad>", "<|start_header_id|>"), "utf-8")
    roles.write_text(roles.read_text("utf-8").replace("<|im_start|>", "<|start_header_id|>"), "utf-8")
    with pytest.raises(ValueError, match=r"Put a chat_template.jinja into a copy"):
        read_config_prompt(tmp_path)


def read_config_prompt(folder: Path) -> str:
    found = original_in(folder)
    assert found is not None
    return found.words["prompt"]


def test_the_system_message_of_the_published_code_is_read_and_not_run(tmp_path: Path) -> None:
    write_original(internvl(), tmp_path)
    code = "raise SystemExit\nregister(Conversation(name='internvl2_5', system_message='You are kind.'))\n"
    (tmp_path / "conversation.py").write_text(code, "utf-8")
    made = from_checkpoint(str(tmp_path), Loading(weights=str(tmp_path)))
    said = made.template.decode(made.template.layout("Q", None, shapes=()).ids)
    assert "You are kind." in said
    assert "conversation.py" in made.provenance["prompt"]
    made.template.save(made.model.save(tmp_path / "export"))
    assert json.loads((tmp_path / "export" / "config.json").read_text("utf-8"))["model_type"] == "internvl"


def test_phi4_without_its_adapter_for_images_is_refused_or_said(tmp_path: Path) -> None:
    for within in (True, False):
        folder = tmp_path / str(within)
        write_original(phi4(), folder, **({} if within else {"beside": True}))
        weights = (folder if within else folder / "vision-lora") / ("model" if within else "adapter_model")
        path = weights.with_suffix(".safetensors")
        save_file({n: t for n, t in load_file(path).items() if ".lora_" not in n}, path, metadata={"format": "pt"})
        with pytest.raises(ValueError, match="no adapter for images"):
            from_checkpoint(str(folder), Loading(weights=str(folder)))
    told = json.loads((tmp_path / "True" / "config.json").read_text("utf-8"))
    (tmp_path / "True" / "config.json").write_text(json.dumps({**told, "vision_lora": None}), "utf-8")
    with pytest.raises(ValueError, match="vision_lora is None"):
        read_config(str(tmp_path / "True"))
    shutil.rmtree(tmp_path / "False" / "vision-lora")
    made = from_checkpoint(str(tmp_path / "False"), Loading(weights=str(tmp_path / "False")))
    assert "taken as they are" in made.provenance["adapters"]
