"""Builds pocket_ct and its twin: an untrained tower and projector, chosen by name, with a language model.

The models see only a crop around the organ that a question names, because a few hundred training steps hardly teach a
language model where to look.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import nn
from transformers import AutoModelForCausalLM, PreTrainedConfig, PreTrainedModel

from medtune.data.media.volumes.transforms.pocket import POCKET
from medtune.models.assemble import ZooEntry
from medtune.models.contract import Assembled
from medtune.models.nano.twin import Twin
from medtune.models.pocket.smollm2 import LanguageModel
from medtune.models.projectors import Projector, find_projector
from medtune.models.sequence.chat_template import ChatTemplate
from medtune.models.sequence.chatml import ChatML
from medtune.models.sequence.context_limit import ContextLimited
from medtune.models.towers import Tower, find_tower
from medtune.models.vlm import VisionLanguageModel
from medtune.models.volumes.volume_input import VolumeInput
from medtune.models.weights.causal_language import context_of, load_language
from medtune.models.weights.loading_options import DEFAULT, Loading

VISION, PROJECTOR = "resnet3d", "linear"


def pocket_entry(
    name: str,
    title: str,
    *,
    load: Callable[[], LanguageModel],
    architecture: Callable[[], PreTrainedConfig],
    twin: Twin | None = None,
) -> ZooEntry:
    """Returns the zoo entry of a model with the tower and projector that `model.vision` and `model.projector` name.

    `model.language` replaces its language model by any causal language model of transformers.

    Args:
        name: Name of the model, for messages.
        title: One line on the model.
        load: Returns its own language model, which reads ChatML; random weights are drawn from torch's generator.
        architecture: Returns the configuration of that language model, for building it without weights.
        twin: Facts about the model for tests, where its language model is tiny and random; None for a real model.
    """

    def assemble(seed: int, loading: Loading = DEFAULT) -> Assembled:
        vision, projector = loading.vision or VISION, loading.projector or PROJECTOR
        eyes = find_tower(vision, POCKET.shape)
        bridge = find_projector(projector, eyes)
        torch.manual_seed(seed)
        language = load() if loading.language is None else load_language(loading.language, dtype=loading.dtype)
        language.model.to(getattr(torch, loading.dtype))
        family = ChatML if loading.language is None else ChatTemplate
        torch.manual_seed(seed)
        untrained = f"random (seed {seed}); untrained at zero-shot"
        return Assembled(
            model=_model(eyes, bridge, language.model),
            family=ContextLimited(
                family(language.tokenizer, num_media_tokens=bridge.num_tokens),
                max_tokens=context_of(language.model.config),
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
        eyes = find_tower(VISION, POCKET.shape)
        bridge = find_projector(PROJECTOR, eyes)
        with torch.device("meta"):
            language = AutoModelForCausalLM.from_config(config)
            return _model(eyes, bridge, language)

    takes = ("dtype", "vision", "projector", "language")
    return ZooEntry(title, "Apache-2.0", assemble, skeleton, by_organ=True, twin=twin, takes=takes)


def _model(eyes: Tower, bridge: Projector, language: PreTrainedModel) -> VisionLanguageModel:
    embeddings = language.get_input_embeddings().get_parameter("weight").detach()
    scale = 1.0 if embeddings.is_meta else float(embeddings.float().square().mean().sqrt())
    width = language.config.hidden_size
    # The norm gives visual tokens the length of the language model's own embeddings from the start, so that they
    # neither vanish beside the tokens of the text nor outweigh them.
    norm = nn.LayerNorm(width)
    nn.init.constant_(norm.weight, scale)
    return VisionLanguageModel(eyes.build(), nn.Sequential(bridge.build(width), norm), language)
