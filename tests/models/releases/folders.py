"""Writes the release folders of RadFM, M3D-LaMed, Merlin and CT-CHAT: their layout with tiny, random weights.

The entries of the zoo read them; only the widths of the towers and projectors are replaced by tiny ones. The sizes of
the language models come from the folders' own config.json.
"""

import io
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
from peft import LoraConfig, get_peft_model_state_dict, inject_adapter_in_model
from safetensors.torch import save_file
from sentencepiece import SentencePieceProcessor, SentencePieceTrainer
from torch import Tensor
from transformers import AutoModelForCausalLM, LlamaConfig, PreTrainedConfig

from medtune.models.nano import volume as nano
from medtune.models.projectors.coca import CoCaConfig, CoCaProjector
from medtune.models.projectors.linear import linear
from medtune.models.projectors.perceiver import PerceiverConfig, PerceiverProjector
from medtune.models.projectors.spatial_pool import SpatialPoolProjector
from medtune.models.sequence.volumes import MARK, REPORT_STOP_ID
from medtune.models.towers.ctvit import CTViT, CTViTConfig
from medtune.models.towers.merlin_resnet import MerlinResNet, MerlinResNetConfig
from medtune.models.towers.radfm_vit import RadFMViT, RadFMViTConfig
from medtune.models.towers.vit3d import M3DViT, M3DViTConfig
from medtune.models.volumes.volume_parts import VolumeParts, modules
from medtune.models.zoo import volumes

TEXT = (
    "Is there a lesion in the liver? yes no",
    "How large is the largest lesion of the pancreas, in cm?",
    "Which kidney holds the cyst: left, right, both or none?",
    "Generate a radiology report for the spleen and the colon.",
    "A. 5.2 B. 12.7 C. 33 D. 80 Answer with the letter alone.",
)


@cache
def sentencepiece_model(*, num_tokens: int = 330) -> bytes:
    """Returns a tokenizer.model of LLaMA's kind: byte pairs, bytes for other letters, a blank before each text."""
    written = io.BytesIO()
    SentencePieceTrainer.train(
        sentence_iterator=iter(TEXT * 20),
        model_writer=written,
        model_type="bpe",
        vocab_size=num_tokens,
        byte_fallback=True,
        unk_id=0,
        bos_id=1,
        eos_id=2,
        pad_id=-1,
        normalization_rule_name="identity",
        remove_extra_whitespaces=False,
        hard_vocab_limit=False,
        num_threads=1,
        minloglevel=2,
    )
    return written.getvalue()


