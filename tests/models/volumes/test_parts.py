"""Any tower with any projector gives the tokens that it says, and learns."""

from __future__ import annotations

import pytest
import torch

from medtune.models.volumes.parts import PROJECTORS, TOWERS, projector, tower

SIZE = (16, 16, 8)


@pytest.mark.parametrize("vision", TOWERS)
@pytest.mark.parametrize("joint", PROJECTORS)
def test_pair_gives_the_tokens_that_it_says_and_learns(vision: str, joint: str) -> None:
    torch.manual_seed(0)
    eyes = tower(vision, SIZE)
    bridge = projector(joint, eyes)
    seeing, joining = eyes.build(), bridge.build(40)
    features = seeing(torch.rand(1, 1, *SIZE))
    assert features.shape == (1, *eyes.grid, eyes.width)
    tokens = joining(features)
    assert tokens.shape == (1, bridge.num_tokens, 40)
    tokens.square().mean().backward()
    assert all(p.grad is not None for m in (seeing, joining) for p in m.parameters())


def test_unknown_names_and_sizes_are_refused() -> None:
    with pytest.raises(ValueError, match="Did you mean 'resnet3d'"):
        tower("resnet", SIZE)
    with pytest.raises(ValueError, match=r"model\.projector: no 'pool'"):
        projector("pool", tower("vit3d", SIZE))
    with pytest.raises(ValueError, match="does not divide"):
        tower("vit3d", (15, 16, 8))
    with pytest.raises(ValueError, match="needs a grid"):
        projector("spatial_pool", tower("vit3d", (2, 16, 8)))
