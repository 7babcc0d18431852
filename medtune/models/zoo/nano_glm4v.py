"""nano_glm4v: GLM-4.1V's random, tiny twin, only for tests."""

from __future__ import annotations

from transformers import Glm4vConfig

from medtune.models.assemble import ZooEntry
from medtune.models.nano.glm_vl import PROJECTOR, PROJECTOR_WEIGHTS, VISION, nano_glm
from medtune.models.nano.transformers_vlm import Nano, nano_entry
from medtune.models.nano.twin import Twin

TWIN = Twin(
    vision=VISION,
    projector=PROJECTOR,
    language=(
        "whole.model.language_model.layers.{0,1}.self_attn.{q,k,v,o}_proj",
        "whole.model.language_model.layers.{0,1}.mlp.{gate_up,down}_proj",
    ),
    projector_weights=PROJECTOR_WEIGHTS,
)


def entry() -> ZooEntry:
    """Returns the zoo entry."""
    return nano_entry("Random GLM-4.1V of width 32; for tests", "glm4v", _build, TWIN)


def _build() -> Nano:
    return nano_glm(Glm4vConfig, text={"head_dim": 16})
