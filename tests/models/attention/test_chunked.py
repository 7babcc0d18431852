"""Compares chunked attention with attention under a dense mask that is written down from the paths of the tree."""

import pytest
import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from medtune.models.attention import columns as module
from medtune.models.attention.columns import BLOCK, PLACE, chunked, continued
from tests.models.attention.random_rows import dense, random_rows

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
    monkeypatch.setattr(module, "CHUNK", chunk)
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


def test_branches_do_not_pay_for_one_another(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each chunk reads the shared beginning and its own branches alone."""
    from tests.models.attention.random_rows import many_branches

    rows, read = many_branches(shared=64, branches=64, length=16), []
    real = scaled_dot_product_attention

    def counted(q: Tensor, k: Tensor, v: Tensor, **named: object) -> Tensor:
        read.append(q.shape[2] * k.shape[2])
        return real(q, k, v, **named)  # type: ignore[arg-type]

    monkeypatch.setattr(module, "scaled_dot_product_attention", counted)
    monkeypatch.setattr(module, "CHUNK", 64)
    chunked(*_inputs(rows.ids_BL.shape[1], 1), rows.columns_BCL[:, None, :PLACE], scale=None)
    assert read == [64 * 64] + [64 * 128] * 16
