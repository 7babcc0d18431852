"""Parts of the tiny, random twins of the pocket models: a tokenizer of bytes, a few convolutions and a narrow Llama."""

from collections.abc import Callable, Mapping

import torch
from torch import nn
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from medtune.models.assemble import ZooEntry
from medtune.models.contract import Assembled, Transform
from medtune.models.nano import byte_tokenizer
from medtune.models.sequence.chatml import CLOSE, OPEN, ChatML
from medtune.models.sequence.end_tokens import ContextLimited
from medtune.models.towers.image_tower import GridTower, ImageTransform
from medtune.models.vlm import VisionLanguageModel
from medtune.models.weights.loading_options import DEFAULT, Loading

SIZE_PX = 32
FEATURE_WIDTH = 24
HIDDEN = 32
GRID, NUM_TOKENS = 4, 8
CONTEXT = 32768
"""The longest sequence: in bytes about as much text as the 8,192 tokens of pocket's language model."""
TRANSFORM = ImageTransform(SIZE_PX, mean=(0.5, 0.5, 0.5), std=(0.25, 0.25, 0.25))

Projectors = Mapping[str | None, Callable[[int], nn.Module]]
"""Makes a projector for an embedding width by the values that `model.projector` may have; None is the model's own."""


def chatml_tokenizer() -> PreTrainedTokenizerFast:
    """Returns a tokenizer with one token for each byte and the two ChatML tokens."""
    return byte_tokenizer((CLOSE, OPEN), bos=None, eos=CLOSE, pad=CLOSE)


def chosen(name: str, projectors: Projectors, loading: Loading) -> Callable[[int], nn.Module]:
    """Returns the projector that `model.projector` names."""
    if loading.projector not in projectors:
        others = " and ".join(each for each in projectors if each is not None)
        raise ValueError(f"model.projector: {name} has its own and {others}, not {loading.projector!r}")
    return projectors[loading.projector]


def takes(projectors: Projectors) -> tuple[str, ...]:
    """Returns the fields of `Loading` that a model with these projectors takes."""
    return ("projector",) if len(projectors) > 1 else ()


def nano_entry(
    title: str, *, vision: Callable[[GridTower], nn.Module], projectors: Projectors, transform: Transform
) -> ZooEntry:
    """Returns the entry of a tiny twin with random weights that reads a media item as `NUM_TOKENS` tokens."""

    def modules(vocabulary: int, loading: Loading) -> VisionLanguageModel:
        seen, spoken = vision(tower(grid=GRID)), language(vocabulary)
        return VisionLanguageModel(seen, chosen("the twin", projectors, loading)(HIDDEN), spoken)

    def assemble(seed: int, loading: Loading = DEFAULT, /) -> Assembled:
        tokenizer = chatml_tokenizer()
        torch.manual_seed(seed)
        return Assembled(
            model=modules(len(tokenizer), loading),
            template=ContextLimited(ChatML(tokenizer, num_media_tokens=NUM_TOKENS), max_tokens=CONTEXT),
            transform=transform,
            provenance=dict.fromkeys(("vision", "projector", "language"), f"random (seed {seed})"),
        )

    def skeleton(loading: Loading = DEFAULT, /) -> VisionLanguageModel:
        with torch.device("meta"):
            return modules(len(chatml_tokenizer()), loading)

    return ZooEntry(title, "Apache-2.0", assemble, skeleton, twin=True, takes=takes(projectors))


def tower(*, grid: int) -> GridTower:
    """Returns a tower of two convolutions with random weights and grid x grid features."""
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
