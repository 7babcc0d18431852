"""The key map of RadFM's pytorch_model.bin.

Source: chaoyi-wu/RadFM@9efba84c; chaoyi-wu/RadFM issue 5 (names that newer versions of transformers do not have).
"""

from medtune.models.weights.keymaps.key_map import KeyMap, Rule, rename

_VISION = r"embedding_layer\.vision_encoder\."
_LAYER = _VISION + r"transformer\.layers\.(\d+)\."
_PERCEIVER = r"embedding_layer\.perceiver\."
_PERCEIVER_LAYER = _PERCEIVER + r"layers\.(\d+)\."
_OURS = r"projector.resampler.blocks.\1."

KEY_MAP = KeyMap(
    checkpoint="RadFM's pytorch_model.bin",
    rules=(
        rename("lang_model.", "language."),
        *(
            Rule(_VISION + rf"to_patch_embedding\.{theirs}\.(.+)", (rf"vision.patch_embedding.{ours}.\1",))
            for theirs, ours in ((1, 0), (2, 1), (3, 2))
        ),
        *(
            Rule(_VISION + rf"pos_embedding\.{name}_embed\.weight", (f"vision.positions.tables.{axis}.weight",))
            for axis, name in enumerate(("row", "col", "dep"))
        ),
        Rule(_LAYER + r"0\.norm\.(.+)", (r"vision.blocks.\1.norm1.\2",)),
        Rule(_LAYER + r"0\.fn\.to_qkv\.weight", (r"vision.blocks.\1.attn.qkv.weight",)),
        Rule(_LAYER + r"0\.fn\.to_out\.0\.(.+)", (r"vision.blocks.\1.attn.out_proj.\2",)),
        Rule(_LAYER + r"1\.norm\.(.+)", (r"vision.blocks.\1.norm2.\2",)),
        Rule(_LAYER + r"1\.fn\.net\.0\.(.+)", (r"vision.blocks.\1.mlp.linear1.\2",)),
        Rule(_LAYER + r"1\.fn\.net\.3\.(.+)", (r"vision.blocks.\1.mlp.linear2.\2",)),
        Rule(_PERCEIVER + "latents", ("projector.resampler.latents",)),
        Rule(_PERCEIVER_LAYER + r"0\.norm_media\.(.+)", (_OURS + r"0.context_layer_norm.\2",)),
        Rule(_PERCEIVER_LAYER + r"0\.norm_latents\.(.+)", (_OURS + r"0.latents_layer_norm.\2",)),
        Rule(_PERCEIVER_LAYER + r"0\.to_q\.weight", (_OURS + "0.q_proj.weight",)),
        Rule(_PERCEIVER_LAYER + r"0\.to_kv\.weight", (_OURS + "0.k_proj.weight", _OURS + "0.v_proj.weight")),
        Rule(_PERCEIVER_LAYER + r"0\.to_out\.weight", (_OURS + "0.output_proj.weight",)),
        Rule(_PERCEIVER_LAYER + r"1\.0\.(.+)", (_OURS + r"1.ln.\2",)),
        Rule(_PERCEIVER_LAYER + r"1\.1\.weight", (_OURS + "1.fc.weight",)),
        Rule(_PERCEIVER_LAYER + r"1\.3\.weight", (_OURS + "1.c_proj.weight",)),
        Rule(_PERCEIVER + r"norm\.(.+)", (r"projector.resampler.layer_norm.\1",)),
        rename("embedding_layer.fc.", "projector.linear."),
        Rule(r"embedding_layer\.figure_token_weight", ("projector.tags",)),
    ),
    left_out=(
        # transformers computes these itself and no longer stores them.
        r"lang_model\.model\.layers\.\d+\.self_attn\.rotary_emb\.inv_freq",
        # This tensor is equal to lang_model.model.embed_tokens.weight.
        r"embedding_layer\.weight",
        # These belong to a text encoder and a decoder for pre-training, which take no part in answering questions.
        r"embedding_layer\.(bert_model|bert_projection_fc|output_upscaling|transformer_decoder)\..+",
        r"embedding_layer\.(transformer_decoder_mlp|cls_head)\..+",
    ),
)
