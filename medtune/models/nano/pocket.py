"""Parts of pocket's random, tiny twins, for tests alone: a tokenizer of bytes, a few convolutions, a narrow Llama."""

from __future__ import annotations

from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from torch import nn
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from medtune.models.sequence.chatml import CLOSE, OPEN
from medtune.models.towers.image_tower import GridTower, ImageTransform

SIZE_PX = 32
FEATURE_WIDTH = 24
HIDDEN = 32
TRANSFORM = ImageTransform(SIZE_PX, mean=(0.5, 0.5, 0.5), std=(0.25, 0.25, 0.25))


def byte_tokenizer() -> PreTrainedTokenizerFast:
    """Returns a tokenizer that spells every byte, with the two ChatML tokens."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer = Tokenizer(models.BPE(vocab={c: i for i, c in enumerate(alphabet)}, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.decoder = decoders.ByteLevel()
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token=CLOSE, pad_token=CLOSE)
    fast.add_special_tokens({"additional_special_tokens": [OPEN]})
    return fast


def tower(*, grid: int) -> GridTower:
    """Returns two layers of convolutions."""
    convolutions = nn.Sequential(
        nn.Conv2d(3, FEATURE_WIDTH, kernel_size=4, stride=4),
        nn.BatchNorm2d(FEATURE_WIDTH),
        nn.ReLU(),
        nn.Conv2d(FEATURE_WIDTH, FEATURE_WIDTH, kernel_size=1),
    )
    return GridTower(convolutions, grid=grid)


def language(vocabulary: int) -> LlamaForCausalLM:
    """Returns a Llama of two layers."""
    return LlamaForCausalLM(
        LlamaConfig(
            vocab_size=vocabulary,
            hidden_size=HIDDEN,
            intermediate_size=64,
            num_hidden_layers=2,
            num_attention_heads=4,
            num_key_value_heads=2,
            max_position_embeddings=2048,
            # The default of 0.02 leaves a tiny model so flat that parity tests are nearly blind.
            initializer_range=0.2,
            tie_word_embeddings=True,
        )
    )
