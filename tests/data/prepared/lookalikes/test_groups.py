"""Tests that groups of look-alikes are the connected components of all pairs, at any size."""

import io
import time
from collections.abc import Callable
from itertools import combinations
from pathlib import Path

import imagehash
import numpy as np
import PIL.Image
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from PIL import ImageDraw, ImageFilter
from scipy.fft import dctn

from medtune.data.prepared import lookalikes
from medtune.data.prepared.lookalikes import MAX_DISTANCE, MIN_SPAN, lookalike_groups, nearest_lookalikes, pairs_across
from medtune.data.prepared.perceptual_hash import perceptual_hash

# Few bits, so that many pairs look alike and chains come about.
LOOKS = st.dictionaries(st.text("abc", min_size=1, max_size=4), st.integers(0, 255), max_size=30)
SPLITS_OF = st.sampled_from(("train", "val", "test"))


def alike(one: int, other: int, most: int) -> bool:
    return (one ^ other).bit_count() <= most


@given(LOOKS, st.integers(0, 3))
def test_images_are_in_one_group_if_look_alikes_lead_from_one_to_the_other(looks: dict[str, int], most: int) -> None:
    found = lookalike_groups(looks, max_distance=most)
    pairs = [(one, other) for one, other in combinations(sorted(looks), 2) if alike(looks[one], looks[other], most)]
    assert found.num_pairs == len(pairs)
    own = {name: {name} for name in looks}
    for one, other in pairs:
        joined = own[one] | own[other]
        own.update(dict.fromkeys(joined, joined))
    assert found.group_of == {name: min(members) for name, members in own.items()}
    assert found.num_groups == len({min(members) for members in own.values()})
    assert found.largest == max(map(len, own.values()), default=0)
    assert found.several == {name: min(members) for name, members in own.items() if len(members) > 1}


@given(LOOKS, st.data())
def test_pairs_are_counted_across_splits(looks: dict[str, int], data: st.DataObject) -> None:
    place_of = {name: data.draw(SPLITS_OF) for name in looks}
    wanted = [
        (one, other)
        for one, other in combinations(looks, 2)
        if alike(looks[one], looks[other], 2) and place_of[one] != place_of[other]
    ]
    found = lookalike_groups(looks, max_distance=2)
    assert pairs_across(looks, found, place_of, max_distance=2) == len(wanted)


@given(LOOKS, LOOKS)
def test_each_image_gets_its_nearest_look_alike(looks: dict[str, int], others: dict[str, int]) -> None:
    wanted = {}
    for name, look in looks.items():
        distances = {other: (look ^ code).bit_count() for other, code in others.items()}
        nearest = min(sorted(distances), key=distances.__getitem__, default=None)
        if nearest is not None and distances[nearest] <= 2:
            wanted[name] = nearest, distances[nearest]
    found = nearest_lookalikes(looks, others, max_distance=2)
    assert {pair.image: (pair.other, pair.distance) for pair in found} == wanted
    assert [pair.distance for pair in found] == sorted(pair.distance for pair in found)


def test_a_film_of_many_like_frames_is_joined_on_the_way(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lookalikes, "_MAX_EDGES", 50)
    looks = {f"{number:03}": (number % 2) * (2**40 - 1) for number in range(200)}
    found = lookalike_groups(looks)
    assert found.num_pairs == 2 * (100 * 99 // 2)
    assert set(found.group_of.values()) == {"000", "001"}


def test_twenty_thousand_images_take_no_time() -> None:
    codes = np.random.default_rng(0).integers(0, 2**64, 20_000, dtype=np.uint64)
    # One bit in every byte is turned over in each hundredth, which is at the limit.
    codes[1::100] = codes[::100] ^ np.uint64(0x0101010101010101)
    looks = {f"{number:05}": int(code) for number, code in enumerate(codes)}
    start = time.perf_counter()
    found = lookalike_groups(looks)
    assert time.perf_counter() - start < 10
    assert (found.num_pairs, found.num_groups, found.largest) == (200, 19_800, 2)


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
