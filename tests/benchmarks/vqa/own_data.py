"""Writes data sets in every layout that the door reads, for tests that go from the files to a score."""

import json
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path

import datasets
import numpy as np
import PIL.Image

from medtune.benchmarks import find_source
from medtune.data.raw.source import SourceTable, TableOptions


def pictures(folder: Path, number: int) -> list[str]:
    """Writes pictures that do not look alike, and returns their names."""
    folder.mkdir(parents=True, exist_ok=True)
    for index in range(number):
        grey_HW = np.random.default_rng(index).integers(0, 256, (24, 32), dtype=np.uint8)
        PIL.Image.fromarray(grey_HW).save(folder / f"us_{index}.png")
    return [f"us_{index}.png" for index in range(number)]


def read(origin: Path, options: TableOptions | None = None, *, name: str = "table") -> SourceTable:
    """Returns the table that a source reads with these options."""
    source = find_source(name)
    assert source.with_options is not None
    (scratch := origin.parent / f"scratch of {origin.name}").mkdir(exist_ok=True)
    return source.with_options(options or TableOptions()).read(origin, 0, scratch)


def read_text(folder: Path, text: str, options: TableOptions | None = None, *, file: str = "data.csv") -> SourceTable:
    """Returns the table that is read from a file with that text, beside which six pictures lie."""
    pictures(folder, 6)
    (folder / file).write_bytes(text.encode())
    return read(folder / file, options)


CLASSES = ("benign", "malignant", "normal")
EACH = 6
"""The number of real ultrasound images of each class; their duplicates in BUSI are few."""


def _busi(real: Path) -> list[tuple[str, Path]]:
    return [
        (label, path)
        for label in CLASSES
        for path in sorted(file for file in (real / "busi" / label).glob("*.png") if "_mask" not in file.stem)[:EACH]
    ]


def busi_csv(real: Path, folder: Path) -> list[str]:
    """Writes real ultrasound images with a spreadsheet in Excel's style, without a split; returns the arguments."""
    lines = ["Bild;Frage;Antwort;A;B;C;Fall;Geraet"]
    (folder / "Bilder").mkdir(parents=True)
    for number, (label, path) in enumerate(_busi(real)):
        shutil.copy(path, folder / "Bilder" / f"{number}.png")
        case = f"{number};{'neu' if number % 2 else 'alt'}"
        lines.append(f"{number}.png;What is the finding?;{'ABC'[CLASSES.index(label)]};benign;malignant;normal;{case}")
        lines.append(f"{number}.png;Is a lesion visible?;{'No' if label == 'normal' else 'Yes'};;;;{case}")
        lines.append(f"{number}.png;Describe it.;a breast with a {label} finding;;;;{case}")
    (folder / "daten.csv").write_bytes(("\ufeff" + "\r\n".join(lines)).encode())
    columns = ["--columns", "image=bild", "question=frage", "answer=antwort", "patient=Fall"]
    return ["--from", str(folder / "daten.csv"), "--images", str(folder / "Bilder"), *columns]


def busi_folders(real: Path, folder: Path) -> list[str]:
    """Writes real ultrasound images into train, val and test, in a folder for each class."""
    for number, (label, path) in enumerate(_busi(real)):
        place = folder / ("train", "train", "val", "test")[number % 4] / label
        place.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, place / f"{number}.png")
    return ["--from", str(folder)]


def busi_parquet(real: Path, folder: Path) -> list[str]:
    """Writes Parquet files with the images inside, one for each split."""
    folder.mkdir(parents=True)
    rows = [
        {
            "image": {"bytes": path.read_bytes(), "path": None},
            "question": "What is it?",
            "options": CLASSES,
            "answer": label,
        }
        for label, path in _busi(real)
    ]
    for place, split in enumerate(("train", "validation", "test")):
        datasets.Dataset.from_list(rows[place::3]).to_parquet(folder / f"{split}-00000-of-00001.parquet")
    return ["--from", str(folder)]


def hub_copy(real: Path, folder: Path) -> list[str]:
    """Writes a copy of a hub repository: Parquet files of Hugging Face images under data, without a val split."""
    (folder / "data").mkdir(parents=True)
    features = datasets.Features(
        {"image": datasets.Image(), "question": datasets.Value("string"), "answer": datasets.Value("string")}
    )
    rows = [
        {"image": str(path), "question": "Is it normal?", "answer": "yes" if label == "normal" else "no"}
        for label, path in _busi(real)
    ]
    for place, split in enumerate(("train", "test")):
        part = datasets.Dataset.from_list(rows[place::2], features=features)
        part.to_parquet(folder / "data" / f"{split}-00000-of-00001.parquet")
    return ["--from", f"hf:{folder}"]


def vqa_rad(real: Path, folder: Path) -> list[str]:
    """Links VQA-RAD's real files, with the first 60 questions of train and test; images are in both."""
    folder.mkdir(parents=True)
    for name in ("trainset.json", "testset.json"):
        rows = json.loads((real / "vqa_rad" / name).read_text("utf-8"))
        (folder / name).write_text(json.dumps(rows[:60]))
    images = ["--images", str(real / "vqa_rad" / "images")]
    return ["--from", str(folder), *images, "--columns", "task=image_organ", "--keep-leaks"]


LAYOUTS: Mapping[str, Callable[[Path, Path], list[str]]] = {
    "a spreadsheet": busi_csv,
    "folders of classes": busi_folders,
    "Parquet files": busi_parquet,
    "a copy of a hub repository": hub_copy,
    "VQA-RAD": vqa_rad,
}