def write_spelling(folder: Path, config: dict[str, object], *, added: tuple[str, ...] = ()) -> int:
    """Writes tokenizer.model, tokenizer_config.json and the added tokens; returns the number of tokens."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "tokenizer.model").write_bytes(sentencepiece_model())
    number = int(SentencePieceProcessor(model_file=str(folder / "tokenizer.model")).vocab_size())
    (folder / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": "LlamaTokenizer", **config}))
    if added:
        ids = {token: number + place for place, token in enumerate(added)}
        (folder / "added_tokens.json").write_text(json.dumps(ids))
    return number + len(added)


LLAMA: dict[str, Any] = {
    "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "rms_norm_eps": 1e-5,
    "initializer_range": 0.2, "max_position_embeddings": 2048,
}  # fmt: skip
MERLIN_FILE = "resnet_gpt2_best_stanford_report_generation_average_mtl.pt"
PROMPT = "You look at scans. Answer in one word."
NAMED: Mapping[str, object] = {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>"}


def radfm_parts() -> VolumeParts:
    tower = RadFMViTConfig(width=24, depth=1, heads=2, head_width=8, mlp_width=32)
    bridge = PerceiverConfig(width=24, depth=1, heads=2, head_width=8, latents=32)
    return replace(
        _OWN["radfm"](), vision=lambda: RadFMViT(tower), projector=lambda width: PerceiverProjector(bridge, width)
    )


def m3d_parts(name: str) -> VolumeParts:
    tower = M3DViTConfig(width=24, mlp_width=32, depth=1, heads=2)
    return replace(_OWN[name](), vision=lambda: M3DViT(tower), projector=lambda width: SpatialPoolProjector(24, width))


def merlin_parts(tokens: volumes.MerlinTokens) -> VolumeParts:
    tower = MerlinResNetConfig(layers=(1, 1, 1, 1), planes=(2, 4, 4, 8), pooled=tokens.pooled)
    return replace(
        _OWN["merlin"](tokens), vision=lambda: MerlinResNet(tower), projector=lambda width: linear(tower.width, width)
    )


def ct_chat_parts() -> VolumeParts:
    tower = CTViTConfig(width=16, spatial_depth=1, temporal_depth=1, heads=2, head_width=8, mlp_width=21, codes=64)
    bridge = CoCaConfig(width=16, heads=2)
    return replace(_OWN["ct_chat"](), vision=lambda: CTViT(tower), projector=lambda width: CoCaProjector(bridge, width))


_OWN: dict[str, Callable[..., VolumeParts]] = {
    name: getattr(volumes, f"{name}_parts") for name in ("radfm", "m3d_llama2", "m3d_phi3", "merlin", "ct_chat")
}


def shrink(patch: pytest.MonkeyPatch) -> None:
    """Gives the zoo entries of the releases tiny towers and projectors."""
    patch.setattr(volumes, "radfm_parts", radfm_parts)
    patch.setattr(volumes, "m3d_llama2_parts", lambda: m3d_parts("m3d_llama2"))
    patch.setattr(volumes, "m3d_phi3_parts", lambda: m3d_parts("m3d_phi3"))
    patch.setattr(volumes, "merlin_parts", merlin_parts)
    patch.setattr(volumes, "ct_chat_parts", ct_chat_parts)


def renamed(tensors: Mapping[str, Tensor], rules: Mapping[str, str]) -> dict[str, Tensor]:
    """Returns tensors under published names; the first pattern that a name begins with is replaced."""
    found = {}
    for name, tensor in tensors.items():
        ours = next(pattern for pattern in rules if re.match(pattern, name))
        found[re.sub(f"^{ours}", rules[ours], name)] = tensor.clone()
    return found


def weights_of(parts: VolumeParts, language: PreTrainedConfig) -> dict[str, Tensor]:
    torch.manual_seed(3)
    return modules(replace(parts, language=language)).state_dict()


def write_radfm(folder: Path) -> dict[str, Tensor]:
    """Writes pytorch_model.bin and Language_files, and returns the weights under medtune's names."""
    said = {**LLAMA, "model_type": "llama", "bos_token_id": 0, "eos_token_id": 1, "pad_token_id": -1}
    inside = folder / "Language_files"
    number = write_spelling(inside, {"bos_token": "", "eos_token": "", "unk_token": ""})
    (inside / "special_tokens_map.json").write_text("{}")
    (inside / "config.json").write_text(json.dumps({**said, "vocab_size": number}))
    own = weights_of(radfm_parts(), LlamaConfig(vocab_size=number, **LLAMA))
    file = renamed(
        own,
        {
            r"language\.": "lang_model.",
            r"vision\.patch_embedding\.0\.": "embedding_layer.vision_encoder.to_patch_embedding.1.",
            r"vision\.patch_embedding\.1\.": "embedding_layer.vision_encoder.to_patch_embedding.2.",
            r"vision\.patch_embedding\.2\.": "embedding_layer.vision_encoder.to_patch_embedding.3.",
            r"vision\.positions\.tables\.0\.": "embedding_layer.vision_encoder.pos_embedding.row_embed.",
            r"vision\.positions\.tables\.1\.": "embedding_layer.vision_encoder.pos_embedding.col_embed.",
            r"vision\.positions\.tables\.2\.": "embedding_layer.vision_encoder.pos_embedding.dep_embed.",
            r"vision\.blocks\.(\d+)\.norm1\.": r"embedding_layer.vision_encoder.transformer.layers.\1.0.norm.",
            r"vision\.blocks\.(\d+)\.attn\.qkv\.": r"embedding_layer.vision_encoder.transformer.layers.\1.0.fn.to_qkv.",
            r"vision\.blocks\.(\d+)\.attn\.out_proj\.": (
                r"embedding_layer.vision_encoder.transformer.layers.\1.0.fn.to_out.0."
            ),
            r"vision\.blocks\.(\d+)\.norm2\.": r"embedding_layer.vision_encoder.transformer.layers.\1.1.norm.",
            r"vision\.blocks\.(\d+)\.mlp\.linear1\.": (
                r"embedding_layer.vision_encoder.transformer.layers.\1.1.fn.net.0."
            ),
            r"vision\.blocks\.(\d+)\.mlp\.linear2\.": (
                r"embedding_layer.vision_encoder.transformer.layers.\1.1.fn.net.3."
            ),
            r"projector\.resampler\.latents": "embedding_layer.perceiver.latents",
            r"projector\.resampler\.blocks\.(\d+)\.0\.context_layer_norm\.": (
                r"embedding_layer.perceiver.layers.\1.0.norm_media."
            ),
            r"projector\.resampler\.blocks\.(\d+)\.0\.latents_layer_norm\.": (
                r"embedding_layer.perceiver.layers.\1.0.norm_latents."
            ),
            r"projector\.resampler\.blocks\.(\d+)\.0\.q_proj\.": r"embedding_layer.perceiver.layers.\1.0.to_q.",
            r"projector\.resampler\.blocks\.(\d+)\.0\.(k|v)_proj\.": r"embedding_layer.perceiver.layers.\1.0.\2.",
            r"projector\.resampler\.blocks\.(\d+)\.0\.output_proj\.": r"embedding_layer.perceiver.layers.\1.0.to_out.",
            r"projector\.resampler\.blocks\.(\d+)\.1\.ln\.": r"embedding_layer.perceiver.layers.\1.1.0.",
            r"projector\.resampler\.blocks\.(\d+)\.1\.fc\.": r"embedding_layer.perceiver.layers.\1.1.1.",
            r"projector\.resampler\.blocks\.(\d+)\.1\.c_proj\.": r"embedding_layer.perceiver.layers.\1.1.3.",
            r"projector\.resampler\.layer_norm\.": "embedding_layer.perceiver.norm.",
            r"projector\.linear\.": "embedding_layer.fc.",
            r"projector\.tags": "embedding_layer.figure_token_weight",
        },
    )
    first = "embedding_layer.perceiver.layers.0.0."
    file[f"{first}to_kv.weight"] = torch.cat([file.pop(f"{first}{half}.weight") for half in "kv"])
    file["embedding_layer.weight"] = file["lang_model.model.embed_tokens.weight"]
    file["lang_model.model.layers.0.self_attn.rotary_emb.inv_freq"] = torch.ones(4)
    file["embedding_layer.bert_model.embeddings.position_ids"] = torch.arange(4)
    file["embedding_layer.cls_head.weight"] = torch.ones(2, 3)
    torch.save(file, folder / "pytorch_model.bin")
    return own


