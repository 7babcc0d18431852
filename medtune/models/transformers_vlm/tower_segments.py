"""Attention in towers whose patches see only those of their own segment: a window, a frame or a picture.

transformers calls the attention function once for each segment, 1,260 times for one picture in Qwen2.5-VL's tower. Here
all segments of one length are one batch of one call, so that a picture takes at most four calls in a layer: whole
windows, those of its right and lower edge, and the one in its corner. Nothing is padded and no mask is made.

Shape legend: H heads, S patches of all segments, K segments of one length, N patches of such a segment, D width of a
head.
"""

import inspect
from collections.abc import Sequence
from itertools import groupby, pairwise
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

SEGMENTS = "medtune_segments_like_flash"
"""Name of the attention. transformers hands all patches with their boundaries to functions whose name holds "flash"."""


class _Run(NamedTuple):
    length: int
    number: int

    @property
    def patches(self) -> int:
        return self.length * self.number


def attend_segments_together(tower: nn.Module) -> None:
    """Lets a tower of transformers attend to its segments together, in place; other towers stay as they are."""
    ALL_ATTENTION_FUNCTIONS.register(SEGMENTS, attend)
    for module in tower.modules():
        config: Any = getattr(module, "config", None)
        has_segments = "cu_seqlens" in inspect.signature(type(module).forward).parameters
        if has_segments and getattr(config, "_attn_implementation", None) == "sdpa":
            config._attn_implementation = SEGMENTS


def attend(
    module: nn.Module,
    query_1HSD: Tensor,
    key_1HSD: Tensor,
    value_1HSD: Tensor,
    attention_mask: Tensor | None,
    *,
    cu_seq_lens_q: Tensor,
    scaling: float | None = None,
    dropout: float = 0.0,
    **_: object,
) -> tuple[Tensor, None]:
    """Returns the output (1, S, H, D) of each patch's attention to its segment, as transformers' functions do.

    Args:
        attention_mask: Always None.
        cu_seq_lens_q: Where each segment begins, and where the last one ends.
    """
    runs = _runs(cu_seq_lens_q.tolist())
    sizes = [run.patches for run in runs]
    split = [each.split(sizes, dim=2) for each in (query_1HSD, key_1HSD, value_1HSD)]
    found: dict[int, Tensor] = {}
    for length in dict.fromkeys(run.length for run in runs):
        mine = [number for number, run in enumerate(runs) if run.length == length]
        query, key, value = (_stacked([parts[number] for number in mine], length) for parts in split)
        said_KNHD, _none = sdpa_attention_forward(
            module, query, key, value, attention_mask=None, dropout=dropout, scaling=scaling, is_causal=False
        )
        said = said_KNHD.flatten(0, 1).split([sizes[number] for number in mine])
        found.update(zip(mine, said, strict=True))
    return torch.cat([found[number] for number in range(len(runs))]).unsqueeze(0), None


def _runs(boundaries: Sequence[int]) -> list[_Run]:
    """Returns the runs of segments of one length.

    >>> [tuple(run) for run in _runs([0, 4, 8, 10, 14])]
    [(4, 2), (2, 1), (4, 1)]
    """
    lengths = [stop - start for start, stop in pairwise(boundaries)]
    return [_Run(length, len(list(same))) for length, same in groupby(lengths)]


def _stacked(parts_1HSD: Sequence[Tensor], length: int) -> Tensor:
    whole_1HSD = parts_1HSD[0] if len(parts_1HSD) == 1 else torch.cat(list(parts_1HSD), dim=2)
    _, heads, patches, width = whole_1HSD.shape
    return whole_1HSD.reshape(heads, patches // length, length, width).transpose(0, 1)
