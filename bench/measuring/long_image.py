"""A small model that reads an image as thousands of visual tokens, for benches.

Its tower costs nothing, so that what is timed is the language model. Weights are random and in float32.

Shape legend: M images, C channels, H height, W width, N visual tokens, D feature width.
"""

import torch
from torch import Tensor, nn
from transformers import LlamaConfig, LlamaForCausalLM

from medtune.models.contract import Assembled
from medtune.models.nano import pocket
from medtune.models.sequence.chatml import ChatML
from medtune.models.vlm import VisionLanguageModel

WIDTH, LAYERS = 256, 4


class _Tower(nn.Module):
    """Gives each image N features that depend on its brightness, without computing anything else."""

    def __init__(self, num_tokens: int) -> None:
        super().__init__()
        self.features_ND = nn.Parameter(torch.randn(num_tokens, WIDTH), requires_grad=False)

    def forward(self, pixels_MCHW: Tensor) -> Tensor:
        """Returns features_MND."""
        return self.features_ND + pixels_MCHW.mean(dim=(1, 2, 3)).view(-1, 1, 1)


def long_image_model(num_tokens: int, *, width: int = WIDTH, most_places: int) -> Assembled:
    """Returns a model with random weights that reads an image as that many tokens."""
    torch.manual_seed(0)
    tokenizer = pocket.chatml_tokenizer()
    config = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=width,
        intermediate_size=3 * width,
        num_hidden_layers=LAYERS,
        num_attention_heads=8,
        num_key_value_heads=2,
        max_position_embeddings=most_places,
        # With the default of 0.02 the outputs would hardly depend on what is read.
        initializer_range=0.1,
    )
    model = VisionLanguageModel(_Tower(num_tokens), nn.Linear(WIDTH, width), LlamaForCausalLM(config))
    family = ChatML(tokenizer, num_media_tokens=num_tokens)
    return Assembled(model.eval(), family, pocket.TRANSFORM, {})
