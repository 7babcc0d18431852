"""Tiny random checkpoints of the models of the zoo that the generic entry reads, written with transformers' classes."""

from typing import Any

from transformers import (
    Gemma3nAudioFeatureExtractor,
    Gemma3nConfig,
    Gemma3nProcessor,
    MiniCPMV4_6Config,
    MiniCPMV4_6ImageProcessor,
    MiniCPMV4_6Processor,
    MiniCPMV4_6VideoProcessor,
    SiglipImageProcessor,
)

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
    processor = MiniCPMV4_6Processor(
        MiniCPMV4_6ImageProcessor(**sizes),
        MiniCPMV4_6VideoProcessor(**sizes),
        tokenizer,
        chat_template=(
            "{% for message in messages %}<|im_start|>{{ message['role'] }}\n{% for part in message['content'] %}"
            "{% if part['type'] in ('image', 'video') %}<|{{ part['type'] }}_pad|>{% else %}{{ part['text'] }}"
            "{% endif %}{% endfor %}<|im_end|>\n{% endfor %}"
            "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
        ),
    )
    config = MiniCPMV4_6Config(
        text_config=text_config(
            tokenizer, model_type="qwen3_5_text", layer_types=["linear_attention", "full_attention"], head_dim=16,
            linear_num_key_heads=2, linear_num_value_heads=2, linear_key_head_dim=8, linear_value_head_dim=8,
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
    processor = Gemma3nProcessor(
        Gemma3nAudioFeatureExtractor(),
        SiglipImageProcessor(size={"height": 64, "width": 64}, do_normalize=False),
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
    config = Gemma3nConfig(
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
