"""pocket_ct and its twin: a tower and a projector by name, both untrained, before a language model."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import torch
from transformers import AutoModelForCausalLM, PreTrainedConfig

from medtune.data.volumes.pocket import POCKET
from medtune.models.assemble import ZooEntry
from medtune.models.loading_plan import DEFAULT, Loading, refuse_loading
from medtune.models.sequence.chatml import ChatML
from medtune.models.sequence.limited import Limited
from medtune.models.smollm2 import LanguageModel
from medtune.models.vlm import Assembled, VisionLanguageModel
from medtune.models.volume_parts import bridged
from medtune.models.volume_vlm import VolumeInput

VISION, PROJECTOR = "resnet3d", "linear"


def pocket_entry(
    name: str, title: str, *, load: Callable[[], LanguageModel], architecture: Callable[[], PreTrainedConfig]
) -> ZooEntry:
    """Returns the zoo entry of a model whose tower and projector `model.vision` and `model.projector` name.

    Args:
        name: For messages.
        title: One line on the model.
        load: Gives the language model, which speaks ChatML; random weights are drawn from torch's generator.
        architecture: Gives its configuration, for building it without weights.
    """

    def assemble(seed: int, loading: Loading = DEFAULT) -> Assembled:
        refuse_loading(replace(loading, vision=None, projector=None), name=name)
        vision, projector = loading.vision or VISION, loading.projector or PROJECTOR
        eyes, bridge = bridged(vision, projector, POCKET.shape)
        torch.manual_seed(seed)
        language = load()
        torch.manual_seed(seed)
        untrained = f"random (seed {seed}); untrained at zero-shot"
        return Assembled(
            model=VisionLanguageModel(eyes.build(), bridge.build(language.model.config.hidden_size), language.model),
            family=Limited(
                ChatML(language.tokenizer, num_media_tokens=bridge.num_tokens),
                max_tokens=int(language.model.config.max_position_embeddings),
            ),
            transform=VolumeInput(POCKET),
            provenance={
                "vision": f"{vision}, {untrained}",
                "projector": f"{projector}, {untrained}",
                "language": language.provenance,
            },
        )

    def skeleton() -> VisionLanguageModel:
        config = architecture()
        eyes, bridge = bridged(VISION, PROJECTOR, POCKET.shape)
        with torch.device("meta"):
            language = AutoModelForCausalLM.from_config(config)
            return VisionLanguageModel(eyes.build(), bridge.build(config.hidden_size), language)

    return ZooEntry(title, "Apache-2.0", assemble, skeleton)
