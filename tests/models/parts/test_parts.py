"""Tests models that are put together from an encoder of timm, a projector and a language model.

Shape legend: B media items, F pictures, h, w features of a picture, D feature width.
"""

import json
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import PIL.Image
import pytest
import timm
import torch
from safetensors.torch import load_file, save_file
from timm.models import save_for_hf

from medtune.data import catalog
from medtune.data.types import Image, MediaKind, Video
from medtune.models.assemble import zoo_entry
from medtune.models.contract import Assembled
from medtune.models.pictures import PictureInput
from medtune.models.projectors import find_projector
from medtune.models.towers.timm_tower import find_encoder
from medtune.models.weights.export import assemble_model, write_exported
from medtune.models.weights.loading_options import Loading
from tests.models.answering.test_answering_together import NUM_GROUPS, answers, four_visits
from tests.models.weights.test_own_code import write_language

SIZE_PX = 32


@dataclass(frozen=True)
class Kind:
    """An architecture of timm with small sizes."""

    architecture: str  # Its name in timm.
    sizes: dict[str, object] = field(hash=False)  # Its settings.
    before: int = 0  # Number of tokens before the grid.


VIT = Kind(
    "vit_tiny_patch16_224",
    {"img_size": SIZE_PX, "patch_size": 8, "embed_dim": 48, "depth": 2, "num_heads": 4, "reg_tokens": 2},
    before=3,
)
CONVNEXT = Kind("convnext_atto", {"depths": (1, 1, 1, 1), "dims": (8, 16, 24, 48), "patch_size": 1})


def write_encoder(folder: Path, kind: Kind) -> str:
    """Writes an encoder that reads 32 x 32 pixels and returns the value of model.vision that names it."""
    torch.manual_seed(0)
    encoder = timm.create_model(kind.architecture, num_classes=5, **kind.sizes)
    with torch.no_grad():
        for parameter in encoder.parameters():
            parameter.normal_(std=0.2)
    encoder.pretrained_cfg = {
        **encoder.pretrained_cfg,
        "input_size": (3, SIZE_PX, SIZE_PX),
        "num_classes": 5,
        "crop_pct": 0.9,
    }
    save_for_hf(encoder, str(folder), model_args=dict(kind.sizes), safe_serialization=True)
    return f"timm:local-dir:{folder}"


PROJECTORS = catalog.names(catalog.PROJECTORS)
SHOWN: dict[MediaKind, dict[str, object]] = {
    "image": {},
    "video": {"video_frames": 4},
    "volume": {"video_frames": 3, "volumes_as": "slices"},
}


def _loading(folder: Path, **more: object) -> Loading:
    vision = write_encoder(folder / "encoder", VIT)
    language = str(write_language(folder / "language", "qwen2"))
    return Loading(vision=vision, language=language, **{"projector": "spatial_pool", **more})  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", SHOWN)
def test_groups_answered_together_are_those_of_each_alone_and_an_export_answers_alike(
    kind: MediaKind, tmp_path: Path
) -> None:
    loading = _loading(tmp_path, **SHOWN[kind])
    assembled = zoo_entry("parts").assemble(0, loading)
    assembled.model.eval()
    assert kind in assembled.transform.kinds
    asked = four_visits(tmp_path, kind=kind)
    alone, together = answers(assembled, asked), answers(assembled, asked, batch_size=NUM_GROUPS)
    (tmp_path / "out").mkdir()
    write_exported(assembled, tmp_path / "out", name="parts", base_weights=None)
    again = assemble_model("parts", 1, Loading(**{**_fields(loading), "weights": str(tmp_path / "out")}))  # type: ignore[arg-type]
    again.model.eval()
    read = answers(again, asked)
    seen = {key: one.option_logprobs for key, one in alone.items() if key.condition == "image" and one.option_logprobs}
    blind = [alone[key._replace(condition="text_only")].option_logprobs for key in seen]
    assert all(a and b and abs(a[0] - b[0]) > 1e-3 for a, b in zip(seen.values(), blind, strict=True)), (
        "nothing is seen"
    )
    for key, one in alone.items():
        assert one.text == together[key].text == read[key].text
        if one.option_logprobs:
            assert one.option_logprobs == pytest.approx(together[key].option_logprobs, abs=1e-4)
            assert one.option_logprobs == pytest.approx(read[key].option_logprobs, abs=1e-4)


