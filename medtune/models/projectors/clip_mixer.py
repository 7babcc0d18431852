"""A projector for video clips that mixes the feature grids of all frames into a few tokens.

Shape legend: B clips, T frames, N grid cells, D feature width, R reduced width, F frame width, K visual tokens,
E embedding width.
"""

from torch import Tensor, nn


class ClipMixer(nn.Module):
    """Reduces each frame to one vector, then mixes the vectors of all frames into a few tokens.

    Each place in the sequence of frames has weights of its own, so that a token can say in which order things happened.
    A projector that works on each frame alone leaves that to the attention of the language model (see `GridMixer`).
    """

    def __init__(
        self,
        feature_width: int,
        *,
        num_frames: int,
        num_cells: int,
        reduced_width: int,
        frame_width: int,
        num_tokens: int,
        embedding_width: int,
    ) -> None:
        super().__init__()
        self.reduce = nn.Sequential(
            nn.LayerNorm(feature_width),
            nn.Linear(feature_width, reduced_width),
            nn.GELU(),
            nn.Flatten(start_dim=2),
            nn.Linear(num_cells * reduced_width, frame_width),
            nn.GELU(),
            nn.Flatten(),
        )
        self.mix = nn.Linear(num_frames * frame_width, num_tokens * embedding_width)
        self._num_tokens = num_tokens

    def forward(self, features_BTND: Tensor) -> Tensor:
        tokens_BKE: Tensor = self.mix(self.reduce(features_BTND)).unflatten(1, (self._num_tokens, -1))
        return tokens_BKE
