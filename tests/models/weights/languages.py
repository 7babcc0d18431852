"""Writes tiny language models of several families as folders in transformers' format."""

from pathlib import Path

import torch
from transformers import (
    AutoModelForCausalLM,
    GPT2Config,
    MistralConfig,
    PreTrainedConfig,
    PreTrainedTokenizerFast,
    Qwen2Config,
)

from medtune.models.nano.tokenizer import byte_tokenizer
from medtune.models.nano.transformers_vlm import text_config

TEMPLATE = (
    "{{ bos_token }}{% for m in messages %}<user>{{ m.role }}: {{ m.content }}<stop>\n{% endfor %}"
    "{% if add_generation_prompt %}<user>assistant: {% endif %}"
)
KINDS = ("qwen2", "gpt2", "mistral")


def tokenizer(template: str | None = TEMPLATE) -> PreTrainedTokenizerFast:
    """Returns a tokenizer of bytes with two control tokens of its own."""
    found = byte_tokenizer(("<begin>", "<user>", "<stop>"), bos="<begin>", eos="<stop>", pad="<stop>")
    found.chat_template = template
    return found


def write_language(folder: Path, kind: str) -> Path:
    """Writes a random model; qwen2 and mistral (with a sliding window) have a chat template, gpt2 has none."""
    words = tokenizer(None if kind == "gpt2" else TEMPLATE)
    sizes = text_config(words)
    configs: dict[str, PreTrainedConfig] = {
        "qwen2": Qwen2Config(**sizes),
        "mistral": MistralConfig(**sizes, sliding_window=512),
        "gpt2": GPT2Config(
            vocab_size=len(words), n_embd=32, n_layer=2, n_head=4, n_positions=1024, initializer_range=0.2
        ),
    }
    torch.manual_seed(0)
    AutoModelForCausalLM.from_config(configs[kind]).save_pretrained(folder)
    words.save_pretrained(folder)
    return folder
