"""A projector whose tokens are words of tables of their own, chosen softly by scores that are read off the whole grid.

Shape legend: B media items, N grid cells, D feature width, H = N * D, K visual tokens, V codes of a token, E embedding
width.

Source: the visual tokens of Ovis, arXiv 2405.20797, section 3, which are mixtures of the rows of a visual vocabulary.
Ovis scores each cell for itself, with one table; here each token scores the whole grid, with a table of its own.
"""

import math

import torch
from torch import Tensor, nn

from medtune.models.projectors import Projector
from medtune.models.towers import Tower

NUM_TOKENS, NUM_CODES = 8, 16
SHARPNESS = 4.0
"""How much surer a token chooses in evaluation than in training.

Source: measured with pocket on pocket_fetal_phantom_lora's data; docs/training.md has the figures.
"""


class VocabularyProjector(nn.Module):
    """A projector from features (B, *grid, D) to tokens (B, K, E).

    Each token depends on the whole grid, so that it can say *where* something lies. A projector that works on each cell
    alone leaves that to the attention of the language model, which hardly learns it in the few hundred steps of
    pocket's recipes. However sure the scores are, a token stays between its codes, so that the language model reads of
    unseen items what it learnt to read. While the projector learns, tokens are mixtures; in evaluation they are sharper
    by SHARPNESS, since scores of unseen items are less sure.

    Attributes:
        codes_KVE: The codes that each token chooses among.
    """

    def __init__(
        self, feature_width: int, *, num_cells: int, num_tokens: int, num_codes: int, embedding_width: int
    ) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(feature_width)
        self.score = nn.Linear(num_cells * feature_width, num_tokens * num_codes)
        self.codes_KVE = nn.Parameter(torch.randn(num_tokens, num_codes, embedding_width) / math.sqrt(embedding_width))

    def read(self, features: Tensor) -> Tensor:
        """Returns what the scores are read off, (B, H)."""
        read_BH: Tensor = self.norm(features.reshape(len(features), -1, *self.norm.normalized_shape)).flatten(1)
        return read_BH

    def forward(self, features: Tensor) -> Tensor:
        scores_BKV = self.score(self.read(features)).unflatten(1, self.codes_KVE.shape[:2]).float()
        sharp_BKV = scores_BKV if self.training else SHARPNESS * scores_BKV
        return torch.einsum("bkv,kve->bke", sharp_BKV.softmax(2), self.codes_KVE)


def projector(over: Tower) -> Projector:
    """Returns the projector for a tower's features."""
    return Projector(
        lambda width: VocabularyProjector(
            over.width,
            num_cells=math.prod(over.grid),
            num_tokens=NUM_TOKENS,
            num_codes=NUM_CODES,
            embedding_width=width,
        ),
        NUM_TOKENS,
    )
