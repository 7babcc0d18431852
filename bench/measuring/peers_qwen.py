"""A Qwen2.5-VL with random weights that is large enough for its arithmetic to matter, for comparing medtune with peers.

It is written as a folder of transformers, which every tool reads. Weights are in float32.
"""

from pathlib import Path

import torch
from safetensors.torch import load_file, save_file
from transformers import PreTrainedTokenizerFast, Qwen2_5_VLConfig, Qwen2_5_VLProcessor, Qwen2VLVideoProcessor

from medtune.models.nano.transformers_vlm import write_nano
from medtune.models.zoo.nano_any_size import QWEN_TEMPLATE, build_qwen

TOKEN_PX = 28
"""Side, in pixels, of the square of an image that becomes one visual token."""
_STD = 0.07
"""Standard deviation of random weights: 0.2 at the twins' width of 32, less at 256 by the root of the widths' ratio."""
_OUTPUT = "lm_head.weight"
_PARTS = "{% for part in message['content'] %}"
_TEXT_OR_PARTS = (
    "{% for part in ([{'type': 'text', 'text': message['content']}] if message['content'] is string "
    "else message['content']) %}"
)
"""lmms-eval gives the system turn as a text, and the user's as parts."""


def write_peers_model(folder: Path, *, width: int = 256, layers: int = 6, seed: int = 0) -> None:
    """Writes the model and its processor, which shows an image of N x N pixels in (N / 28)^2 tokens, 4 to 1,024."""
    nano = build_qwen(
        Qwen2_5_VLConfig,
        Qwen2_5_VLProcessor,
        Qwen2VLVideoProcessor,
        vision={
            "depth": 4, "hidden_size": 128, "num_heads": 4, "intermediate_size": 256, "out_hidden_size": width,
            "fullatt_block_indexes": [1, 3], "window_size": 112, "initializer_range": _STD,
        },
        text={
            "hidden_size": width, "intermediate_size": 3 * width, "num_hidden_layers": layers,
            "num_attention_heads": width // 32, "num_key_value_heads": max(width // 128, 1),
            "initializer_range": _STD,
            "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0, "mrope_section": [4, 6, 6]},
        },
    )  # fmt: skip
    nano.processor.image_processor.size = {"shortest_edge": 4 * TOKEN_PX**2, "longest_edge": 1024 * TOKEN_PX**2}
    nano.processor.chat_template = QWEN_TEMPLATE.replace(_PARTS, _TEXT_OR_PARTS)
    write_nano(nano, folder, seed=seed)
    _write_legibly(folder / "model.safetensors", nano.processor.tokenizer)


def _write_legibly(weights: Path, tokenizer: PreTrainedTokenizerFast) -> None:
    """Takes the rows of the output layer that belong to bytes which are no visible ASCII away.

    Their logits are 0, below the largest of the others. Replies would else be bytes that all decode to one sign, and
    different replies would look the same.
    """
    tensors = load_file(weights)
    kept = [*map(chr, range(ord("!"), ord("~") + 1)), str(tokenizer.eos_token)]
    rows = torch.ones(len(tensors[_OUTPUT]), dtype=torch.bool)
    rows[tokenizer.convert_tokens_to_ids(kept)] = False
    tensors[_OUTPUT][rows] = 0.0
    save_file(tensors, weights, metadata={"format": "pt"})
