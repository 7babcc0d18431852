"""Parts of the tiny, random twins of the pocket models: a tokenizer of bytes, a few convolutions and a narrow Llama."""

from __future__ import annotations

from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from torch import nn
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from medtune.models.sequence.chatml import CLOSE, OPEN
from medtune.models.towers.image_tower import GridTower, ImageTransform

SIZE_PX = 32
FEATURE_WIDTH = 24
HIDDEN = 32
CONTEXT = 32768
"""The longest sequence: in bytes about as much text as the 8,192 tokens of pocket's language model."""
TRANSFORM = ImageTransform(SIZE_PX, mean=(0.5, 0.5, 0.5), std=(0.25, 0.25, 0.25))


def byte_tokenizer() -> PreTrainedTokenizerFast:
    """Returns a tokenizer with one token for each byte and the two ChatML tokens."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer = Tokenizer(models.BPE(vocab={c: i for i, c in enumerate(alphabet)}, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.decoder = decoders.ByteLevel()
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token=CLOSE, pad_token=CLOSE)
    fast.add_special_tokens({"additional_special_tokens": [OPEN]})
    return fast


def tower(*, grid: int) -> GridTower:
    """Returns a tower of two convolutions with random weights.

    Args:
        grid: Number of features along each side.
    """
    convolutions = nn.Sequential(
        nn.Conv2d(3, FEATURE_WIDTH, kernel_size=4, stride=4),
        nn.BatchNorm2d(FEATURE_WIDTH),
        nn.ReLU(),
        nn.Conv2d(FEATURE_WIDTH, FEATURE_WIDTH, kernel_size=1),
    )
    return GridTower(convolutions, grid=grid)


def language(vocabulary: int) -> LlamaForCausalLM:
    """Returns a Llama of two layers with random weights, for a vocabulary of that size."""
    return LlamaForCausalLM(
        LlamaConfig(
            vocab_size=vocabulary,
            hidden_size=HIDDEN,
            intermediate_size=64,
            num_hidden_layers=2,
            num_attention_heads=4,
            num_key_value_heads=2,
            max_position_embeddings=CONTEXT,
            # With the default of 0.02, the outputs of a tiny model would differ so little that parity tests could
            # hardly find an error.
            initializer_range=0.2,
            tie_word_embeddings=True,
        )
    )
