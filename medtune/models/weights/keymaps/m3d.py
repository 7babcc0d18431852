"""The key map of M3D-LaMed's checkpoints.

Source: BAAI-DCAI/M3D@63e72005.
"""

from medtune.models.weights.keymaps.key_map import KeyMap, Rule, rename

LAMED = KeyMap(
    checkpoint="an M3D-LaMed checkpoint",
    rules=(
        rename("model.vision_tower.vision_tower.", "vision.vit."),
        # The names of a projector with a single layer hold no number.
        Rule(r"model\.mm_projector\.projector\.(weight|bias)", (r"projector.mlp.0.\1",)),
        rename("model.mm_projector.projector.", "projector.mlp."),
        Rule(r"(model\.(embed_tokens|layers|norm)\..+|lm_head\.weight)", (r"language.\1",)),
    ),
    left_out=(
        r"model\.vision_tower\.vision_tower\.blocks\.\d+\.norm_cross_attn\..+",
        # These modules segment organs; answering questions does not need them.
        r"model\.(seg_module|seg_projector)\..+",
        r"model\.layers\.\d+\.self_attn\.rotary_emb\.inv_freq",
    ),
)