def write_m3d(folder: Path, *, name: str = "m3d_llama2") -> dict[str, Tensor]:
    """Writes two shards with their index, the tokenizer with its four added tokens, and a config of its own class."""
    number = write_spelling(
        folder,
        {**NAMED, "pad_token": "<unk>", "model_max_length": 512},
        added=("<im_patch>", "<bx_start>", "<bx_end>", "[SEG]"),
    )
    said: dict[str, Any] = {**LLAMA, "vocab_size": number}
    said |= {"model_type": f"lamed_{name[4:]}", "auto_map": {"AutoConfig": "configuration.LamedConfig"}}
    (folder / "config.json").write_text(json.dumps(said))
    built: Any = type(_OWN[name]().language)
    language = built(vocab_size=number, pad_token_id=None, bos_token_id=None, eos_token_id=None, **LLAMA)
    own = weights_of(m3d_parts(name), language)
    rules = {
        r"vision\.vit\.": "model.vision_tower.vision_tower.",
        r"projector\.mlp\.": "model.mm_projector.projector.",
        r"language\.": "",
    }
    file = renamed(own, rules) | {"model.seg_module.mask.weight": torch.ones(2)}
    _write_shards(folder, file)
    return own


def _write_shards(folder: Path, file: Mapping[str, Tensor]) -> None:
    names = sorted(file)
    shards = {f"model-0000{n}-of-00002.safetensors": names[n - 1 :: 2] for n in (1, 2)}
    for shard, held in shards.items():
        save_file({name: file[name].contiguous() for name in held}, folder / shard, metadata={"format": "pt"})
    index = {name: shard for shard, held in shards.items() for name in held}
    (folder / "model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": index}))


