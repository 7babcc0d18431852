"""The key maps of checkpoints in the layouts of their authors' own code, onto transformers' own classes.

Source: LLaVA-VL/LLaVA-NeXT@df179663 and haotian-liu/LLaVA, llava/model; OpenGVLab/InternVL, internvl_chat; the scripts
convert_llava_weights_to_hf.py and convert_internvl_weights_to_hf.py of transformers 4.
"""

import re
from dataclasses import replace

from medtune.models.weights.keymaps.key_map import KeyMap, Rule, rename

LLAVA_TOWER = "model.vision_tower.vision_tower."
_NEWLINE = r"model\.image_newline"

LLAVA = KeyMap(
    checkpoint="a LLaVA checkpoint in its authors' layout",
    rules=(
        rename(f"{LLAVA_TOWER}vision_model.", "model.vision_tower."),
        rename("model.mm_projector.0.", "model.multi_modal_projector.linear_1."),
        rename("model.mm_projector.2.", "model.multi_modal_projector.linear_2."),
        Rule(r"model\.((?:embed_tokens|layers|norm)\..+)", (r"model.language_model.\1",)),
        Rule(r"lm_head\.weight", ("lm_head.weight",)),
    ),
    left_out=(
        # transformers computes both itself and no longer stores them.
        r".*\.rotary_emb\.inv_freq",
        r".*\.vision_model\.embeddings\.position_ids",
        # An image is one row of tokens here, so that no line break is ever shown.
        _NEWLINE,
        # The half of CLIP that reads texts, and a head for pooling.
        rf"{LLAVA_TOWER}(?:text_model|text_projection|visual_projection|logit_scale|logit_bias)(?:\..+)?",
        rf"{LLAVA_TOWER}vision_model\.head\..+",
    ),
)
"""The tower's wrapper in LLaVA-NeXT drops the last block and the pooling head of SigLIP."""
LLAVA_VIDEO = replace(
    LLAVA,
    checkpoint="a LLaVA-Video checkpoint",
    rules=(*LLAVA.rules, Rule(_NEWLINE, ("model.image_newline",))),
    left_out=tuple(each for each in LLAVA.left_out if each != _NEWLINE),
)

_BLOCK, _OURS = r"vision_model\.encoder\.layers\.(\d+)\.", r"model.vision_tower.encoder.layer.\1."
INTERNVL = KeyMap(
    checkpoint="an InternVL checkpoint in its authors' layout (internvl_chat)",
    rules=(
        Rule(r"vision_model\.embeddings\.class_embedding", ("model.vision_tower.embeddings.cls_token",)),
        Rule(r"vision_model\.embeddings\.position_embedding", ("model.vision_tower.embeddings.position_embeddings",)),
        rename(
            "vision_model.embeddings.patch_embedding.", "model.vision_tower.embeddings.patch_embeddings.projection."
        ),
        Rule(rf"{_BLOCK}ls([12])", (rf"{_OURS}lambda_\2",)),
        Rule(rf"{_BLOCK}attn\.qkv\.(.+)", tuple(rf"{_OURS}attention.{each}_proj.\2" for each in "qkv")),
        Rule(rf"{_BLOCK}attn\.proj\.(.+)", (rf"{_OURS}attention.projection_layer.\2",)),
        Rule(rf"{_BLOCK}attn\.([qk]_norm\..+)", (rf"{_OURS}attention.\2",)),
        Rule(rf"{_BLOCK}norm1\.(.+)", (rf"{_OURS}layernorm_before.\2",)),
        Rule(rf"{_BLOCK}norm2\.(.+)", (rf"{_OURS}layernorm_after.\2",)),
        Rule(rf"{_BLOCK}(mlp\..+)", (rf"{_OURS}\2",)),
        rename("mlp1.0.", "model.multi_modal_projector.layer_norm."),
        rename("mlp1.1.", "model.multi_modal_projector.linear_1."),
        rename("mlp1.3.", "model.multi_modal_projector.linear_2."),
        # InternLM2's names for what is a Llama.
        rename("language_model.model.tok_embeddings.", "model.language_model.embed_tokens."),
        rename("language_model.output.", "lm_head."),
        *(
            Rule(
                rf"language_model\.model\.layers\.(\d+)\.{theirs}\.weight",
                (rf"model.language_model.layers.\1.{ours}.weight",),
            )
            for theirs, ours in (
                (r"attention\.wo", "self_attn.o_proj"),
                (r"attention_norm", "input_layernorm"),
                (r"ffn_norm", "post_attention_layernorm"),
                (r"feed_forward\.w1", "mlp.gate_proj"),
                (r"feed_forward\.w2", "mlp.down_proj"),
                (r"feed_forward\.w3", "mlp.up_proj"),
            )
        ),
        rename("language_model.lm_head.", "lm_head."),
        rename("language_model.model.", "model.language_model."),
    ),
    left_out=(r".*\.rotary_emb\.inv_freq",),
)

_IMAGES, _SOUNDS = (f"model.embed_tokens_extend.{each}_embed." for each in ("image", "audio"))
_CONFORMER = rf"{re.escape(_SOUNDS)}encoder\.encoders\.(\d+)\."
_CONFORMER_HERE = rf"{_SOUNDS}encoder.encoders.\1."
PHI4 = KeyMap(
    checkpoint="a Phi-4-multimodal checkpoint",
    rules=(
        rename(f"{_IMAGES}img_projection.0.", f"{_IMAGES}img_projection_up."),
        rename(f"{_IMAGES}img_projection.2.", f"{_IMAGES}img_projection_down."),
        Rule(rf"{re.escape(_IMAGES)}glb_GN", (f"{_IMAGES}global_img_feature_extensor",)),
        Rule(rf"{re.escape(_IMAGES)}sub_GN", (f"{_IMAGES}sub_img_feature_extensor",)),
        rename(f"{_SOUNDS}audio_projection.speech.0.", f"{_SOUNDS}up_proj_for_speech."),
        rename(f"{_SOUNDS}audio_projection.speech.2.", f"{_SOUNDS}down_proj_for_speech."),
        rename(f"{_SOUNDS}audio_projection.vision.0.", f"{_SOUNDS}up_proj_for_vision_speech."),
        rename(f"{_SOUNDS}audio_projection.vision.2.", f"{_SOUNDS}down_proj_for_vision_speech."),
        *(
            Rule(rf"{_CONFORMER}{theirs}\.(weight|bias)", (rf"{_CONFORMER_HERE}{ours}",))
            for theirs, ours in (
                (r"(feed_forward_(?:in|out))\.net\.0\.linear", r"\2.gate_up_proj.\3"),
                (r"(feed_forward_(?:in|out))\.net\.2", r"\2.down_proj.\3"),
                (r"self_attn\.linear_([qkv])", r"self_attn.\2_proj.\3"),
                (r"self_attn\.linear_out", r"self_attn.o_proj.\2"),
            )
        ),
        # transformers' own names.
        Rule(r"(.+)", (r"\1",)),
    ),
)
