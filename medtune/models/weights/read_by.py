"""The versions of transformers, vLLM and SGLang that read what `medtune export` writes: the one place that says so."""

from collections.abc import Sequence

import transformers

OLDEST_TRANSFORMERS = "5.6"
"""The oldest version that reads an export and gives the same log-probabilities.

Source: exports of the twins nano_qwen2vl, _qwen25vl, _qwen3vl, _gemma3, _mllama, _llava, _llava_next_video,
_llava_onevision and _internvl, written by transformers 5.23.0 and read on 2026-11-23 by 4.57.6, 5.0.0, 5.4.0, 5.6.2,
5.8.1, 5.10.4, 5.12.1 and 5.16.1. From 5.6.2 on all nine gave the log-probabilities of 5.23.0 to 5 digits. 5.4.0 gave
others for Qwen2.5-VL without a word, and 5.0.0 and 5.4.0 left the towers of Gemma 3 and LLaVA random, with a warning.
4.57.6 does not know `rope_parameters` in config.json (it took 1000000 for Qwen2.5-VL's rotary base of 10000), and
refuses Mllama, Qwen3-VL and the tokenizers. Adapters of nano_qwen25vl, _gemma3, _mllama and _llava in the same
versions, with peft 0.21.2: the same from 5.6.2 on, others in 5.0.0 and 5.4.0, no answer from 4.57.6.
"""
_VLLM = "vLLM 0.33 (it needs transformers 5.16.1 to 5.20)"
_SGLANG = "SGLang 0.5.23 (it needs transformers 5.19.0)"
_NOT_IN_VLLM = {"mllama": "vLLM removed Llama 3.2 Vision in 0.10.2"}
"""Source: vLLM 0.33.0, model_executor/models/registry.py, and SGLang 0.5.23, read from their wheels."""
_VLLM_RANKS = (1, 8, 16, 32, 64, 128, 256, 320, 512)
"""The values of vLLM's `max_lora_rank`.

Source: vLLM 0.33.0, config/lora.py.
"""
_NO_LORA_IN_VLLM = ("llava_onevision", "mllama")
"""Source: vLLM 0.33.0: the classes that do not inherit SupportsLoRA."""


def merged_read_by(model_type: str | None) -> list[str]:
    """Returns sentences on who reads a merged export; no model type is that of what only medtune puts together."""
    if model_type is None:
        return ["Only medtune reads the whole folder; the folder `language` is a model of transformers for text alone."]
    lines = [
        f"Written by transformers {transformers.__version__}. transformers {OLDEST_TRANSFORMERS} and newer read it; "
        "older ones do not: 4.57 does not know its configuration, and 5.0 to 5.5 can give other answers without an "
        "error."
    ]
    if model_type in _NOT_IN_VLLM:
        lines.append(f"Servers: {_SGLANG}; not vLLM: {_NOT_IN_VLLM[model_type]}. We have not run it there.")
    else:
        lines.append(f"Servers by their version of transformers: {_VLLM} and {_SGLANG}. We have not run them.")
    return lines


def adapter_read_by(model_type: str | None, *, ranks: Sequence[int], copies_modules: bool, dora: bool) -> list[str]:
    """Returns sentences on who reads an adapter folder."""
    if model_type is None:
        return ["PEFT reads the adapters of the language model; only medtune puts the whole model together."]
    lines = [
        f"Written for transformers {transformers.__version__} and its names of layers; peft reads it with "
        f"transformers {OLDEST_TRANSFORMERS} and newer. With 5.0 to 5.5 the answers can be others without an error, "
        "and in 4.57 the layers of towers have other names: use neither."
    ]
    because = []
    if copies_modules:
        because.append("it holds whole modules (modules_to_save), such as the projector")
    if dora:
        because.append("it has DoRA")
    if model_type in _NO_LORA_IN_VLLM:
        because.append(f"vLLM takes no adapters for {model_type}")
    if max(ranks) > max(_VLLM_RANKS):
        because.append(f"its rank {max(ranks)} is above {max(_VLLM_RANKS)}")
    if because:
        lines.append(f"vLLM 0.33 does not serve it as an adapter: {'; '.join(because)}. Serve the merged export.")
    else:
        fits = min(rank for rank in _VLLM_RANKS if rank >= max(ranks))
        lines.append(f"vLLM 0.33 takes it with --enable-lora --max-lora-rank {fits}. We have not run it there.")
    return lines
