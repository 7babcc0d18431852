"""Compares the block masks that are made from columns with torch's own, and flex_attention with the columns."""

import random
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn.attention.flex_attention import create_block_mask
from torch.nn.functional import scaled_dot_product_attention
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from transformers import BloomConfig, BloomForCausalLM, MistralConfig, MistralForCausalLM

from medtune.models import attention as module
from medtune.models.attention import (
    BLOCK,
    NAME,
    PLACE,
    WIDTH,
    block_mask,
    carried,
    chunked,
    continued,
    kernel_masks,
    take_columns,
)
from medtune.models.sequence.builder import IGNORED, Sequence, Span
from medtune.models.sequence.packing import PackedRows, Shown, pack
from medtune.models.sequence.tree import Tree, grow
from medtune.models.transformers_vlm import family
from tests.models.twins import all_seen, fresh, layout, seen, twin
from tests.soak import in_suites


def random_rows(seed: int, *, longest: int = 12) -> PackedRows:
    """Returns two rows of one to three trees each, in which branches leave one another in any order."""
    seeds = ([seed * 100 + 10 * row + n for n in range(1 + (seed + row) % 3)] for row in (0, 1))
    rows = [[Shown(_tree(each, longest), 0) for each in row] for row in seeds]
    return pack(rows, pad_id=0)


def _tree(seed: int, longest: int) -> Tree:
    draw = random.Random(seed)
    sequences = []
    for _ in range(draw.randint(2, 6)):
        before = [draw.randint(1, 2) for _ in range(draw.randint(1, 3))]
        ids = [*before, 0, 0, 0, 0, *(draw.randint(1, 2) for _ in range(draw.randint(1, longest)))]
        span = Span(len(before), len(before) + 4)
        sequences.append(Sequence(tuple(ids), (IGNORED,) * len(ids), tuple(range(len(ids))), (span,)))
    return grow(sequences, range(len(sequences)))


def many_branches(*, shared: int, branches: int, length: int) -> PackedRows:
    """Returns one row whose branches have that length and leave a shared beginning at its end."""
    sequences = []
    for number in range(branches):
        ids = (1,) * shared + (2 + number,) * length
        sequences.append(Sequence(ids, (IGNORED,) * len(ids), tuple(range(len(ids))), ()))
    return pack([[Shown(grow(sequences, range(branches)), None)]], pad_id=0)


def dense(rows: PackedRows, *, window: int | None = None, blocks: bool = False) -> Tensor:
    """Returns bool (B, L, L), by the ends of runs one token at a time."""
    size, length = rows.ids_BL.shape
    seen_BLL = torch.zeros(size, length, length, dtype=torch.bool)
    ends, places, images = (rows.columns_BCL[:, column].tolist() for column in (1, PLACE, BLOCK))
    for row in range(size):
        path: list[int] = []
        for token in range(length):
            # A token's parent is the last one whose run is still open.
            path = [*(each for each in path if token < ends[row][each]), token]
            for each in path:
                near = window is None or places[row][token] - places[row][each] < window
                seen_BLL[row, token, each] = near
        if blocks:
            image_L = torch.tensor(images[row])
            seen_BLL[row] |= (image_L[:, None] == image_L) & (image_L >= 0)
    return seen_BLL


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


