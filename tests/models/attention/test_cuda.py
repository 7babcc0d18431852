"""Tests that flex_attention on a GPU gives the outputs and gradients of chunked attention on a CPU."""

from types import SimpleNamespace

import pytest
import torch

from medtune.models.attention import BLOCK, PLACE, carried, chunked, tree_attention
from tests.models.attention.test_block_mask import random_rows

pytestmark = pytest.mark.gpu


@pytest.mark.parametrize("kind", ["tree", "window", "blocks"])
def test_outputs_and_gradients_are_a_cpus(kind: str) -> None:
    for seed in range(3):
        rows, window = random_rows(seed, longest=200), 40 if kind != "tree" else None
        number = {"tree": PLACE, "window": PLACE + 1, "blocks": BLOCK + 1}[kind]
        torch.manual_seed(seed)
        size, length = rows.ids_BL.shape
        here = [torch.randn(size, heads, length, 64, requires_grad=True) for heads in (4, 2, 2)]
        there = [each.detach().cuda().requires_grad_() for each in here]
        columns_B1CL = rows.columns_BCL[:, None, :number].contiguous()
        wanted = chunked(here[0], here[1], here[2], columns_B1CL, scale=None, window=window)
        config = SimpleNamespace(sliding_window=window, head_dim=64, layer_types=None)
        columns_BCL = rows.columns_BCL.cuda()
        mask = carried(config, columns_BCL, is_plain=False, is_whole=True, blocks=kind == "blocks")
        mask = mask["sliding_attention"] if isinstance(mask, dict) else mask
        assert not isinstance(mask, torch.Tensor | dict), "the kernel was not chosen"
        module = torch.nn.Module()
        q, k, v = there
        found, _ = tree_attention(module, q, k, v, mask, scaling=64**-0.5)
        found = found.transpose(1, 2)
        torch.testing.assert_close(found.cpu(), wanted, rtol=0, atol=2e-3)
        felt, should = (
            torch.autograd.grad(out.square().sum(), given) for out, given in ((found, there), (wanted, here))
        )
        for mine, its in zip(felt, should, strict=True):
            torch.testing.assert_close(mine.cpu(), its, rtol=0, atol=2e-2)
