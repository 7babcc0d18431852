"""Writes a reduced Qwen2.5-VL with the vendor's own small files and random weights, as a user would download it."""

import shutil
from pathlib import Path

import torch
from transformers import AutoConfig, AutoModelForImageTextToText

KEPT = (
    "chat_template.json", "generation_config.json", "merges.txt", "preprocessor_config.json", "tokenizer_config.json",
    "vocab.json",
)  # fmt: skip
INITIALIZER_RANGE = 0.2


def write_reduced(vendor: Path, folder: Path, *, seed: int = 0, dtype: torch.dtype = torch.bfloat16) -> Path:
    """Returns a folder with the vendor's files and a model of two layers and 64 channels that fits them."""
    folder.mkdir(parents=True)
    config = AutoConfig.from_pretrained(vendor, trust_remote_code=False)
    text, vision = config.text_config, config.vision_config
    text.hidden_size, text.intermediate_size, text.num_hidden_layers = 64, 96, 2
    text.num_attention_heads, text.num_key_value_heads = 4, 2
    text.layer_types = text.layer_types[:2]
    text.initializer_range = vision.initializer_range = INITIALIZER_RANGE
    # Three axes share the half of a head's sixteen channels, in the proportion of the full size.
    text.rope_parameters = {**text.rope_parameters, "mrope_section": [2, 3, 3]}
    vision.depth, vision.hidden_size, vision.intermediate_size, vision.num_heads = 2, 32, 48, 2
    vision.out_hidden_size, vision.fullatt_block_indexes = 64, [1]
    torch.manual_seed(seed)
    AutoModelForImageTextToText.from_config(config).to(dtype).save_pretrained(folder)
    for name in KEPT:
        shutil.copyfile(vendor / name, folder / name)
    return folder
