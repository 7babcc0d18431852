"""nano_pocket: pocket's random, tiny twin, for tests alone."""

from __future__ import annotations

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from torch import nn
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from medtune.models.assemble import ZooEntry
from medtune.models.loading_plan import DEFAULT, Loading, refuse_loading
from medtune.models.projectors.grid_mixer import GridMixer
from medtune.models.sequence.chatml import CLOSE, OPEN, ChatML
from medtune.models.vision import GridTower, ImageTransform
from medtune.models.vlm import Assembled, VisionLanguageModel

GRID = 4
SIZE_PX = 32
FEATURE_WIDTH = 24
HIDDEN = 32
NUM_TOKENS = 8


def entry() -> ZooEntry:
    """Returns the zoo entry."""
    return ZooEntry(
        title="Random convolutions + grid-mixing projector + random Llama of width 32; for tests",
        licence="Apache-2.0",
        assemble=_assemble,
        skeleton=_skeleton,
    )


def byte_tokenizer() -> PreTrainedTokenizerFast:
    """Returns a tokenizer that spells every byte, with the two ChatML tokens."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer = Tokenizer(models.BPE(vocab={c: i for i, c in enumerate(alphabet)}, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.decoder = decoders.ByteLevel()
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token=CLOSE, pad_token=CLOSE)
    fast.add_special_tokens({"additional_special_tokens": [OPEN]})
    return fast


def _modules(vocabulary: int) -> VisionLanguageModel:
    convolutions = nn.Sequential(
        nn.Conv2d(3, FEATURE_WIDTH, kernel_size=4, stride=4),
        nn.BatchNorm2d(FEATURE_WIDTH),
        nn.ReLU(),
        nn.Conv2d(FEATURE_WIDTH, FEATURE_WIDTH, kernel_size=1),
    )
    language = LlamaForCausalLM(
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
    projector = GridMixer(
        FEATURE_WIDTH, num_cells=GRID * GRID, reduced_width=16, num_tokens=NUM_TOKENS, embedding_width=HIDDEN
    )
    return VisionLanguageModel(GridTower(convolutions, grid=GRID), projector, language)


def _assemble(seed: int, loading: Loading = DEFAULT, /) -> Assembled:
    refuse_loading(loading, name="nano_pocket")
    tokenizer = byte_tokenizer()
    torch.manual_seed(seed)
    return Assembled(
        model=_modules(len(tokenizer)),
        family=ChatML(tokenizer, num_media_tokens=NUM_TOKENS),
        transform=ImageTransform(SIZE_PX, mean=(0.5, 0.5, 0.5), std=(0.25, 0.25, 0.25)),
        provenance=dict.fromkeys(("vision", "projector", "language"), f"random (seed {seed})"),
    )


def _skeleton() -> VisionLanguageModel:
    with torch.device("meta"):
        return _modules(len(byte_tokenizer()))
