"""Tests which changes of an image leave it a look-alike, and that different images are none."""

import io
from collections.abc import Callable
from itertools import combinations
from pathlib import Path

import imagehash
import numpy as np
import PIL.Image
import pytest
from numpy.typing import NDArray
from PIL import ImageDraw, ImageFilter
from scipy.fft import dctn

from medtune.data.prepared.lookalikes import MAX_DISTANCE, MIN_SPAN, perceptual_hash


def speckle(seed: int) -> PIL.Image.Image:
    """Returns a drawn ultrasound image: a dark oval in layers of smooth speckle."""
    draw = np.random.default_rng(seed)
    y_HW, x_HW = np.mgrid[0:240, 0:320]
    layers_HW = 70 + 40 * np.sin(y_HW / draw.uniform(10, 40) + draw.uniform(0, 6) + x_HW / draw.uniform(60, 200))
    lesion_HW = ((x_HW - draw.uniform(60, 260)) / draw.uniform(20, 60)) ** 2 + (
        (y_HW - draw.uniform(50, 190)) / draw.uniform(15, 50)
    ) ** 2 < 1
    grey_HW = np.where(lesion_HW, 15, layers_HW) * draw.rayleigh(0.8, (240, 320))
    image = PIL.Image.fromarray(np.clip(grey_HW, 0, 255).astype(np.uint8)).filter(ImageFilter.GaussianBlur(1.5))
    return image.convert("RGB")


def jpeg(image: PIL.Image.Image) -> PIL.Image.Image:
    file = io.BytesIO()
    image.save(file, "JPEG", quality=40)
    return PIL.Image.open(file).convert("RGB")


def annotated(image: PIL.Image.Image) -> PIL.Image.Image:
    marked = image.copy()
    draw = ImageDraw.Draw(marked)
    for x, y in ((120, 100), (190, 130)):
        draw.line((x - 5, y, x + 5, y), fill="yellow", width=2)
        draw.line((x, y - 5, x, y + 5), fill="yellow", width=2)
    return marked


CHANGES: dict[str, Callable[[PIL.Image.Image], PIL.Image.Image]] = {
    "half the size": lambda image: image.resize((image.width // 2, image.height // 2)),
    "another size and shape": lambda image: image.resize((500, 400), PIL.Image.Resampling.BICUBIC),
    "JPEG of quality 40": jpeg,
    "brighter": lambda image: image.point(lambda value: min(255, int(value * 1.2 + 12))),
    "a hundredth cropped from each side": lambda image: image.crop(
        (image.width // 100, image.height // 100, image.width * 99 // 100, image.height * 99 // 100)
    ),
    "calipers": annotated,
}


def distance(one: int | None, other: int | None) -> int:
    assert one is not None
    assert other is not None
    return (one ^ other).bit_count()


def hash_of(image: PIL.Image.Image) -> int | None:
    return perceptual_hash(np.asarray(image))


@pytest.mark.parametrize("change", CHANGES)
def test_a_changed_copy_is_a_look_alike(change: str) -> None:
    for seed in range(12):
        image = speckle(seed)
        assert distance(hash_of(image), hash_of(CHANGES[change](image))) <= MAX_DISTANCE, seed


@pytest.mark.parametrize("change", CHANGES)
def test_a_changed_copy_of_a_real_image_is_a_look_alike(change: str, shared_real: Path) -> None:
    paths = [path for path in sorted((shared_real / "busi").rglob("*.png")) if "_mask" not in path.name]
    assert len(paths) == 60
    for path in paths[::3]:
        image = PIL.Image.open(path).convert("RGB")
        assert distance(hash_of(image), hash_of(CHANGES[change](image))) <= MAX_DISTANCE, path.name


def test_different_images_are_none() -> None:
    hashes = [hash_of(speckle(seed)) for seed in range(60)]
    assert min(distance(one, other) for one, other in combinations(hashes, 2)) > MAX_DISTANCE


def test_real_images_of_different_fetuses_are_none(shared_real: Path) -> None:
    paths = sorted((shared_real / "fetal_heads" / "images").iterdir())
    hashes = [hash_of(PIL.Image.open(path).convert("RGB")) for path in paths]
    assert len(hashes) == 24
    assert min(distance(one, other) for one, other in combinations(hashes, 2)) > MAX_DISTANCE


def cosine_hash(pixels_HWC: NDArray[np.uint8]) -> int:
    """Returns the hash from its definition, with another implementation of the cosine transform."""
    small = PIL.Image.fromarray(pixels_HWC).convert("L").resize((32, 32), PIL.Image.Resampling.LANCZOS)
    low = dctn(np.asarray(small, dtype=float), type=2)[:8, :8]
    return int("".join("1" if bit else "0" for bit in (low > np.median(low)).ravel()), 2)


@pytest.mark.parametrize("seed", range(5))
def test_the_hash_is_the_one_that_is_described(seed: int) -> None:
    image = speckle(seed)
    assert hash_of(image) == cosine_hash(np.asarray(image)) == int(str(imagehash.phash(image)), 16)


def test_a_flat_image_has_no_hash() -> None:
    noise = np.random.default_rng(0).integers(0, MIN_SPAN, (64, 64, 3)).astype(np.uint8)
    for pixels_HWC in (np.zeros((48, 64, 3), np.uint8), np.full((1, 1, 3), 200, np.uint8), noise):
        assert perceptual_hash(pixels_HWC) is None
    edge = np.zeros((64, 64, 3), np.uint8)
    edge[:, 32:] = MIN_SPAN + 4
    assert perceptual_hash(edge) is not None
