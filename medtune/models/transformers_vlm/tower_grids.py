"""What towers of the Qwen-VL families compute from the sizes of pictures, made on the host, where the sizes are known.

transformers reads the sizes back from the device in every layer. Each such reading waits for all that was queued
before, so that the device runs out of work. The functions are transformers' own, and so are the results.
"""

from typing import Any

from torch import Tensor
from transformers import PreTrainedModel
from transformers.vision_utils import (
    get_vision_cu_seqlens,
    get_vision_interpolation_indices_and_weights,
    get_vision_position_ids,
    get_vision_window_index,
)

from medtune.models.placing import placed

GRID = "_grid_thw"
"""The end of the names under which a processor gives the numbers of frames, rows and columns of patches."""
_SIZES = "image_sizes"
"""The name under which processors of LLaVA give the sizes of pictures, which the model reads for each."""
_TOWERS = frozenset(
    {
        "Qwen2VisionTransformerPretrainedModel",
        "Qwen2_5_VisionTransformerPretrainedModel",
        "Qwen3VLVisionModel",
        "Qwen3_5VisionModel",
    }
)
"""Towers that take what is made here. GLM's tower also computes with the sizes on the device."""


def stays_on_host(whole: PreTrainedModel, name: str) -> bool:
    """Returns whether an output of the processor stays in the host's memory, where the model reads its values."""
    return name == _SIZES or (name.endswith(GRID) and _takes_facts(whole))


def _takes_facts(whole: PreTrainedModel) -> bool:
    tower = getattr(whole.base_model, "visual", None)
    return any(kind.__name__ in _TOWERS for kind in type(tower).__mro__)


def from_grids(whole: PreTrainedModel, grid_M3: Tensor) -> dict[str, Any]:
    """Returns the arguments that a tower would compute from the sizes; none for other towers.

    The boundaries of segments stay on the host, where the attention reads them.

    Args:
        whole: The model.
        grid_M3: Numbers of frames, rows and columns of patches of each picture, on the host.
    """
    if not _takes_facts(whole):
        return {}
    tower: Any = whole.base_model.visual
    device = next(tower.parameters()).device
    merged = tower.spatial_merge_size
    made = {"position_ids": get_vision_position_ids(grid_M3, merged)}
    on_host = {"cu_seqlens": get_vision_cu_seqlens(grid_M3)}
    if hasattr(tower, "window_size"):
        made["window_index"], on_host["cu_window_seqlens"] = get_vision_window_index(
            grid_M3, spatial_merge_size=merged, window_size=tower.window_size, patch_size=tower.patch_size
        )
    if hasattr(tower, "interpolation_mode"):
        made["interp_indices"], made["interp_weights"] = get_vision_interpolation_indices_and_weights(
            grid_M3,
            num_grid_per_side=tower.num_grid_per_side,
            mode=tower.interpolation_mode,
            align_corners=tower.interpolation_align_corners,
            spatial_merge_size=merged,
        )
    return {name: placed(t, device) for name, t in made.items()} | on_host
