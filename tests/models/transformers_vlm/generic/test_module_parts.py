"""Tests that the parts found by structure are those named by hand, and that a model without them is refused."""

import pytest
import torch
from transformers import (
    AutoConfig,
    AutoModelForImageTextToText,
    Blip2Config,
    DeepseekVLHybridConfig,
    FuyuConfig,
    PreTrainedConfig,
)

from medtune.models.contract import root_of
from medtune.models.transformers_vlm.families import find_family
from medtune.models.transformers_vlm.generic.loading import generic_skeleton
from medtune.models.transformers_vlm.generic.model import find_parts
from tests.models.transformers_vlm.generic.checkpoints import BUILDERS
from tests.models.twins import MODELS, OF_TRANSFORMERS, twin

# By hand: the vision tower, the projector, the language model.
PARTS = {
    "lfm2_vl": ("model.vision_tower", "model.multi_modal_projector", "model.language_model lm_head"),
    "llava_next": ("model.vision_tower", "model.image_newline model.multi_modal_projector",
                   "model.language_model lm_head"),
    "mistral3": ("model.vision_tower", "model.multi_modal_projector", "model.language_model lm_head"),
    "ovis2": ("model.vision_tower", "model.visual_embeddings_table", "model.language_model lm_head"),
    "gemma4": ("model.vision_tower", "model.embed_vision", "model.language_model lm_head"),
    "gemma3n": ("model.vision_tower model.audio_tower", "model.embed_vision model.embed_audio",
                "model.language_model lm_head"),
    "minicpm_v": ("model.vision_tower", "model.merger", "model.language_model lm_head"),
    "smolvlm": ("model.vision_model", "model.connector", "model.text_model lm_head"),
    "idefics3": ("model.vision_model", "model.connector", "model.text_model lm_head"),
    "deepseek_vl": ("model.vision_model", "model.aligner", "model.language_model lm_head"),
    "cohere2_vision": ("model.vision_tower", "model.multi_modal_projector", "model.language_model lm_head"),
}  # fmt: skip
# Full-size architectures on the meta device: a Q-Former, two towers, a merger inside the tower.
OTHERS: dict[str, tuple[PreTrainedConfig, tuple[str, str, str]]] = {
    "blip-2": (Blip2Config(), ("vision_model", "query_tokens qformer language_projection", "language_model")),
    "deepseek_vl_hybrid": (DeepseekVLHybridConfig(), (
        "model.high_res_vision_model model.vision_model",
        "model.high_res_vision_alpha model.high_res_vision_neck model.high_res_vision_proj model.aligner",
        "model.language_model lm_head",
    )),
    "glm4v": (AutoConfig.for_model("glm4v"), ("model.visual", "model.visual.merger", "model.language_model lm_head")),
}  # fmt: skip


@pytest.mark.parametrize("name", BUILDERS)
def test_parts_of_checkpoints_are_those_named_by_hand(name: str) -> None:
    found = generic_skeleton(BUILDERS[name]().config).part_roots
    named = dict(zip(("vision", "projector", "language"), PARTS[name], strict=True))
    assert {part: " ".join(root.removeprefix("whole.") for root in roots) for part, roots in found.items()} == named


@pytest.mark.parametrize("name", OTHERS)
def test_parts_of_other_layouts_are_those_named_by_hand(name: str) -> None:
    config, named = OTHERS[name]
    with torch.device("meta"):
        found = find_parts(AutoModelForImageTextToText.from_config(config))
    assert tuple(" ".join(found[part]) for part in ("vision", "projector", "language")) == named


@pytest.mark.parametrize(
    "name", [name if name == "nano_qwen3vl" else pytest.param(name, marks=pytest.mark.slow) for name in OF_TRANSFORMERS]
)
def test_parts_of_known_families_are_those_of_their_rows(name: str) -> None:
    family = MODELS[name].family
    assert family is not None
    whole, named = twin(name).model.of_transformers, find_family(family).wiring.roots
    found = find_parts(whole)
    for parameter, _ in whole.named_parameters():
        assert root_of(parameter, found)[0] == root_of(parameter, named)[0], parameter


def test_a_model_without_a_tower_is_refused_with_the_top_of_its_modules() -> None:
    with pytest.raises(ValueError, match=r"(?s)no vision was found in Fuyu.*model.vision_embed_tokens: Linear"):
        generic_skeleton(FuyuConfig())
    with pytest.raises(ValueError, match="no language was found in IdeficsForVisionText2Text"):
        generic_skeleton(AutoConfig.for_model("idefics"))
