"""Facts about the tiny twins of the zoo that are written by hand, to be compared with the models.

Names are abbreviated as in a shell: `layers.{0,1}.mlp.{up,down}_proj` stands for four names.
"""

from dataclasses import dataclass, replace

from medtune.data.media.volumes.transforms.pocket import POCKET


@dataclass(frozen=True, slots=True, kw_only=True)
class Twin:
    """Facts about a tiny model, above all the names of its modules and parameters."""

    # Layers of the tower that LoRA adapts; empty where the tower has none that LoRA could adapt.
    vision: tuple[str, ...]
    projector: tuple[str, ...]  # Layers of the projector that LoRA adapts; empty likewise.
    # Layers of the language model that LoRA adapts. The same layers are held in 4 bits by `model.language_bits: 4`.
    language: tuple[str, ...]
    projector_weights: tuple[str, ...]  # Parameters of the projector that learn when all of it is trained.
    # Adapted layers on which no answer depends, so that their adapters get no gradient.
    unreached: tuple[str, ...] = ()
    # Shape of a small input of the tower, (channels, three sides); None where the tower takes no volumes.
    volume: tuple[int, int, int, int] | None = None
    video: bool = False  # Whether the tower takes videos and nothing else.


_LAYERS = (
    "language.model.layers.{0,1}.self_attn.{q,k,v,o}_proj",
    "language.model.layers.{0,1}.mlp.{gate,up,down}_proj",
)
_WHOLE = (
    "whole.model.language_model.layers.{0,1}.self_attn.{q,k,v,o}_proj",
    "whole.model.language_model.layers.{0,1}.mlp.{gate,up,down}_proj",
)
_CLIP = (
    "whole.model.vision_tower.encoder.layers.{0,1}.self_attn.{q,k,v,out}_proj",
    "whole.model.vision_tower.encoder.layers.{0,1}.mlp.fc{1,2}",
)
_LINEARS = ("whole.model.multi_modal_projector.linear_{1,2}",)
_BLOCKS = "whole.model.visual.blocks.{0,1}."
_MERGER = "whole.model.visual.merger."

