"""Tests that any tower with any projector gives the stated number of tokens and can be trained."""

import pytest
import torch

from medtune.data import catalog
from medtune.models.projectors import find_projector
from medtune.models.towers import find_tower

SIZE = (16, 16, 8)
TOWERS = catalog.names(catalog.TOWERS)
PROJECTORS = catalog.names(catalog.PROJECTORS)


def test_modules_of_published_models_alone_are_not_listed() -> None:
    assert TOWERS == ["ctvit", "merlin_resnet", "resnet3d", "vit3d"]
    assert PROJECTORS == ["coca", "linear", "mlp", "perceiver", "spatial_pool"]


@pytest.mark.parametrize("vision", TOWERS)
@pytest.mark.parametrize("joint", PROJECTORS)
def test_pair_gives_the_tokens_that_it_says_and_learns(vision: str, joint: str) -> None:
    torch.manual_seed(0)
    eyes = find_tower(vision, SIZE)
    bridge = find_projector(joint, eyes)
    seeing, joining = eyes.build(), bridge.build(40)
    features = seeing(torch.rand(1, 1, *SIZE))
    assert features.shape == (1, *eyes.grid, eyes.width)
    tokens = joining(features)
    assert tokens.shape == (1, bridge.num_tokens, 40)
    tokens.square().mean().backward()
    assert all(p.grad is not None for m in (seeing, joining) for p in m.parameters())


def test_unknown_names_and_sizes_are_refused() -> None:
    with pytest.raises(ValueError, match="Did you mean 'resnet3d'"):
        find_tower("resnet", SIZE)
    with pytest.raises(ValueError, match=r"model\.projector: no 'pool'"):
        find_projector("pool", find_tower("vit3d", SIZE))
    with pytest.raises(ValueError, match="does not divide"):
        find_tower("vit3d", (15, 16, 8))
    with pytest.raises(ValueError, match="needs a grid"):
        find_projector("spatial_pool", find_tower("vit3d", (16, 2, 8)))
