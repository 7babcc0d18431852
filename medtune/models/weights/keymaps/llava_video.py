"""The key map of LLaVA-Video's released checkpoints, such as lmms-lab/LLaVA-Video-7B-Qwen2.

Source: LLaVA-VL/LLaVA-NeXT@df179663, llava/model. The tower's wrapper there drops the last block and the pooling head,
so that neither is in the files.
"""

from medtune.models.weights.keymaps.key_map import KeyMap, Rule, rename

_TOWER = "model.vision_tower.vision_tower.vision_model."

KEY_MAP = KeyMap(
    checkpoint="a LLaVA-Video checkpoint",
    rules=(
        rename(_TOWER, "model.vision_tower."),
        rename("model.mm_projector.0.", "model.multi_modal_projector.linear_1."),
        rename("model.mm_projector.2.", "model.multi_modal_projector.linear_2."),
        Rule(r"model\.image_newline", ("model.image_newline",)),
        Rule(r"model\.((?:embed_tokens|layers|norm)\..+)", (r"model.language_model.\1",)),
        Rule(r"lm_head\.weight", ("lm_head.weight",)),
    ),
    left_out=(
        # transformers computes both itself and no longer stores them.
        r"model\.layers\.\d+\.self_attn\.rotary_emb\.inv_freq",
        r"model\.vision_tower\.vision_tower\.vision_model\.embeddings\.position_ids",
    ),
)
