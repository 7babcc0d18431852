"""Writes the synthetic tree of BUSI with further images that look like some of it, as those of one woman do."""

import shutil
from pathlib import Path

import PIL.Image

from medtune.benchmarks import find_source
from medtune.data.prepared.read import Prepared
from medtune.data.prepared.splits import Division
from medtune.data.prepared.write import prepare


def write_twins(tiny_busi: Path, folder: Path) -> Path:
    """Writes a larger copy of two images of each class and of their masks, under new numbers."""
    for lesion_class in ("benign", "malignant", "normal"):
        (folder / lesion_class).mkdir(parents=True, exist_ok=True)
        for number in range(3, 5):
            for end in ("", "_mask"):
                image = PIL.Image.open(tiny_busi / lesion_class / f"{lesion_class} ({number}){end}.png")
                larger = image.resize((image.width * 2, image.height * 2), PIL.Image.Resampling.NEAREST)
                larger.save(folder / lesion_class / f"{lesion_class} ({number + 10}){end}.png")
    return folder


def prepared_twins(tiny_busi: Path, folder: Path, *, split_lookalikes: bool) -> Prepared:
    """Prepares the tree with its twins under a folder."""
    raw = write_twins(tiny_busi, Path(shutil.copytree(tiny_busi, folder / "raw")))
    busi, out = find_source("busi"), folder / "prepared"
    return prepare(busi, benchmark="busi", root=raw, out=out, division=Division(split_lookalikes=split_lookalikes))
