"""Tiny random checkpoints of the models of the zoo that the generic entry reads, written with transformers' classes."""

from typing import Any

import transformers

from medtune.models.nano import byte_tokenizer, token_id
from medtune.models.nano.transformers_vlm import INITIALIZER_RANGE, Nano, text_config


def minicpm_v() -> Nano:
    """Slices whose patches stand behind one another along the last axis, and a decoder with linear attention."""
    named = {
        "image_token": "<|image_pad|>", "video_token": "<|video_pad|>",
        "image_start_token": "<image>", "image_end_token": "</image>",
        "slice_start_token": "<slice>", "slice_end_token": "</slice>",
        "image_id_start_token": "<image_id>", "image_id_end_token": "</image_id>",
    }  # fmt: skip
    tokenizer = byte_tokenizer(
        ("<pad>", "<|im_start|>", "<|im_end|>", *named.values()), bos=None, eos="<|im_end|>", pad="<pad>", **named
    )
    sizes: dict[str, Any] = {"patch_size": 7, "scale_resolution": 56, "max_slice_nums": 4}
    processor = transformers.MiniCPMV4_6Processor(
        transformers.MiniCPMV4_6ImageProcessor(**sizes),
        transformers.MiniCPMV4_6VideoProcessor(**sizes),
        tokenizer,
        chat_template=(
            "{% for message in messages %}<|im_start|>{{ message['role'] }}\n{% for part in message['content'] %}"
            "{% if part['type'] in ('image', 'video') %}<|{{ part['type'] }}_pad|>{% else %}{{ part['text'] }}"
            "{% endif %}{% endfor %}<|im_end|>\n{% endfor %}"
            "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
        ),
    )
    config = transformers.MiniCPMV4_6Config(
        text_config=text_config(
            tokenizer, model_type="qwen3_5_text", layer_types=["linear_attention", "full_attention"], head_dim=16,
            linear_num_key_heads=2, linear_num_value_heads=2, linear_key_head_dim=8, linear_value_head_dim=8,
            rope_parameters={"rope_type": "default", "rope_theta": 1e7, "partial_rotary_factor": 0.5},
        ),
        vision_config={
            "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 3, "num_attention_heads": 2,
            "image_size": 112, "patch_size": 7, "initializer_range": INITIALIZER_RANGE,
        },
        insert_layer_id=1,
        image_size=56,
        image_token_id=token_id(tokenizer, named["image_token"]),
        video_token_id=token_id(tokenizer, named["video_token"]),
    )  # fmt: skip
    return Nano(config, processor)


def gemma3n() -> Nano:
    """A tower of convolutions from timm, several streams of hidden states, and embeddings for each layer."""
    named = {
        "image_token": "<image_soft_token>", "boi_token": "<start_of_image>", "eoi_token": "<end_of_image>",
        "audio_token": "<audio_soft_token>", "boa_token": "<start_of_audio>", "eoa_token": "<end_of_audio>",
    }  # fmt: skip
    tokenizer = byte_tokenizer(
        ("<pad>", "<eos>", "<bos>", "<start_of_turn>", "<end_of_turn>", *named.values()),
        bos="<bos>",
        eos="<eos>",
        pad="<pad>",
        **named,
    )
    ids: dict[str, Any] = {f"{name}_id": token_id(tokenizer, token) for name, token in named.items()}
    processor = transformers.Gemma3nProcessor(
        transformers.Gemma3nAudioFeatureExtractor(),
        transformers.SiglipImageProcessor(size={"height": 64, "width": 64}, do_normalize=False),
        tokenizer,
        image_seq_length=4,
        chat_template=(
            "<bos>{% for message in messages %}<start_of_turn>{{ message['role'] }}\n"
            "{% for part in message['content'] %}{% if part['type'] == 'image' %}<image_soft_token>{% else %}"
            "{{ part['text'] }}{% endif %}{% endfor %}<end_of_turn>\n{% endfor %}"
            "{% if add_generation_prompt %}<start_of_turn>assistant\n{% endif %}"
        ),
    )
    size = len(tokenizer)
    config = transformers.Gemma3nConfig(
        text_config=text_config(
            tokenizer, num_hidden_layers=4, head_dim=16, sliding_window=64,
            layer_types=["sliding_attention", "full_attention"] * 2, num_kv_shared_layers=2,
            vocab_size_per_layer_input=size, hidden_size_per_layer_input=8, laurel_rank=4, altup_num_inputs=2,
            activation_sparsity_pattern=[0.5, 0.0, 0.0, 0.0],
        ),
        vision_config={
            "vocab_size": 4, "vocab_offset": size,
            "model_args": {"channel_multiplier": 0.05, "msfa_output_resolution": 2},
        },
        audio_config={
            "vocab_size": 4, "vocab_offset": size + 4, "hidden_size": 32, "conf_num_attention_heads": 2,
            "conf_num_hidden_layers": 1, "sscp_conv_channel_size": [4, 4], "input_feat_size": 16,
        },
        vision_soft_tokens_per_image=4,
        **ids,
    )  # fmt: skip
    return Nano(config, processor)


