"""The wiring of a family: the functions that encode an image and pass it to the decoder.

A family passes images to the decoder in one of two ways:

- *in the sequence*: visual tokens take the place of placeholder tokens in the row (`visual_tokens`);
- *beside the sequence*: the row holds a single token for the image, and the later tokens attend to the image's states
  through cross-attention layers (`families.mllama`).

Shape legend: B rows, L new tokens, K all tokens so far, E embedding width.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor
from transformers import Cache, PreTrainedModel

from medtune.models.contract import Encoded
from medtune.models.sequence.packing import additive
from medtune.models.tuning.plan import PartName

Pixels = Mapping[str, Tensor]
"""One prepared media item: the tower's arguments by name. The first axis of each counts images, frames or patches."""


class Step(NamedTuple):
    """The tokens that the decoder reads in one pass: whole rows, or the next token of each row.

    Attributes:
        ids_BL: Token ids, int64.
        positions_BL: Position ids, int64, (B, L), or (B, L, 3) for M-RoPE.
        seen: The attention mask, bool. Either (B, K), False at padding, for rows in which a token sees all tokens
            before it; it covers the cached and the new tokens. Or (B, L, L), True where the token of the second axis
            sees that of the third.
        media_BL: bool, True at visual tokens; all False when a reply is continued.
        sees_media_BL: bool, True at the first visual token of a row and at all tokens that see it.
        media_index_B: Index of the encoded item that each row shows, int64. Either all rows show an item, or none
            does and all values are -1.
        media_spans_B: Number of media spans of each row that show the item, int64.
    """

    ids_BL: Tensor
    positions_BL: Tensor
    seen: Tensor
    media_BL: Tensor
    sees_media_BL: Tensor
    media_index_B: Tensor
    media_spans_B: Tensor

    @property
    def shows_media(self) -> bool:
        """Whether the rows show media; False for rows of text alone."""
        return bool((self.media_index_B >= 0).all())

    def attention_mask(self, dtype: torch.dtype) -> Tensor:
        """Returns `seen` in transformers' form: int64 (B, K), or (B, 1, L, L) that is added to the attention scores."""
        return self.seen.long() if self.seen.dim() == 2 else additive(self.seen, dtype)


@dataclass(frozen=True, slots=True)
class Wiring:
    """The parts of a family's model and the functions that run them.

    Attributes:
        roots: Names of each part's modules and parameters in the transformers model.
        encode: Function of the model and prepared media items that returns the encoded items for `hidden`.
        hidden: Function of the model, the step, the encoded items and the cache that returns hidden_BLE, the states
            before the output layer. It also fills the cache, where one is given.
        plain_because: Reason why the decoder takes no mask (B, L, L), so that every sequence needs a row of its own;
            None where it takes one.
    """

    roots: Mapping[PartName, tuple[str, ...]]
    encode: Callable[[PreTrainedModel, Sequence[Pixels]], Encoded]
    hidden: Callable[[PreTrainedModel, Step, Encoded | None, Cache | None], Tensor]
    plain_because: str | None = None