@pytest.mark.parametrize("name", in_suites(("nano_gemma3", "nano_qwen25vl", "nano_mllama"), slow=("nano_gemma3",)))
def test_flex_attention_reads_the_same_as_the_columns(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a CPU it has a forward pass alone. Mllama's masks of cross-attention go past it, Gemma's layers have two."""
    # The code that torch generates for a CPU does not compile once it has seen rows of several lengths.
    torch.compiler.reset()
    assembled = twin(name)
    laid = [layout(assembled, name, answer, f"Plane{'?' * n}") for n in (1, 9) for answer in ("head", "heart", "no")]
    rows = pack([[Shown(grow(laid, range(6)), 0)]], pad_id=assembled.template.pad_id)

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


COLUMNS = {"tree": PLACE, "window": PLACE + 1, "blocks": BLOCK + 1}


def _inputs(length: int, rows: int, *, heads: int = 4, groups: int = 2) -> tuple[Tensor, Tensor, Tensor]:
    torch.manual_seed(0)
    q_BHQD, k_BGKD, v_BGKD = (torch.randn(rows, number, length, 8) for number in (heads, groups, groups))
    return tuple(each.requires_grad_() for each in (q_BHQD, k_BGKD, v_BGKD))  # type: ignore[return-value]


def _plain(q_BHQD: Tensor, k_BGKD: Tensor, v_BGKD: Tensor, seen_BLL: Tensor) -> Tensor:
    k, v = (each.repeat_interleave(q_BHQD.shape[1] // each.shape[1], 1) for each in (k_BGKD, v_BGKD))
    return scaled_dot_product_attention(q_BHQD, k, v, attn_mask=seen_BLL.unsqueeze(1))


@pytest.mark.parametrize("kept", [0, 2**30])
@pytest.mark.parametrize("chunk", [1, 7, 256])
@pytest.mark.parametrize("kind", COLUMNS)
def test_outputs_and_gradients_equal_a_dense_mask(
    kind: str, chunk: int, kept: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "SHORTEST_CHUNK", chunk)
    monkeypatch.setattr(module, "LONGEST_CHUNK", chunk)
    monkeypatch.setattr(module, "_KEPT_BYTES", kept)
    for seed in range(4):
        rows, window = random_rows(seed), 5 if kind != "tree" else None
        columns_BCL = rows.columns_BCL[:, : COLUMNS[kind]]
        seen_BLL = dense(rows, window=window, blocks=kind == "blocks")
        inputs = _inputs(*reversed(rows.ids_BL.shape))
        wanted, found = _plain(*inputs, seen_BLL), chunked(*inputs, columns_BCL.unsqueeze(1), scale=None, window=window)
        torch.testing.assert_close(found, wanted, rtol=0, atol=1e-5)
        felt, should = (torch.autograd.grad((out * out.detach().cos()).sum(), inputs) for out in (found, wanted))
        for mine, its in zip(felt, should, strict=True):
            torch.testing.assert_close(mine, its, rtol=0, atol=1e-4)


def test_a_wrong_end_is_seen_in_the_outputs() -> None:
    rows = random_rows(0)
    inputs = _inputs(*reversed(rows.ids_BL.shape))
    columns_BCL = rows.columns_BCL[:, :PLACE].clone()
    columns_BCL[:, 1] = columns_BCL.shape[2]
    wrong = chunked(*inputs, columns_BCL.unsqueeze(1), scale=None)
    assert float((wrong - _plain(*inputs, dense(rows))).detach().abs().max()) > 0.1


@pytest.mark.parametrize("kind", COLUMNS)
def test_the_last_tokens_see_through_a_cache_what_they_see_in_the_whole_row(kind: str) -> None:
    rows, window = random_rows(3), 5 if kind != "tree" else None
    columns_B1CK = rows.columns_BCL[:, : COLUMNS[kind]].unsqueeze(1)
    q_BHQD, k_BGKD, v_BGKD = (each.detach() for each in _inputs(*reversed(rows.ids_BL.shape)))
    wanted = _plain(q_BHQD, k_BGKD, v_BGKD, dense(rows, window=window, blocks=kind == "blocks"))
    for number in (1, 4):
        found = continued(q_BHQD[:, :, -number:], k_BGKD, v_BGKD, columns_B1CK, scale=None, window=window)
        torch.testing.assert_close(found, wanted[:, :, -number:], rtol=0, atol=1e-5)


@pytest.mark.parametrize(
    ("shared", "branches", "length", "chunks", "queries"),
    [(64, 64, 16, 16, 64), (85, 8, 92, 8, 92), (300, 12, 60, 6, 120), (1100, 9, 80, 3, 240)],
)
def test_branches_do_not_pay_for_one_another(
    shared: int, branches: int, length: int, chunks: int, queries: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each chunk reads the shared beginning and its own branches alone, more of them the longer the beginning is."""
    rows, read = many_branches(shared=shared, branches=branches, length=length), []
    real = scaled_dot_product_attention

    def counted(q: Tensor, k: Tensor, v: Tensor, **named: object) -> Tensor:
        read.append(q.shape[2] * k.shape[2])
        return real(q, k, v, **named)  # type: ignore[arg-type]

    monkeypatch.setattr(module, "scaled_dot_product_attention", counted)
    chunked(*_inputs(rows.ids_BL.shape[1], 1), rows.columns_BCL[:, None, :PLACE], scale=None)
    assert read[0] == shared**2
    # The first chunks read what is before them without a copy: they would leave out less than a quarter of it.
    assert len(read) == 1 + chunks
    assert read[-1] == queries * (shared + queries)


COMMON = tuple(range(1, 12))
ENDS = ((20, 21, 22, 23, 24, 25, 26, 27), (20, 21, 30, 31, 32, 33, 34), (35, 36, 37))
WINDOW = 6


def _windowed() -> MistralForCausalLM:
    torch.manual_seed(0)
    config = MistralConfig(
        vocab_size=40,
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        sliding_window=WINDOW,
        initializer_range=0.3,
    )
    model: MistralForCausalLM = MistralForCausalLM(config).eval()
    return model


@torch.no_grad()
def test_a_window_slides_over_each_sequence_and_not_over_the_row() -> None:
    model = _windowed()
    plain = torch.stack([model(torch.tensor([COMMON + end])).logits[0, -1] for end in ENDS])
    take_columns(model)
    laid = [Sequence(ids, (IGNORED,) * len(ids), tuple(range(len(ids))), ()) for ids in (COMMON + end for end in ENDS)]
    tree = grow(laid, range(len(laid)))
    rows = pack([[Shown(tree, None)]], pad_id=0)

    def read(rows: PackedRows) -> torch.Tensor:
        mask = carried(model.config, rows.columns_BCL, is_plain=rows.is_plain, is_whole=True)
        hidden_BLE = model.get_decoder()(
            input_ids=rows.ids_BL, attention_mask=mask, position_ids=rows.positions_BL
        ).last_hidden_state
        logits_RV: torch.Tensor = model.lm_head(hidden_BLE[0, list(tree.leaves)])
        return logits_RV

    torch.testing.assert_close(read(rows), plain, rtol=0, atol=1e-5)
    by_row_BCL = rows.columns_BCL.clone()
    by_row_BCL[:, PLACE] = torch.arange(by_row_BCL.shape[2])
    for wrong in (all_seen(rows), rows._replace(columns_BCL=by_row_BCL)):
        assert float((read(wrong) - plain).abs().max()) > 1e-2


@torch.no_grad()
def test_masks_of_two_axes_keep_their_meaning() -> None:
    """transformers drops them in silence where no maker of masks is registered."""
    model, ids_BL = _windowed(), torch.tensor([[7, 7, *COMMON[:4]]])
    padding_BL = torch.tensor([[0, 0, 1, 1, 1, 1]])
    wanted = model(torch.tensor([COMMON[:4]])).logits[0, -1]
    take_columns(model)
    found = model(ids_BL, attention_mask=padding_BL).logits[0, -1]
    torch.testing.assert_close(found, wanted, rtol=0, atol=1e-5)
    assert float((model(ids_BL).logits[0, -1] - wanted).abs().max()) > 1e-2


def test_a_decoder_with_an_attention_of_its_own_is_refused() -> None:
    model = BloomForCausalLM(BloomConfig(vocab_size=20, hidden_size=16, n_layer=1, n_head=2))
    with pytest.raises(ValueError, match="BloomForCausalLM computes its attention in a way of its own"):
        take_columns(model)


@pytest.mark.parametrize("name", ["nano_pocket", "nano_gemma3"])
def test_a_saved_model_does_not_name_the_attention(name: str, tmp_path: Path) -> None:
    """Other tools read the checkpoint, and know no attention of that name."""
    fresh(name).model.save(tmp_path)
    written = list(tmp_path.rglob("*.json"))
    assert written
    assert not any(NAME in path.read_text() for path in written)
