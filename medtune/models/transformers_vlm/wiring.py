"""What differs between families once their rows are laid out: how an image is encoded and how the decoder is shown it.

There are two ways, and every family takes one of them:

- *in the sequence*: visual tokens stand in the row, in place of placeholder tokens (`visual_tokens`);
- *beside the sequence*: the row holds one token that says "an image", and every later token attends to the image's
  states through cross-attention layers (`families.mllama`).

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
"""What a processor makes of one image, by the name of the tower's argument; the first axis counts images or patches."""


class Step(NamedTuple):
    """What the decoder reads at once: whole rows, or the next token of each.

    Attributes:
        ids_BL: int64.
        positions_BL: int64, (B, L) or (B, L, 3).
        seen: bool. (B, K) where a token sees all before it but padding, over the cached tokens and the new ones;
            (B, L, L) where the rows say who sees whom.
        media_BL: bool, True at the media's own tokens; all False where tokens are continued.
        sees_media_BL: bool, True at the media's first token and at all that follow on it.
        media_index_B: Which encoded item each row shows; all rows show one, or all are -1.
        media_spans_B: How often a row shows it, int64.
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
        """Whether the rows show media; false for rows of text alone."""
        return bool((self.media_index_B >= 0).all())

    def attention_mask(self, dtype: torch.dtype) -> Tensor:
        """Returns `seen` as transformers takes it: int64 (B, K), or (B, 1, L, L) that is added to the scores."""
        return self.seen.long() if self.seen.dim() == 2 else additive(self.seen, dtype)


@dataclass(frozen=True, slots=True)
class Wiring:
    """One family's part of the model.

    Attributes:
        roots: Each part's modules and parameters, by their names in the transformers model.
        encode: (model, one item per image) -> what `hidden` is shown.
        hidden: (model, step, encoded, cache) -> hidden_BLE before the output layer; fills the cache where there is one.
        plain_because: Why the decoder cannot be told who sees whom; None where it can.
    """

    roots: Mapping[PartName, tuple[str, ...]]
    encode: Callable[[PreTrainedModel, Sequence[Pixels]], Encoded]
    hidden: Callable[[PreTrainedModel, Step, Encoded | None, Cache | None], Tensor]
    plain_because: str | None = None