def _omni(config: Any, processor: Any, *, patch: int, eyes: dict[str, Any], ears: dict[str, Any], **text: Any) -> Nano:
    kinds = ("image", "video", "audio")
    named = {f"{kind}_token": f"<|{kind.upper()}|>" for kind in kinds}
    named |= {f"{kind}_{end}_token": f"<|{kind}_{end}|>" for kind in ("vision", "audio") for end in ("bos", "eos")}
    tokenizer = byte_tokenizer(
        ("<|endoftext|>", "<|im_start|>", "<|im_end|>", *named.values()),
        bos=None,
        eos="<|im_end|>",
        pad="<|endoftext|>",
        **named,
    )
    pixels: dict[str, Any] = {
        "patch_size": patch,
        **({} if patch == 14 else {"image_mean": [0.5] * 3} | {"image_std": [0.5] * 3}),
    }
    pixels["size"] = {"shortest_edge": 4 * (2 * patch) ** 2, "longest_edge": 16 * (2 * patch) ** 2}
    whole = processor(
        transformers.Qwen2VLImageProcessor(**pixels),
        transformers.Qwen2VLVideoProcessor(**pixels),
        transformers.WhisperFeatureExtractor(feature_size=16),
        tokenizer,
        chat_template=(
            "{% for message in messages %}<|im_start|>{{ message['role'] }}\n{% for part in message['content'] %}"
            "{% if part['type'] in ('image', 'video') %}<|vision_bos|><|{{ part['type'] | upper }}|><|vision_eos|>"
            "{% else %}{{ part['text'] }}{% endif %}{% endfor %}<|im_end|>\n{% endfor %}"
            "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
        ),
    )
    rope = {"rope_type": "default", "rope_theta": 1e6, "mrope_section": [2, 1, 1]}
    field = "index" if patch == 14 else "id"
    tower = {"hidden_size": 48, "intermediate_size": 48, "num_heads": 2, "out_hidden_size": 32, "patch_size": patch}
    return Nano(
        config(
            text_config=text_config(tokenizer, rope_parameters=rope, **text),
            vision_config={**tower, "initializer_range": INITIALIZER_RANGE, **eyes},
            audio_config={
                "num_mel_bins": 16, "encoder_layers": 1, "encoder_attention_heads": 2, "encoder_ffn_dim": 16,
                "d_model": 32, "output_dim": 32, **ears,
            },
            **{f"{kind}_token_{field}": token_id(tokenizer, named[f"{kind}_token"]) for kind in kinds},
            vision_start_token_id=token_id(tokenizer, "<|vision_bos|>"),
            audio_start_token_id=token_id(tokenizer, "<|audio_bos|>"),
        ),
        whole,
    )  # fmt: skip


def qwen25_omni() -> Nano:
    """The part of a speaking model that sees, hears and writes, beside a tower for sounds that no question shows."""
    eyes = {"depth": 2, "fullatt_block_indexes": [1]}
    return _omni(transformers.Qwen2_5OmniThinkerConfig, transformers.Qwen2_5OmniProcessor, patch=14, eyes=eyes, ears={})


def qwen3_omni() -> Nano:
    """The same with experts, and with mergers in a list in front of the tower's layers."""
    text = {"head_dim": 8, "num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 24}
    eyes = {"depth": 3, "deepstack_visual_indexes": [0, 1], "num_position_embeddings": 64}
    ears = {"downsample_hidden_size": 8}
    return _omni(
        transformers.Qwen3OmniMoeThinkerConfig,
        transformers.Qwen3OmniMoeProcessor,
        patch=16,
        eyes=eyes,
        ears=ears,
        **text,
    )


def phi4() -> Nano:
    """Phi-4-multimodal: towers inside the decoder, packed projections, and crops of 448 pixels with their masks."""
    named = {"image_token": "<|endoftext10|>", "audio_token": "<|endoftext11|>"}
    turns = ("<|system|>", "<|user|>", "<|assistant|>", "<|end|>")
    tokenizer = byte_tokenizer(
        ("<|endoftext|>", *turns, *named.values()),
        bos="<|endoftext|>",
        eos="<|endoftext|>",
        pad="<|endoftext|>",
        **named,
    )
    processor = transformers.Phi4MultimodalProcessor(
        transformers.Phi4MultimodalImageProcessor(dynamic_hd=4),
        transformers.Phi4MultimodalFeatureExtractor(),
        tokenizer,
        chat_template=(
            "{% for message in messages %}<|{{ message['role'] }}|>{% for part in message['content'] %}"
            "{% if part['type'] == 'image' %}<|endoftext10|>{% else %}{{ part['text'] }}{% endif %}{% endfor %}"
            "<|end|>{% endfor %}{% if add_generation_prompt %}<|assistant|>{% endif %}"
        ),
    )
    config = transformers.Phi4MultimodalConfig(
        vocab_size=len(tokenizer), hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=2,
        num_key_value_heads=1, initializer_range=INITIALIZER_RANGE, tie_word_embeddings=True,
        bos_token_id=tokenizer.bos_token_id, pad_token_id=tokenizer.pad_token_id,
        eos_token_id=[tokenizer.eos_token_id, token_id(tokenizer, "<|end|>")],
        rope_parameters={
            "rope_type": "longrope", "rope_theta": 1e4, "partial_rotary_factor": 0.75, "short_factor": [1.0] * 6,
            "long_factor": [1.0, 1.1, 1.3, 1.4, 1.6, 1.7],
        },
        vision_config={
            "hidden_size": 8, "intermediate_size": 8, "num_hidden_layers": 2, "num_attention_heads": 1,
            "image_token_id": token_id(tokenizer, named["image_token"]),
        },
        audio_config={
            "hidden_size": 16, "intermediate_size": 24, "num_blocks": 2, "num_attention_heads": 2,
            "ext_pw_out_channel": 16, "depthwise_separable_out_channel": 16, "nemo_conv_channels": 16,
            "audio_token_id": token_id(tokenizer, named["audio_token"]),
        },
    )  # fmt: skip
    return Nano(config, processor)
