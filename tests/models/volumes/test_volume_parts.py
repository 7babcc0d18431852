"""Tests models over volumes with their twins: answers about a scan."""

from pathlib import Path

import numpy as np
import pytest
import torch

from medtune.data.media.volumes.formats.nifti import read_nifti_mask
from medtune.data.media.volumes.read import read_volume
from medtune.data.media.volumes.transforms.organ_crop import crop_around
from medtune.data.types import Image, Volume
from medtune.models.assemble import zoo_entry
from medtune.models.contract import Assembled
from medtune.models.nano import volume as nano_volume
from medtune.models.sequence.packing import PackedRows, PromptRows, Shown, pack, pad_left
from medtune.models.sequence.radfm import RadFM
from medtune.models.sequence.tree import grow
from medtune.models.vlm import VisionLanguageModel
from medtune.models.zoo.nano_volumes import RADFM_RESAMPLER
from tests.models.twins import MODELS, OF_VOLUMES

TWINS = [name for name in OF_VOLUMES if not MODELS[name].by_organ]
"""Those that look at the whole scan."""


@pytest.fixture(scope="session")
def real_volume(shared_real: Path) -> Volume:
    return read_volume(shared_real / "ct_trunk" / "ct.nii.gz")


def answered(assembled: Assembled, answer: str, *, with_media: bool = True) -> PackedRows:
    sequence = assembled.family.layout("how large is the liver?", answer, shapes=[None] if with_media else [])
    return pack([[Shown(grow([sequence], [0]), 0 if with_media else None)]], pad_id=assembled.family.pad_id)


def asked(assembled: Assembled) -> PromptRows:
    return pad_left([assembled.family.layout("how large is the liver?", None)], [0], pad_id=assembled.family.pad_id)


def own_model(assembled: Assembled) -> VisionLanguageModel:
    assert isinstance(assembled.model, VisionLanguageModel)
    return assembled.model


def other(volume: Volume) -> Volume:
    """Returns a scan of the same grid in which the liver's half is set to water."""
    hu_IJK = volume.hu_IJK.copy()
    hu_IJK[: hu_IJK.shape[0] // 2] = 0
    return Volume(hu_IJK, volume.spacing_mm, volume.orientation)


@pytest.mark.slow
@pytest.mark.parametrize("name", TWINS)
def test_twin_learns_from_and_speaks_about_a_real_scan(name: str, real_volume: Volume) -> None:
    assembled = zoo_entry(name).assemble(0)
    model, transform = own_model(assembled), assembled.transform
    pixels = torch.stack([transform(v) for v in (real_volume, other(real_volume))])
    rows = answered(assembled, "12 cm")
    model.eval()
    with torch.no_grad():
        tokens = model.encode(pixels)
        seen, unlike = (model(rows, tokens[i : i + 1]).logprobs_T for i in (0, 1))
    assert (seen - unlike).abs().max() > 1e-3
    model.train()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    before = -model(rows, model.encode(pixels[:1])).logprobs_T.mean()
    before.backward()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in model.parameters() if p.requires_grad)
    optimizer.step()
    after = -model(rows, model.encode(pixels[:1])).logprobs_T.mean()
    assert after < before
    written = model.eval().generate(asked(assembled), tokens[:1], max_new_tokens=3, stop_ids=assembled.family.stop_ids)
    assert 1 <= len(written[0]) <= 3


@pytest.mark.parametrize("name", TWINS)
def test_twin_answers_without_an_image(name: str) -> None:
    assembled = zoo_entry(name).assemble(0)
    assert assembled.model(answered(assembled, "no", with_media=False), None).logprobs_T.isfinite().all()


@pytest.mark.slow
def test_organ_crop_shows_another_volume(shared_real: Path, real_volume: Volume) -> None:
    mask = read_nifti_mask(shared_real / "ct_trunk" / "segmentations" / "liver.nii.gz", real_volume)
    cropped = crop_around(real_volume, mask, name="liver")
    assert cropped.hu_IJK.size < real_volume.hu_IJK.size
    transform = zoo_entry("nano_m3d_llama2").assemble(0).transform
    whole, near = (transform(v) for v in (real_volume, cropped))
    assert whole.shape == near.shape
    assert (whole - near).abs().mean() > 0.01


def test_radfm_takes_an_image_and_a_volume_in_one_batch_and_in_one_sequence() -> None:
    torch.manual_seed(0)
    assembled = zoo_entry("nano_radfm").assemble(0)
    transform, model = assembled.transform, own_model(assembled).eval()
    assert transform.kinds == ("image", "volume")
    pixels = np.random.default_rng(0).integers(0, 256, (40, 60, 3), dtype=np.uint8)
    image = transform(Image(pixels))
    assert image.shape == (3, 512, 512, 4)
    assert torch.equal(image[..., 0], image[..., 3])
    volume = transform(Volume(np.arange(6 * 5 * 10, dtype=np.int16).reshape(6, 5, 10), (1.0, 1.0, 1.0), "LPS"))
    both = transform.stack([image, volume])
    assert both.shape == (2, 3, 512, 512, 64)
    family = RadFM(nano_volume.tokenizer(), tokens_per_scan=RADFM_RESAMPLER.num_tokens)
    sequence = family.layout_scans("compare these two", "alike", positions=(0, 5))
    rows = pack([[Shown(grow([sequence], [0]), 0)]], pad_id=family.pad_id)
    with torch.no_grad():
        tokens = model.encode(both)
        assert tokens.shape[0] == 2
        seen, swapped = (
            model(rows._replace(media_S=torch.tensor(order)), tokens).logprobs_T for order in ((0, 1), (1, 0))
        )
    assert (seen - swapped).abs().max() > 1e-3