_LLAVA = Twin(
    vision=_CLIP,
    projector=_LINEARS,
    language=_WHOLE,
    projector_weights=("whole.model.multi_modal_projector.linear_{1,2}.{weight,bias}",),
    # The model takes the output of the tower's last layer but one.
    unreached=(
        "whole.model.vision_tower.encoder.layers.1.self_attn.{q,k,v,out}_proj",
        "whole.model.vision_tower.encoder.layers.1.mlp.fc{1,2}",
    ),
)
_NEXT = replace(_LLAVA, projector_weights=(*_LLAVA.projector_weights, "whole.model.image_newline"))
_POCKET = Twin(
    vision=("vision.backbone.3",),
    projector=("projector.{reduce.1,mix}",),
    language=_LAYERS,
    projector_weights=("projector.{reduce.0,reduce.1,mix}.{weight,bias}",),
)
_M3D = Twin(
    vision=(
        "vision.vit.patch_embedding.patch_embeddings.1",
        "vision.vit.blocks.0.{attn.qkv,attn.out_proj,mlp.linear1,mlp.linear2}",
    ),
    projector=("projector.mlp.{0,2}",),
    language=_LAYERS,
    projector_weights=("projector.mlp.{0,2}.{weight,bias}",),
    volume=(1, 32, 256, 256),
)
_OF_IMAGES = {
    "nano_gemma3": Twin(
        vision=_CLIP,
        projector=(),
        language=_WHOLE,
        projector_weights=("whole.model.multi_modal_projector.{mm_input_projection_weight,mm_soft_emb_norm.weight}",),
    ),
    "nano_glm4v": Twin(
        vision=(_BLOCKS + "attn.{qkv,proj}", _BLOCKS + "mlp.{gate,up,down}_proj"),
        projector=(_MERGER + "{proj,gate_proj,up_proj,down_proj}",),
        language=(_WHOLE[0], "whole.model.language_model.layers.{0,1}.mlp.{gate_up,down}_proj"),
        projector_weights=(
            _MERGER + "{proj,gate_proj,up_proj,down_proj}.weight",
            _MERGER + "post_projection_norm.{weight,bias}",
        ),
    ),
    "nano_internvl": Twin(
        vision=(
            "whole.model.vision_tower.encoder.layer.{0,1}.attention.{q_proj,k_proj,v_proj,projection_layer}",
            "whole.model.vision_tower.encoder.layer.{0,1}.mlp.fc{1,2}",
        ),
        projector=_LINEARS,
        language=_WHOLE,
        projector_weights=("whole.model.multi_modal_projector.{layer_norm,linear_1,linear_2}.{weight,bias}",),
    ),
    "nano_llava": _LLAVA,
    "nano_llava_next_video": _NEXT,
    "nano_llava_onevision": replace(_NEXT, unreached=()),
    # The processor is OneVision's, which counts other tokens. The tests of this family count them by hand.
    "nano_llava_video": replace(_NEXT, unreached=()),
    "nano_mllama": Twin(
        vision=(
            "whole.model.vision_model.transformer.layers.{0,1}.self_attn.{q,k,v,o}_proj",
            "whole.model.vision_model.transformer.layers.{0,1}.mlp.fc{1,2}",
            "whole.model.vision_model.global_transformer.layers.0.self_attn.{q,k,v,o}_proj",
            "whole.model.vision_model.global_transformer.layers.0.mlp.fc{1,2}",
        ),
        projector=(),
        language=(
            "whole.model.language_model.layers.{0,2}.self_attn.{q,k,v,o}_proj",
            "whole.model.language_model.layers.{1,3}.cross_attn.{q,k,v,o}_proj",
            "whole.model.language_model.layers.{0,1,2,3}.mlp.{gate,up,down}_proj",
        ),
        projector_weights=("whole.model.multi_modal_projector.{weight,bias}",),
    ),
    "nano_pocket": _POCKET,
    "nano_pocket_video": replace(
        _POCKET,
        vision=("vision.frame.backbone.3",),
        projector=("projector.{reduce.1,reduce.4,mix}",),
        projector_weights=("projector.{reduce.0,reduce.1,reduce.4,mix}.{weight,bias}",),
        video=True,
    ),
    "nano_qwen25vl": Twin(
        vision=(_BLOCKS + "attn.{qkv,proj}", _BLOCKS + "mlp.{gate,up,down}_proj"),
        projector=(_MERGER + "mlp.{0,2}",),
        language=_WHOLE,
        projector_weights=(_MERGER + "ln_q.weight", _MERGER + "mlp.{0,2}.{weight,bias}"),
    ),
    "nano_qwen2vl": Twin(
        vision=(_BLOCKS + "attn.{qkv,proj}", _BLOCKS + "mlp.fc{1,2}"),
        projector=(_MERGER + "mlp.{0,2}",),
        language=_WHOLE,
        projector_weights=(_MERGER + "{ln_q,mlp.0,mlp.2}.{weight,bias}",),
    ),
    "nano_qwen35": Twin(
        vision=(_BLOCKS + "attn.{qkv,proj}", _BLOCKS + "mlp.linear_fc{1,2}"),
        projector=(_MERGER + "linear_fc{1,2}",),
        language=(
            "whole.model.language_model.layers.0.linear_attn.{in_proj_qkv,in_proj_z,in_proj_b,in_proj_a,out_proj}",
            "whole.model.language_model.layers.1.self_attn.{q,k,v,o}_proj",
            "whole.model.language_model.layers.{0,1}.mlp.{gate,up,down}_proj",
        ),
        projector_weights=(_MERGER + "{norm,linear_fc1,linear_fc2}.{weight,bias}",),
    ),
    "nano_qwen3vl": Twin(
        vision=(
            "whole.model.visual.blocks.{0,1,2}.attn.{qkv,proj}",
            "whole.model.visual.blocks.{0,1,2}.mlp.linear_fc{1,2}",
        ),
        projector=("whole.model.visual.{merger,deepstack_merger_list.0,deepstack_merger_list.1}.linear_fc{1,2}",),
        language=_WHOLE,
        projector_weights=(
            "whole.model.visual.{merger,deepstack_merger_list.0,deepstack_merger_list.1}"
            ".{norm,linear_fc1,linear_fc2}.{weight,bias}",
        ),
        # The twin has two decoder layers. Features that are added at the visual tokens behind the last one have no
        # influence on an answer.
        unreached=("whole.model.visual.deepstack_merger_list.1.linear_fc{1,2}",),
    ),
}
_OF_VOLUMES = {
    "nano_ct_chat": Twin(
        vision=(
            "vision.patch_embedding.1",
            "vision.position_bias.net.{0,2,4}",
            "vision.{spatial,temporal}.layers.0.attention.to_{q,kv,out}",
            "vision.{spatial,temporal}.layers.0.mlp.to_{hidden,out}",
        ),
        projector=("projector.mlp.{0,2}",),
        language=_LAYERS,
        projector_weights=(
            "projector.pool.query_QD",
            "projector.pool.attention.{in_proj_weight,out_proj.weight}",
            "projector.pool.norm_{query,features}.{weight,bias}",
            "projector.norm.{weight,bias}",
            "projector.mlp.{0,2}.{weight,bias}",
        ),
        volume=(1, 80, 160, 160),
    ),
    "nano_m3d_llama2": _M3D,
    "nano_m3d_phi3": replace(
        _M3D,
        language=(
            "language.model.layers.{0,1}.self_attn.{qkv,o}_proj",
            "language.model.layers.{0,1}.mlp.{gate_up,down}_proj",
        ),
    ),
    "nano_merlin": Twin(
        vision=(),
        projector=("projector.each",),
        language=_LAYERS,
        projector_weights=("projector.each.{weight,bias}",),
        volume=(1, 64, 64, 32),
    ),
    "nano_radfm": Twin(
        vision=("vision.patch_embedding.1", "vision.blocks.0.{attn.qkv,attn.out_proj,mlp.linear1,mlp.linear2}"),
        projector=(
            "projector.linear",
            "projector.resampler.blocks.0.0.{q,k,v,output}_proj",
            "projector.resampler.blocks.0.1.{fc,c_proj}",
        ),
        language=_LAYERS,
        projector_weights=(
            "projector.{tags,resampler.latents}",
            "projector.linear.{weight,bias}",
            "projector.resampler.layer_norm.{weight,bias}",
            "projector.resampler.blocks.0.0.{q,k,v,output}_proj.weight",
            "projector.resampler.blocks.0.0.{context,latents}_layer_norm.{weight,bias}",
            "projector.resampler.blocks.0.1.{fc,c_proj}.weight",
            "projector.resampler.blocks.0.1.ln.{weight,bias}",
        ),
        volume=(3, 64, 64, 8),
    ),
}
_POCKET_CT = Twin(
    vision=("vision.{dense,residual}",),
    projector=("projector.0.each",),
    language=_LAYERS,
    projector_weights=("projector.0.each.{weight,bias}", "projector.1.{weight,bias}"),
    volume=(1, *POCKET.shape),
)
_CROPPED = {name.replace("nano_", "nano_nn_"): twin for name, twin in _OF_VOLUMES.items()}
FACTS = {**_OF_IMAGES, **_OF_VOLUMES, **_CROPPED, "nano_pocket_ct": _POCKET_CT}
"""The facts about each twin by its name."""
