"""Builds full-size models with random weights, to measure time and memory where the released files are missing.

A tokenizer that has one token for each byte takes the place of the released one, whose files are not at hand either.
Each text therefore has about four times as many tokens as with the released tokenizer, so that the shared image is a
smaller part of a sequence. Otherwise the time does not depend on the weights or the tokenizer.
"""

import torch
from transformers import AutoModelForImageTextToText

from medtune.models.assemble import zoo_entry
from medtune.models.contract import Assembled
from medtune.models.nano.volume import tokenizer
from medtune.models.transformers_vlm.families import find_family
from medtune.models.transformers_vlm.loading import put_together
from medtune.models.volumes.volume_parts import chosen, modules
from medtune.models.weights.loading_options import DEFAULT
from medtune.models.zoo.hub import qwen25vl_config
from medtune.models.zoo.nano_any_size import build_qwen25vl

PICTURE_PX = (1024, 576)
"""Width and height of the test image: 589,824 pixels, the limit in Qwen2.5-VL's recipe, or 36 x 20 visual tokens."""
_TOKENS = ("image_token_id", "video_token_id", "vision_start_token_id", "vision_end_token_id")


def random_weights(model: str, device: torch.device) -> Assembled:
    """Returns the model of a zoo entry with random weights, drawn on the device, and a tokenizer of bytes."""
    torch.manual_seed(0)
    assembled = _qwen(device) if model == "qwen25vl_7b" else _over_volumes(model, device)
    assembled.model.eval()
    return assembled


def _over_volumes(model: str, device: torch.device) -> Assembled:
    entry = zoo_entry(model)
    if not entry.variants:
        raise ValueError(
            f"random weights at full size are for qwen25vl_7b, or a model over volumes such as m3d_llama2, not {model}"
        )
    parts = chosen(entry.variants, None)
    with device:
        built = modules(parts)
    return Assembled(
        model=built,
        template=parts.limited(tokenizer()),
        transform=parts.input_of(lambda: built.vision),
        provenance=dict.fromkeys(("vision", "projector", "language"), "random (seed 0)"),
    )


def _qwen(device: torch.device) -> Assembled:
    twin, config = build_qwen25vl(), qwen25vl_config()
    for name in _TOKENS:
        setattr(config, name, getattr(twin.config, name))
    # The processor gets the limits of the release, because the twin's own shrink every image to a few tokens.
    twin.processor.image_processor.size = {"shortest_edge": 56 * 56, "longest_edge": PICTURE_PX[0] * PICTURE_PX[1]}
    with device:
        whole = AutoModelForImageTextToText.from_config(config, attn_implementation="sdpa", trust_remote_code=False)
    return put_together(whole, twin.processor, find_family("qwen2_vl"), DEFAULT, where="random (seed 0)")
