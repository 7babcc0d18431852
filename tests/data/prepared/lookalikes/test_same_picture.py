"""Tests that a picture is found again that was moved, cropped or drawn on, and that different pictures are not."""

from collections.abc import Callable, Mapping
from functools import partial
from itertools import cycle
from pathlib import Path

import numpy as np
import PIL.Image
import PIL.ImageDraw
import pytest

from bench.measuring.alike.every_pair import same_pairs
from bench.measuring.alike.scans import CHANGES, chest_like
from medtune.data import progress
from medtune.data.prepared import same_picture
from medtune.data.prepared.alike_details import MOST_TRIED
from medtune.data.prepared.perceptual_hash import perceptual_hash
from medtune.data.prepared.same_picture import same_pictures
from medtune.data.prepared.write import prepare
from medtune.data.raw.source import Source, SourceTable
from medtune.data.types import MediaRef, Question, Split
from tests.soak import in_suites

Image = PIL.Image.Image


def cropped(left: float, top: float, right: float, bottom: float) -> Callable[[Image], Image]:
    return lambda image: image.crop(
        (int(left * image.width), int(top * image.height), int(right * image.width), int(bottom * image.height))
    )


def moved(x: float, y: float) -> Callable[[Image], Image]:
    def copy(image: Image) -> Image:
        black = PIL.Image.new("RGB", image.size)
        black.paste(image, (int(x * image.width), int(y * image.height)))
        return black

    return copy


def with_calipers(image: Image) -> Image:
    image = cropped(0.07, 0, 1, 0.93)(image)
    draw = PIL.ImageDraw.Draw(image)
    for x, y in ((0.35, 0.4), (0.6, 0.45), (0.5, 0.3), (0.45, 0.65)):
        at = int(x * image.width), int(y * image.height)
        draw.line((at[0] - 7, at[1], at[0] + 7, at[1]), fill=(255, 255, 0), width=2)
        draw.line((at[0], at[1] - 7, at[0], at[1] + 7), fill=(255, 255, 0), width=2)
    return image


COPIES: dict[str, Callable[[Image], Image]] = {
    "cropped on the left": cropped(0.12, 0, 1, 1),
    "cropped below": cropped(0, 0, 1, 0.82),
    "cropped around": cropped(0.06, 0.08, 0.95, 0.97),
    "moved": moved(0.12, -0.04),
    "moved down": moved(0, 0.1),
    "with calipers": with_calipers,
}


QUICK_SETS = ("busi/*/*).png", "fetal_heads/images/*", "phantom_planes/**/*.png")
"""Real sets of which all pairs are soon compared; those of radiographs and scans in VQA-RAD take 8 s."""


@pytest.fixture(scope="module")
def scans(shared_real: Path) -> list[Image]:
    """Real scans of which no two show the same (of the malignant ones some do)."""
    paths = [
        shared_real / "busi" / kind / f"{kind} ({n}).png" for kind in ("benign", "normal") for n in (1, 3, 6, 8, 11)
    ]
    return [PIL.Image.open(path).convert("RGB") for path in paths]


def pairs(images: Mapping[str, Image]) -> set[tuple[str, str]]:
    looks = {name: perceptual_hash(np.asarray(image)) for name, image in images.items()}
    return set(
        same_pictures({name: look for name, look in looks.items() if look is not None}, images.__getitem__, group_of={})
    )


@pytest.mark.parametrize("kind", COPIES)
def test_a_changed_copy_is_found_and_no_other_pair(scans: list[Image], kind: str) -> None:
    images = {f"{number} plain": scan for number, scan in enumerate(scans)}
    images |= {f"{number} copy": COPIES[kind](scan) for number, scan in enumerate(scans)}
    found = pairs(images)
    wanted = {(f"{number} copy", f"{number} plain") for number in range(len(scans))}
    assert found <= wanted
    assert len(found) >= 0.7 * len(wanted)


@pytest.mark.parametrize("images", in_suites((*QUICK_SETS, "vqa_rad/images/*"), slow=QUICK_SETS))
def test_the_pairs_among_all_pairs_of_a_real_set_are_found(shared_real: Path, images: str) -> None:
    every = {path.name: PIL.Image.open(path).convert("RGB") for path in sorted(shared_real.glob(images))}
    assert len(every) >= 24
    names = sorted(name for name, image in every.items() if perceptual_hash(np.asarray(image)) is not None)
    wanted = same_pairs([every[name] for name in names])
    assert {(names[one], names[other]) for one, other in wanted} <= pairs(every)


def test_flat_and_single_images_are_nobodys_copy(scans: list[Image]) -> None:
    assert pairs({"a": scans[0]}) == set()
    assert pairs({"a": scans[0], "b": PIL.Image.new("RGB", (200, 150)), "c": scans[0].resize((5, 4))}) == set()


