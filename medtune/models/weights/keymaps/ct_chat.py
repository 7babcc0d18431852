"""The key map of CT-CHAT's non_lora_trainables.bin, which holds the projector.

Source: ibrahimethemhamamci/CT-CHAT@33c9b973.
"""

from medtune.models.weights.keymaps.key_map import KeyMap, Rule

_PROJECTOR = r"(?:base_model\.model\.)?model\.mm_projector\."
_IN = "projector.pool.attention.in_proj_weight"

KEY_MAP = KeyMap(
    checkpoint="CT-CHAT's non_lora_trainables.bin",
    rules=(
        Rule(_PROJECTOR + r"attn_pool\.query", ("projector.pool.query_QD",)),
        Rule(_PROJECTOR + r"attn_pool\.ln_q\.(.+)", (r"projector.pool.norm_query.\1",)),
        Rule(_PROJECTOR + r"attn_pool\.ln_k\.(.+)", (r"projector.pool.norm_features.\1",)),
        Rule(_PROJECTOR + r"attn_pool\.to_q\.weight", (_IN,), part=0),
        Rule(_PROJECTOR + r"attn_pool\.to_kv\.weight", (_IN,), part=1),
        Rule(_PROJECTOR + r"attn_pool\.to_out\.weight", ("projector.pool.attention.out_proj.weight",)),
        Rule(_PROJECTOR + r"ln\.(.+)", (r"projector.norm.\1",)),
        Rule(_PROJECTOR + r"proj\.(.+)", (r"projector.mlp.\1",)),
    ),
)