def write_merlin(folder: Path) -> dict[str, Tensor]:
    """Writes the report model's .pt file with its adapter apart, and RadLLaMA's tokenizer in a folder of its own."""
    inside = folder / "RadLLaMA-7b"
    number = write_spelling(inside, dict(NAMED))
    fillers = tuple(f"[[{place}]]" for place in range(number, REPORT_STOP_ID - 1))
    number = write_spelling(inside, dict(NAMED), added=(*fillers, MARK, "[[stop]]"))
    assert number == REPORT_STOP_ID + 1
    (inside / "config.json").write_text(json.dumps({**LLAMA, "model_type": "llama", "vocab_size": number}))
    own = weights_of(merlin_parts(volumes.POOLED), LlamaConfig(vocab_size=number, **LLAMA))
    peft = "decode_text.text_decoder.base_model.model."
    rules = {
        r"language\.(.+self_attn\.[qv]_proj)\.weight": rf"{peft}\1.base_layer.weight",
        r"language\.": peft,
        r"projector\.each\.": "adapter.linear2.",
    }
    layers = ((0, "conv1"), (1, "bn1"), (4, "layer1"), (5, "layer2"), (6, "layer3"), (7, "layer4"))
    rules |= {rf"vision\.net\.{ours}\.": f"encode_image.vision_model.features.{place}." for place, ours in layers}
    file = renamed(own, rules)
    for name in [name for name in file if name.endswith(".base_layer.weight")]:
        stem = name.removesuffix(".base_layer.weight")
        down, up = torch.randn(8, file[name].shape[1]), torch.randn(file[name].shape[0], 8)
        file[f"{stem}.lora_A.default.weight"], file[f"{stem}.lora_B.default.weight"] = down, up
        key = "language." + stem.removeprefix(peft) + ".weight"
        own[key] = own[key] + 16 / 512 * up @ down
    torch.save(file, folder / MERLIN_FILE)
    return own


def write_ct_chat(folder: Path) -> dict[str, Tensor]:
    """Writes the tower, the projector, the adapter, the language model and the published file of conversations."""
    inside = folder / "language"
    inside.mkdir(parents=True)
    spelling = nano.tokenizer()
    spelling.save_pretrained(inside)
    config = LlamaConfig(vocab_size=len(spelling), **LLAMA)
    own = weights_of(ct_chat_parts(), config)
    torch.manual_seed(4)
    language: Any = AutoModelForCausalLM.from_config(config)
    plain = {name.removeprefix("language."): t for name, t in own.items() if name.startswith("language.")}
    language.load_state_dict(plain)
    config.save_pretrained(inside)
    _write_shards(inside, plain)
    lora = LoraConfig(r=4, lora_alpha=8, target_modules=["q_proj", "v_proj"], task_type="CAUSAL_LM")
    adapted = inject_adapter_in_model(lora, language)
    for name, weight in adapted.named_parameters():
        if "lora_B" in name:
            torch.nn.init.normal_(weight)
            stem = name.removesuffix(".lora_B.default.weight")
            down = adapted.get_parameter(f"{stem}.lora_A.default.weight")
            own[f"language.{stem}.weight"] = (plain[f"{stem}.weight"] + 2 * weight @ down).detach()
    halves = {f"base_model.model.{name}": t.clone() for name, t in get_peft_model_state_dict(adapted).items()}
    save_file(halves, folder / "adapter_model.safetensors", metadata={"format": "pt"})
    lora.save_pretrained(str(folder))
    torch.save(_tower_file(own), folder / "CT-CLIP_v2.pt")
    torch.save(_projector_file(own), folder / "non_lora_trainables.bin")
    (folder / "conversation.py").write_text(
        "raise RuntimeError('this file is read, not run')\nconv_llama3 = Conversation(\n    system="
        f'"""<|begin_of_text|><|start_header_id|>system<|end_header_id|>\\n\\n{PROMPT}""",\n    version="llama3",\n)\n'
    )
    return own


