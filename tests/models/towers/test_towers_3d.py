"""Tests the sizes, parameter counts and peculiarities of the 3D towers and projectors."""

import numpy as np
import pytest
import torch
from torch import nn

from medtune.data import catalog
from medtune.data.types import Image, Video
from medtune.models.nano.pocket import TRANSFORM
from medtune.models.projectors import find_projector
from medtune.models.projectors.coca import CoCaConfig, CoCaProjector
from medtune.models.projectors.linear import linear
from medtune.models.projectors.mlp import mlp
from medtune.models.projectors.perceiver import PerceiverConfig, PerceiverProjector, resampler
from medtune.models.projectors.spatial_pool import SpatialPoolProjector
from medtune.models.sequence.packing import Shown, pack
from medtune.models.sequence.tree import grow
from medtune.models.towers import find_tower
from medtune.models.towers.ctvit import CTViT, CTViTConfig
from medtune.models.towers.merlin_resnet import MerlinResNet, MerlinResNetConfig
from medtune.models.towers.radfm_vit import RadFMViT, RadFMViTConfig
from medtune.models.towers.vit3d import M3DViT, M3DViTConfig
from medtune.models.vlm import VisionLanguageModel
from medtune.models.zoo.pocket import ClipTransform
from tests.models.twins import fresh


def elements(module: nn.Module) -> float:
    """Returns the number of elements in weights and buffers, in millions."""
    return float(sum(tensor.numel() for tensor in module.state_dict().values())) / 1e6


def test_full_size_skeletons_have_the_published_counts() -> None:
    with torch.device("meta"):
        assert elements(RadFMViT()) == pytest.approx(66.2, abs=0.05)
        assert elements(resampler(PerceiverConfig())) == pytest.approx(37.8, abs=0.05)
        assert sum(p.numel() for p in MerlinResNet().parameters()) / 1e6 == pytest.approx(117.4, abs=0.05)
        assert elements(CTViT()) == pytest.approx(30.1, abs=0.05)


def test_full_size_volumes_give_the_published_grids() -> None:
    with torch.device("meta"):
        assert RadFMViT()(torch.zeros(1, 3, 256, 256, 64)).shape == (1, 8, 8, 16, 768)
        assert M3DViT()(torch.zeros(1, 1, 32, 256, 256)).shape == (1, 8, 16, 16, 768)
        assert MerlinResNet()(torch.zeros(1, 1, 224, 224, 160)).shape == (1, 10, 7, 7, 2048)
        assert MerlinResNet(MerlinResNetConfig(pooled=True))(torch.zeros(1, 1, 224, 224, 160)).shape[1:4] == (1, 1, 1)
        assert CTViT()(torch.zeros(1, 1, 240, 480, 480)).shape == (1, 24, 24, 24, 512)
        assert CTViT()(torch.zeros(1, 1, 600, 300, 300)).shape == (1, 60, 15, 15, 512)


def test_any_projector_takes_any_grid() -> None:
    width, embedding = 24, 16
    features = torch.randn(2, 4, 2, 6, width)
    projectors = {
        "linear": (linear(width, embedding), 48),
        "mlp": (mlp(width, embedding), 48),
        "spatial_pool": (SpatialPoolProjector(width, embedding), 6),
        "perceiver": (PerceiverProjector(PerceiverConfig(width, 1, 2, 8, latents=5), embedding), 7),
        "coca": (CoCaProjector(CoCaConfig(width, heads=2, queries=9), embedding), 9),
    }
    for name, (projector, num_tokens) in projectors.items():
        assert projector(features).shape == (2, num_tokens, embedding), name


def test_tags_stand_around_the_tokens_of_every_scan() -> None:
    projector = PerceiverProjector(PerceiverConfig(24, 1, 2, 8, latents=3), 8)
    tokens = projector(torch.randn(2, 4, 24))
    assert projector.tags is not None
    for scan in tokens:
        torch.testing.assert_close(scan[0], projector.tags[0])
        torch.testing.assert_close(scan[-1], projector.tags[1])


def test_pooling_refuses_what_is_no_grid() -> None:
    with pytest.raises(ValueError, match="another projector"):
        SpatialPoolProjector(8, 8)(torch.zeros(1, 1, 1, 1, 8))


@pytest.mark.parametrize(
    ("tower", "shape"),
    [
        (
            RadFMViT(RadFMViTConfig(patch=(8, 8, 4), width=24, depth=1, heads=2, head_width=8, mlp_width=16)),
            (3, 12, 8, 4),
        ),
        (
            RadFMViT(RadFMViTConfig(patch=(4, 4, 4), width=24, depth=1, heads=2, head_width=8, mlp_width=16)),
            (3, 68, 4, 4),
        ),
        (CTViT(CTViTConfig(patch=(2, 4, 4), width=8, heads=2, head_width=4, mlp_width=5, codes=4)), (1, 3, 4, 4)),
    ],
    ids=["radfm_patch", "radfm_positions", "ctvit_patch"],
)
def test_volumes_that_do_not_fit_are_refused(tower: nn.Module, shape: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="patches"):
        tower(torch.zeros(1, *shape))


