"""nano_glm4v_moe: GLM-4.5V's random, tiny twin with four experts, only for tests."""

from __future__ import annotations

from transformers import Glm4vMoeConfig

from medtune.models.assemble import ZooEntry
from medtune.models.nano.glm_vl import PROJECTOR, PROJECTOR_WEIGHTS, VISION, nano_glm
from medtune.models.nano.transformers_vlm import Nano, nano_entry
from medtune.models.nano.twin import Twin

TWIN = Twin(
    vision=VISION,
    projector=PROJECTOR,
    language=(
        "whole.model.language_model.layers.{0,1}.self_attn.{q,k,v,o}_proj",
        "whole.model.language_model.layers.0.mlp.{gate,up,down}_proj",
        "whole.model.language_model.layers.1.mlp.shared_experts.{gate,up,down}_proj",
    ),
    projector_weights=PROJECTOR_WEIGHTS,
)


def entry() -> ZooEntry:
    """Returns the zoo entry."""
    return nano_entry("Random GLM-4.5V of width 32 with four experts; for tests", "glm4v", _build, TWIN)


def _build() -> Nano:
    return nano_glm(
        Glm4vMoeConfig,
        text={
            "head_dim": 16, "moe_intermediate_size": 24, "num_experts_per_tok": 2, "n_shared_experts": 1,
            "n_routed_experts": 4, "first_k_dense_replace": 1,
        },
    )  # fmt: skip
