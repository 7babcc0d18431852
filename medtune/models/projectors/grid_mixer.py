"""A projector for images that mixes a whole feature grid into a few tokens.

Shape legend: B images, N grid cells, D feature width, R reduced width, K visual tokens, E embedding width.
"""

from torch import Tensor, nn


class GridMixer(nn.Module):
    """Reduces each cell of a feature grid, then mixes all cells into a few tokens.

    Each token depends on the whole grid, so that it can say *where* something lies. A projector that works on each cell
    alone leaves that to the attention of the language model, which hardly learns it in the few hundred steps of
    pocket's recipes.
    """

    def __init__(
        self, feature_width: int, *, num_cells: int, reduced_width: int, num_tokens: int, embedding_width: int
    ) -> None:
        super().__init__()
        self.reduce = nn.Sequential(
            nn.LayerNorm(feature_width), nn.Linear(feature_width, reduced_width), nn.GELU(), nn.Flatten()
        )
        self.mix = nn.Linear(num_cells * reduced_width, num_tokens * embedding_width)
        self._num_tokens = num_tokens

    def forward(self, features_BND: Tensor) -> Tensor:
        tokens_BKE: Tensor = self.mix(self.reduce(features_BND)).unflatten(1, (self._num_tokens, -1))
        return tokens_BKE