def test_m3d_takes_its_own_size_alone() -> None:
    tower = M3DViT(M3DViTConfig((8, 16, 16), (4, 8, 8), width=12, mlp_width=8, depth=1, heads=2))
    with pytest.raises(ValueError, match=r"\(8, 16, 32\)"):
        tower(torch.zeros(1, 1, 8, 16, 32))


def test_codes_can_be_cached_as_ids_and_let_gradients_pass() -> None:
    torch.manual_seed(0)
    tower = CTViT(CTViTConfig((2, 4, 4), 8, 1, 1, heads=2, head_width=4, mlp_width=5, codes=16))
    volume = torch.randn(1, 1, 4, 8, 8)
    with torch.no_grad():
        codes = tower.quantise(tower.encode(volume))
        torch.testing.assert_close(tower.decode_ids(codes.ids), tower(volume))
    torch.testing.assert_close(codes.tokens.norm(dim=-1), torch.ones(1, 2, 2, 2))
    tower(volume).square().sum().backward()
    assert tower.patch_embedding[1].weight.grad is not None
    assert all(parameter.grad is not None for parameter in tower.parameters())


def test_ct_chat_goes_on_from_volumes_encodings_and_code_ids_alike() -> None:
    assembled = fresh("nano_ct_chat")
    model = assembled.model.eval()
    assert isinstance(model, VisionLanguageModel)
    assert isinstance(model.vision, CTViT)
    volume = torch.rand(1, 1, 240, 480, 480) * 2 - 1
    with torch.no_grad():
        codes = model.vision.quantise(model.vision.encode(volume))
        wanted = model.encode(volume)
        for seen in (codes.tokens, codes.ids):
            torch.testing.assert_close(model.encode(seen), wanted)


def test_every_weight_of_the_other_towers_gets_a_gradient() -> None:
    torch.manual_seed(0)
    towers: list[tuple[nn.Module, tuple[int, ...]]] = [
        (RadFMViT(RadFMViTConfig(3, (4, 4, 4), 24, 1, 2, 8, 16, position_rows=(2, 2, 2))), (3, 8, 8, 8)),
        (M3DViT(M3DViTConfig((8, 16, 16), (4, 8, 8), width=12, mlp_width=8, depth=1, heads=2)), (1, 8, 16, 16)),
        (MerlinResNet(MerlinResNetConfig((1, 1, 1, 1), (4, 4, 4, 4))), (1, 32, 32, 32)),
    ]
    for tower, shape in towers:
        tower(torch.randn(2, *shape)).square().sum().backward()
        without = [name for name, parameter in tower.named_parameters() if parameter.grad is None]
        assert without == [], type(tower).__name__


SIZE = (16, 16, 8)
TOWERS = catalog.names(catalog.TOWERS)
PROJECTORS = catalog.names(catalog.PROJECTORS)


def test_modules_of_published_models_alone_are_not_listed() -> None:
    assert TOWERS == ["ctvit", "merlin_resnet", "resnet3d", "vit3d"]
    assert PROJECTORS == ["coca", "linear", "mlp", "perceiver", "spatial_pool", "vocabulary"]


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


def clip(count: int, seed: int = 0) -> Video:
    frames_THWC = np.random.default_rng(seed).integers(0, 256, (count, 40, 50, 3)).astype(np.uint8)
    return Video(frames_THWC, tuple(number / 5 for number in range(count)))


def test_every_frame_is_prepared_as_an_image_is() -> None:
    pixels_TCHW = ClipTransform(TRANSFORM, num_frames=4)(clip(4))
    assert pixels_TCHW.shape == (4, 3, 32, 32)
    assert torch.equal(pixels_TCHW[2], TRANSFORM(Image(clip(4).frames_THWC[2])))


def test_a_clip_with_too_few_frames_and_an_image_are_refused() -> None:
    transform = ClipTransform(TRANSFORM, num_frames=4)
    with pytest.raises(ValueError, match="has 3 frames where the model looks at 4"):
        transform(clip(3))
    with pytest.raises(ValueError, match="reads videos, not images"):
        transform(Image(clip(1).frames_THWC[0]))


def test_the_order_of_frames_moves_the_answer() -> None:
    assembled = fresh("nano_pocket_video")
    assembled.model.eval()
    video = clip(4)
    backwards = Video(np.ascontiguousarray(video.frames_THWC[::-1]), video.times_s)
    layout = assembled.template.layout("Which way?", "down")
    rows = pack([[Shown(grow([layout], [0]), 0)]], pad_id=assembled.template.pad_id)
    with torch.no_grad():
        said = [
            assembled.model(rows, assembled.model.encode(assembled.transform.stack([assembled.transform(each)]))).sums(
                1
            )
            for each in (video, backwards)
        ]
    assert abs(float(said[0] - said[1])) > 1e-2
