"""Compares the block masks that are made from columns with torch's own, and flex_attention with the columns."""

from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn.attention.flex_attention import create_block_mask
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from medtune.models.attention.columns import BLOCK, PLACE
from medtune.models.attention.decoder import WIDTH, block_mask, kernel_masks
from medtune.models.sequence.packing import Shown, pack
from medtune.models.sequence.tree import grow
from medtune.models.transformers_vlm import family
from tests.models.attention.random_rows import dense, many_branches, random_rows
from tests.models.tampering import all_seen
from tests.models.twins import layout, seen, twin


def _pairs(mask: Any) -> tuple[Tensor, Tensor]:
    """Returns which pairs of blocks are read at all, and which without asking for single tokens."""
    number = mask.kv_indices.shape[-1]
    found = []
    for count, index in ((mask.kv_num_blocks, mask.kv_indices), (mask.full_kv_num_blocks, mask.full_kv_indices)):
        listed_BN = torch.zeros(count.shape[0], number, number, dtype=torch.bool)
        for row in range(count.shape[0]):
            for block in range(number):
                listed_BN[row, block, index[row, 0, block, : int(count[row, 0, block])].long()] = True
        found.append(listed_BN)
    return found[0] | found[1], found[1]


@pytest.mark.parametrize("kind", ["tree", "window", "blocks", "blocks and window"])
def test_blocks_are_those_of_torch(kind: str) -> None:
    window = 40 if "window" in kind else None
    number = BLOCK + 1 if "blocks" in kind else PLACE + 1 if window else PLACE
    for seed in range(3):
        rows = random_rows(seed, longest=60)
        columns_BCL = rows.columns_BCL[:, :number].contiguous()
        mine = block_mask(columns_BCL, window=window)
        size, length = rows.ids_BL.shape
        theirs = create_block_mask(mine.mask_mod, size, None, length, length, device="cpu", BLOCK_SIZE=WIDTH)
        wanted, wanted_full = _pairs(theirs)
        some, full = _pairs(mine)
        seen_BLL = dense(rows, window=window, blocks="blocks" in kind)
        assert bool((some | ~wanted).all()), "a block that holds a seen token is left out"
        assert bool((wanted_full | ~full).all()), "a block is called full and is not"
        token_L = torch.arange(length)
        asked = [mine.mask_mod(torch.tensor(b), torch.tensor(0), token_L[:, None], token_L) for b in range(size)]
        assert torch.equal(torch.stack(asked), seen_BLL)


class _Largest(TorchDispatchMode):
    """Notes the largest tensor that is made while the mode is on, in bytes."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.largest = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        made = func(*args, **(kwargs or {}))
        sizes = (each.untyped_storage().nbytes() for each in tree_leaves(made) if isinstance(each, Tensor))
        self.largest = max(self.largest, *sizes, 0)
        return made


def test_a_row_of_32k_tokens_has_no_mask_of_all_pairs() -> None:
    """85 images of 256 tokens and many questions about them: the largest tensor is far below a bit for each pair."""
    length = 32768
    with _Largest() as made:
        rows = many_branches(shared=22016, branches=43, length=(length - 22016) // 43)
        assert rows.ids_BL.shape[1] > 32700
        config = type("Config", (), {"sliding_window": 1024, "layer_types": ["full_attention", "sliding_attention"]})
        masks = kernel_masks(config, rows.columns_BCL)
    assert isinstance(masks, dict)
    assert made.largest < 8e6
    assert made.largest < length * length / 8 / 16


@pytest.mark.parametrize(
    "name",
    [
        pytest.param("nano_gemma3", marks=pytest.mark.slow),
        *(pytest.param(name, marks=pytest.mark.soak) for name in ("nano_qwen25vl", "nano_mllama")),
    ],
)
def test_flex_attention_reads_the_same_as_the_columns(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a CPU it has a forward pass alone. Mllama's masks of cross-attention go past it, Gemma's layers have two."""
    # The code that torch generates for a CPU does not compile once it has seen rows of several lengths.
    torch.compiler.reset()
    assembled = twin(name)
    laid = [layout(assembled, name, answer, f"Plane{'?' * n}") for n in (1, 9) for answer in ("head", "heart", "no")]
    rows = pack([[Shown(grow(laid, range(6)), 0)]], pad_id=assembled.family.pad_id)

    def in_blocks(config: Any, columns_BCK: Tensor, *, is_plain: bool, is_whole: bool, blocks: bool = False) -> Any:
        number = BLOCK + 1 if blocks else PLACE
        return kernel_masks(config, columns_BCK[:, :number].contiguous())

    with torch.no_grad():
        media = seen(assembled, name, 0)
        wanted = assembled.model(rows, media).sums(6)
        monkeypatch.setattr(family, "carried", in_blocks)
        found, wrong = (assembled.model(each, media).sums(6) for each in (rows, all_seen(rows)))
    assert found.tolist() == pytest.approx(wanted.tolist(), abs=1e-4)
    assert float((wrong - wanted).abs().max()) > 1e-2