def _fields(loading: Loading) -> dict[str, object]:
    return {name: getattr(loading, name) for name in Loading.__dataclass_fields__}


@pytest.mark.parametrize("kind", [VIT, CONVNEXT], ids=lambda kind: kind.architecture)
def test_features_and_pixels_are_those_of_timm(kind, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    name = write_encoder(tmp_path, kind)
    encoder = find_encoder(name, pictures=2)
    assert encoder.tower.load is not None
    tower, origin = encoder.tower.load()
    assert origin.endswith("pretrained")
    noise_HWC = np.random.default_rng(0).integers(0, 255, (50, 80, 3), dtype=np.uint8)
    pixels_CHW = encoder.picture(PIL.Image.fromarray(noise_HWC))
    own = timm.create_model(name.removeprefix("timm:"), pretrained=True).eval()
    config = own.pretrained_cfg
    whole = PIL.Image.fromarray(noise_HWC).resize((32, 32), PIL.Image.Resampling.BICUBIC)
    wanted_HWC = (np.asarray(whole) / 255 - np.array(config["mean"])) / np.array(config["std"])
    assert np.abs(pixels_CHW.permute(1, 2, 0).numpy() - wanted_HWC).max() < 1e-5
    with torch.no_grad():
        features_BFhwD = tower.eval()(torch.stack([pixels_CHW, -pixels_CHW])[None])
        plain = own.forward_features(pixels_CHW[None])
    assert features_BFhwD.shape == (1, *encoder.tower.grid, encoder.tower.width)
    assert encoder.tower.grid == (2, 4, 4)
    first_hwD = plain[0, kind.before :].unflatten(0, (4, 4)) if plain.ndim == 3 else plain[0].permute(1, 2, 0)
    if kind is CONVNEXT:  # Its last norm stands before the classifier, behind timm's forward_features.
        first_hwD = own.head.norm(first_hwD.permute(2, 0, 1)[None])[0].permute(1, 2, 0)
    assert torch.allclose(features_BFhwD[0, 0], first_hwD, atol=1e-5)
    assert not torch.allclose(features_BFhwD[0, 0], features_BFhwD[0, 1], atol=1e-2)


@pytest.mark.parametrize("joint", PROJECTORS)
@pytest.mark.parametrize("pictures", [1, 3])
def test_any_projector_joins_an_encoder_and_both_learn(joint: str, pictures: int, tmp_path: Path) -> None:
    tower = find_encoder(write_encoder(tmp_path, VIT), pictures=pictures).tower
    seeing, bridge = tower.build(), find_projector(joint, tower)
    joining = bridge.build(40)
    tokens = joining(seeing(torch.rand(2, pictures, 3, 32, 32)))
    assert tokens.shape == (2, bridge.num_tokens, 40)
    tokens.square().mean().backward()
    assert all(p.grad is not None for m in (seeing, joining) for p in m.parameters())


def test_clips_of_any_length_and_images_have_the_same_number_of_pictures() -> None:
    def brightness(picture: PIL.Image.Image) -> torch.Tensor:
        return torch.full((3, 1, 1), float(np.asarray(picture).mean()))

    shown = PictureInput(brightness, num_pictures=4, takes_videos=True)

    def seen(count: int) -> list[float]:
        frames_THWC = np.arange(count, dtype=np.uint8)[:, None, None, None].repeat(3, axis=3)
        return shown(Video(frames_THWC, tuple(n / 10 for n in range(count))))[:, 0, 0, 0].tolist()

    assert [seen(count) for count in (1, 2, 4, 10)] == [[0, 0, 0, 0], [0, 0, 1, 1], [0, 1, 2, 3], [0, 3, 6, 9]]
    still = shown(Image(np.full((2, 2, 3), 7, dtype=np.uint8)))
    assert still[:, 0, 0, 0].tolist() == [7, 7, 7, 7]


def test_media_that_the_recipe_does_not_show_are_not_read(tmp_path: Path) -> None:
    images = zoo_entry("parts").assemble(0, _loading(tmp_path))
    assert images.transform.kinds == ("image",)
    with pytest.raises(ValueError, match="video"):
        images.transform(Video(np.zeros((2, 8, 8, 3), np.uint8), (0.0, 0.1)))


def test_a_tower_over_voxels_takes_a_preparation_and_no_frames(tmp_path: Path) -> None:
    language = str(write_language(tmp_path / "language", "qwen2"))
    loading = Loading(vision="vit3d", projector="perceiver", language=language)
    asked = four_visits(tmp_path, kind="volume")
    assembled: Assembled = zoo_entry("parts").assemble(0, loading)
    assert len(answers(assembled, asked)) == 4 * NUM_GROUPS
    with pytest.raises(ValueError, match=r"no 'm3'. Did you mean 'm3d'"):
        zoo_entry("parts").assemble(0, Loading(vision="vit3d", variant="m3", language=language))
    with pytest.raises(ValueError, match=r"does not take model\.video_frames"):
        zoo_entry("parts").assemble(0, Loading(vision="vit3d", video_frames=4, language=language))
    with pytest.raises(ValueError, match=r"does not take model\.variant"):
        zoo_entry("parts").skeleton(Loading(vision="timm:resnet18", variant="m3d"))
    with pytest.raises(ValueError, match=r"take model\.name=parts"):
        zoo_entry("nano_pocket_ct").assemble(0, Loading(vision="timm:resnet18"))


def test_the_skeleton_is_that_of_the_parts_that_are_named(tmp_path: Path) -> None:
    loading = _loading(tmp_path)
    skeleton, assembled = zoo_entry("parts").skeleton(loading), zoo_entry("parts").assemble(0, loading)
    shapes = [{k: tuple(v.shape) for k, v in m.state_dict().items()} for m in (skeleton, assembled.model)]
    assert shapes[0] == shapes[1]
    assert all(parameter.is_meta for parameter in skeleton.parameters())


def test_wrong_names_and_broken_files_are_refused_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    for name, said in (
        ("timm:resnet17", r"timm has no encoder 'resnet17'. Did you mean 'resnet1"),
        ("timm:resnet18.nowhere", r"no weights 'nowhere' of resnet18; there are .*a1_in1k"),
        ("timm:crossvit_tiny_240", "crossvit_tiny_240: it gives no grid"),
    ):
        with pytest.raises(ValueError, match=said):
            zoo_entry("parts").skeleton(Loading(vision=name))
    name = write_encoder(tmp_path, VIT)
    kept = load_file(tmp_path / "model.safetensors")
    save_file({key: t for key, t in kept.items() if key != "norm.weight"}, tmp_path / "model.safetensors")
    load = find_encoder(name, pictures=1).tower.load
    assert load is not None
    with pytest.raises(ValueError, match=r"its weights cannot be read: .*Missing key.*norm\.weight"):
        load()
    config = json.loads((tmp_path / "config.json").read_text())
    config["architecture"] = "vit_of_nobody"
    (tmp_path / "config.json").write_text(json.dumps(config))
    with pytest.raises(ValueError, match="vit_of_nobody"):
        find_encoder(name, pictures=1)


@pytest.mark.parametrize(
    ("every", "most"), [pytest.param(8, 2, marks=pytest.mark.slow), pytest.param(1, 8, marks=pytest.mark.soak)]
)
def test_nearly_every_architecture_of_timm_gives_a_grid(every: int, most: int) -> None:
    refused, known = [], []
    for module in timm.list_modules()[::every]:
        names = sorted(timm.list_models(module=module), key=len)
        small = [name for name in names if "tiny" in name or "small" in name or "nano" in name] or names
        for name in small[:1]:
            known.append(name)
            try:
                tower = find_encoder(f"timm:{name}", pictures=1).tower
            except ValueError as error:
                refused.append(f"{name}: {error}")
            else:
                assert tower.width > 0
                assert min(tower.grid) > 0
    assert all("it gives no grid of features" in said for said in refused)
    # Counted with timm 1.0.31: of 98 modules, 6 pool their features before they could be read; of every eighth, 1.
    assert len(known) > 80 / every
    assert len(refused) <= most, refused