def prepared(scans: list[Image], folder: Path, splits: Mapping[str, Split | None]) -> tuple[str, ...]:
    """Prepares scans, each with a moved copy that has another diagnosis; returns what is said about look-alikes."""
    questions, media = [], {}
    for number, scan in enumerate(scans):
        for kind, image in (("plain", scan), ("copy", moved(0.12, -0.04)(scan))):
            name = f"SECRET {number} {kind}"
            image.save(folder / f"{name}.png")
            media[name] = (MediaRef(folder / f"{name}.png"),)
            answer = "benign" if kind == "plain" or number else "malignant"
            questions.append(
                Question(
                    name, name, "What is it?", ("benign", "malignant"), answer, "choice", name, split=splits[kind],
                    facets={"task": "diagnosis"},
                )
            )  # fmt: skip
    table = SourceTable(tuple(questions), media, stands_for_patient="image")
    source = Source("t", "CC0", "https://example.org", "released", "image", lambda root, seed, scratch: table, None)
    (folder / "raw").mkdir()
    made = prepare(source, benchmark="x", root=folder / "raw", out=folder / "out")
    assert "SECRET" not in (made.root / "manifest.json").read_text()
    (folder / "patients").write_text(str(sum(made.manifest.num_patients.values())))
    return made.manifest.lookalikes.lines()


def test_copies_share_a_split_and_a_patient_and_other_diagnoses_are_named(scans: list[Image], tmp_path: Path) -> None:
    said = prepared(scans, tmp_path, {"plain": None, "copy": None})
    number = int(said[1].partition(" more pairs show one picture moved, cropped or drawn on")[0])
    assert number >= 0.8 * len(scans)
    assert said[2] == "no pair within 8 of 64 bits or of such a correlation is in two splits"
    assert said[3].startswith("look-alikes with different answers: ")
    assert "('What is it?')" in said[3]
    assert (tmp_path / "patients").read_text() == str(2 * len(scans) - number)


def test_copies_across_the_splits_of_the_data_are_counted(scans: list[Image], tmp_path: Path) -> None:
    said = prepared(scans[:4], tmp_path, {"plain": "train", "copy": "test"})
    assert "4 of 4 pairs in two splits by the source's own split" in said


@pytest.fixture(scope="module")
def radiographs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """60 drawn radiographs that resemble each other strongly, and a changed copy of each."""
    folder = tmp_path_factory.mktemp("radiographs")
    for number, change in zip(range(60), cycle(CHANGES.values()), strict=False):
        image = chest_like(number)
        image.save(folder / f"{number:02} plain.png")
        change(image).save(folder / f"{number:02} copy.png")
    return folder


def opened(folder: Path, name: str) -> Image:
    return PIL.Image.open(folder / name)


def test_copies_of_radiographs_are_found_in_few_comparisons_by_any_number_of_processes(
    radiographs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks = {path.name: number for number, path in enumerate(sorted(radiographs.iterdir()))}
    wanted = [(f"{number:02} copy.png", f"{number:02} plain.png") for number in range(60)]
    apart = same_pictures(looks, partial(opened, radiographs), group_of={}, processes=2)
    assert apart == wanted
    compared = 0
    plain = same_picture._correlation

    def counted(one: same_picture.Detail, other: same_picture.Detail, down: int, right: int) -> float:
        nonlocal compared
        compared += 1
        return plain(one, other, down, right)

    monkeypatch.setattr(same_picture, "_correlation", counted)
    assert same_pictures(looks, partial(opened, radiographs), group_of={}) == wanted
    # Each image is compared with few others, in both directions; there are 7,140 pairs.
    assert compared <= 2 * MOST_TRIED * len(looks)


def test_images_of_one_group_are_not_compared_and_take_no_ones_place(radiographs: Path) -> None:
    files = sorted(radiographs.iterdir())
    looks = {path.name: number for number, path in enumerate(files)}
    # All plain images are one group: what is nearest to each is then among the copies.
    group_of = {path.name: "plain" for path in files if "plain" in path.name}
    assert len(same_pictures(looks, partial(opened, radiographs), group_of=group_of)) == 60
    assert same_pictures(looks, partial(opened, radiographs), group_of=dict.fromkeys(looks, "all")) == []


def test_what_is_not_searched_is_said_in_the_manifest(
    scans: list[Image], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(same_picture, "MOST_IMAGES", 7)
    said = prepared(scans[:4], tmp_path, {"plain": None, "copy": None})
    assert said[1] == (
        "8 images were NOT searched for pictures that are moved, cropped or drawn on: the search takes at most 7. Such "
        "copies may lie in two splits"
    )
    assert "were NOT searched for" in (tmp_path / "out" / "manifest.json").read_text()


def test_progress_is_shown_from_the_first_file_on(
    scans: list[Image], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(progress, "LINE_EVERY_S", 0.0)
    prepared(scans[:4], tmp_path, {"plain": None, "copy": None})
    said = capsys.readouterr().err
    assert "copying media: 2 of 8 files" in said
    assert "looking for pictures that are alike: 2 of 8 pictures" in said
