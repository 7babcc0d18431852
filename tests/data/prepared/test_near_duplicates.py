from __future__ import annotations

import numpy as np
import PIL.Image
from PIL import ImageFilter

from medtune.data.prepared.near_duplicates import NearDuplicate, near_duplicates, perceptual_hash
from medtune.data.types import Split

SPLIT_OF: dict[str, Split] = {"a": "train", "b": "test", "c": "train", "d": "val"}


def test_pairs_across_splits_are_listed_closest_first() -> None:
    found = near_duplicates({"a": 0b0, "b": 0b111, "c": 0b0, "d": 0b1}, SPLIT_OF, max_distance=2)
    assert found.closest == (NearDuplicate("a", "d", 1), NearDuplicate("c", "d", 1), NearDuplicate("b", "d", 2))
    assert found.num_pairs == 3


def test_all_pairs_are_counted_and_few_listed() -> None:
    hashes = {f"{n:03}": 0 for n in range(60)}
    splits: dict[str, Split] = {name: "train" if int(name) < 30 else "test" for name in hashes}
    found = near_duplicates(hashes, splits, max_listed=5)
    assert found.num_pairs == 900
    assert [pair[:2] for pair in found.closest] == [("000", f"03{n}") for n in range(5)]


def test_copies_look_alike_and_others_do_not() -> None:
    noise = np.random.default_rng(0).integers(0, 256, (2, 12, 16, 3)).astype(np.uint8)
    one, other = (PIL.Image.fromarray(pixels).resize((320, 240), PIL.Image.Resampling.BICUBIC) for pixels in noise)
    softer = one.filter(ImageFilter.GaussianBlur(2)).resize((200, 150))
    hashes = {name: perceptual_hash(np.asarray(image)) for name, image in zip("abd", (one, softer, other), strict=True)}
    assert [pair[:2] for pair in near_duplicates(hashes, SPLIT_OF).closest] == [("a", "b")]
