"""The key map of Merlin's report model.

Source: StanfordMIMI/Merlin@2489a96b and merlin-vlm 0.0.7; StanfordMIMI/Merlin issue 36 (the image encoders in the two
files differ, so that each model is read from its own file).
"""

import re
from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor

from medtune.models.weights.keymaps.key_map import KeyMap, Rule, rename
from medtune.models.weights.keymaps.read_file import Deferred

_MODULES = ((0, "conv1"), (1, "bn1"), (4, "layer1"), (5, "layer2"), (6, "layer3"), (7, "layer4"))
_PEFT = r"decode_text\.text_decoder\.base_model\.model\."

LORA_SCALE = 16 / 512
"""The scale alpha / r of the report model's adapter.

Source: merlin-vlm 0.0.7.
"""

REPORT = KeyMap(
    checkpoint="Merlin's report model",
    rules=(
        *(rename(f"encode_image.vision_model.features.{index}.", f"vision.net.{name}.") for index, name in _MODULES),
        rename("adapter.linear2.", "projector.each."),
        Rule(_PEFT + r"(.+?)\.base_layer\.(.+)", (r"language.\1.\2",)),
        Rule(_PEFT + r"((?!.*\.lora_).+)", (r"language.\1",)),
    ),
    left_out=(_PEFT + r".+\.rotary_emb\.inv_freq",),
)
"""The key map of the report model's tensors after `merged`, which removes the tensors of the adapter."""


def merged(tensors: Deferred, *, scale: float = LORA_SCALE) -> Deferred:
    """Returns the report model's tensors without adapters: each adapted weight W is replaced by W + scale * B A.

    Args:
        tensors: The tensors of the published file.
        scale: Scale of the adapters, alpha / r.
    """
    halves = re.compile(r"(.+)\.lora_([AB])\.default\.weight")
    plain = {name: read for name, read in tensors.items() if not halves.fullmatch(name)}
    for stem in sorted({m[1] for name in tensors if (m := halves.fullmatch(name))}):
        names = [f"{stem}.base_layer.weight", f"{stem}.lora_B.default.weight", f"{stem}.lora_A.default.weight"]
        if absent := [name for name in names if name not in tensors]:
            raise ValueError(f"the adapter of {stem} is not whole: {', '.join(absent)} missing")
        plain[names[0]] = partial(_adapted, *(tensors[name] for name in names), scale=scale)
    return plain


def _adapted(
    weight: Callable[[], Tensor], up: Callable[[], Tensor], down: Callable[[], Tensor], *, scale: float
) -> Tensor:
    before = weight()
    return torch.addmm(before.float(), up().float(), down().float(), alpha=scale).to(before.dtype)
