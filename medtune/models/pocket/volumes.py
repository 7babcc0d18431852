"""pocket_ct and its twin: a tower and a projector by name, both untrained, before a language model of one's choice.

They see the organ alone that a question names: a few hundred steps hardly teach a language model where to look.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

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
from medtune.models.weights.loading_options import DEFAULT, Loading, refuse_loading

VISION, PROJECTOR = "resnet3d", "linear"


def pocket_entry(
    name: str,
    title: str,
    *,
    load: Callable[[], LanguageModel],
    architecture: Callable[[], PreTrainedConfig],
    twin: Twin | None = None,
) -> ZooEntry:
    """Returns the zoo entry of a model whose tower and projector `model.vision` and `model.projector` name.

    `model.language` puts any causal language model of transformers in its own one's place.

    Args:
        name: For messages.
        title: One line on the model.
        load: Gives its own language model, which speaks ChatML; random weights are drawn from torch's generator.
        architecture: Gives its configuration, for building it without weights.
        twin: What tests are told about it, where its language model is random and tiny.
    """

    def assemble(seed: int, loading: Loading = DEFAULT) -> Assembled:
        own = loading if loading.language is None else replace(loading, language=None, dtype=DEFAULT.dtype)
        refuse_loading(replace(own, vision=None, projector=None), name=name)
        vision, projector = loading.vision or VISION, loading.projector or PROJECTOR
        eyes = find_tower(vision, POCKET.shape)
        bridge = find_projector(projector, eyes)
        torch.manual_seed(seed)
        language = load() if loading.language is None else load_language(loading.language, dtype=loading.dtype)
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

    return ZooEntry(title, "Apache-2.0", assemble, skeleton, by_organ=True, twin=twin)


def _model(eyes: Tower, bridge: Projector, language: PreTrainedModel) -> VisionLanguageModel:
    embeddings = language.get_input_embeddings().get_parameter("weight").detach()
    scale = 1.0 if embeddings.is_meta else float(embeddings.float().square().mean().sqrt())
    width = language.config.hidden_size
    # Visual tokens begin as long as the language model's own, so that they are heard and drown nothing.
    norm = nn.LayerNorm(width)
    nn.init.constant_(norm.weight, scale)
    return VisionLanguageModel(eyes.build(), nn.Sequential(bridge.build(width), norm), language)