def _tower_file(own: Mapping[str, Tensor]) -> dict[str, Tensor]:
    top = "visual_transformer."
    layer = r"vision\.(spatial|temporal)\.layers\.(\d+)\."
    theirs = rf"{top}enc_\1_transformer.layers.\2."
    file = renamed(
        {name: each for name, each in own.items() if name.startswith("vision.")},
        {
            r"vision\.patch_embedding\.0\.": f"{top}to_patch_emb.1.",
            r"vision\.patch_embedding\.1\.": f"{top}to_patch_emb.2.",
            r"vision\.patch_embedding\.2\.": f"{top}to_patch_emb.3.",
            r"vision\.unread\.first_norm_": f"{top}to_patch_emb_first_frame.1.",
            r"vision\.unread\.first_linear_": f"{top}to_patch_emb_first_frame.2.",
            r"vision\.unread\.first_out_": f"{top}to_patch_emb_first_frame.3.",
            r"vision\.unread\.pixels_": f"{top}to_pixels.0.",
            r"vision\.unread\.first_pixels_": f"{top}to_pixels_first_frame.0.",
            r"vision\.position_bias\.net\.0\.": f"{top}spatial_rel_pos_bias.net.0.0.",
            r"vision\.position_bias\.net\.2\.": f"{top}spatial_rel_pos_bias.net.1.0.",
            r"vision\.position_bias\.net\.4\.": f"{top}spatial_rel_pos_bias.net.2.",
            rf"{layer}near\.": f"{theirs}0.dsconv.",
            rf"{layer}attention\.norm\.weight": f"{theirs}1.norm.gamma",
            rf"{layer}attention\.": f"{theirs}1.",
            rf"{layer}mlp\.norm\.": f"{theirs}3.0.",
            rf"{layer}mlp\.to_hidden\.": f"{theirs}3.1.",
            rf"{layer}mlp\.to_out\.": f"{theirs}3.4.",
            r"vision\.(spatial|temporal)\.norm\.weight": rf"{top}enc_\1_transformer.norm_out.gamma",
            r"vision\.codebook_1KD": f"{top}vq._codebook.embed",
        },
    )
    file |= {
        f"{top}enc_spatial_transformer.norm_out.beta": torch.zeros(16),
        f"{top}vq._codebook.initted": torch.ones(1),
    }
    file |= {"text_transformer.embeddings.position_ids": torch.arange(3), "temperature": torch.ones([])}
    return file


def _projector_file(own: Mapping[str, Tensor]) -> dict[str, Tensor]:
    top = "base_model.model.model.mm_projector."
    file = renamed(
        {name: each for name, each in own.items() if name.startswith("projector.")},
        {
            r"projector\.pool\.query_QD": f"{top}attn_pool.query",
            r"projector\.pool\.norm_query\.": f"{top}attn_pool.ln_q.",
            r"projector\.pool\.norm_features\.": f"{top}attn_pool.ln_k.",
            r"projector\.pool\.attention\.in_proj_weight": f"{top}attn_pool.to_q.weight",
            r"projector\.pool\.attention\.out_proj\.": f"{top}attn_pool.to_out.",
            r"projector\.norm\.": f"{top}ln.",
            r"projector\.mlp\.": f"{top}proj.",
        },
    )
    query, both = file[f"{top}attn_pool.to_q.weight"].split([16, 32])
    file |= {f"{top}attn_pool.to_q.weight": query.clone(), f"{top}attn_pool.to_kv.weight": both.clone()}
    return file


WRITERS: dict[str, Callable[[Path], dict[str, Tensor]]] = {
    "radfm": write_radfm,
    "m3d_llama2": write_m3d,
    "m3d_phi3": lambda folder: write_m3d(folder, name="m3d_phi3"),
    "merlin": write_merlin,
    "ct_chat": write_ct_chat,
}
