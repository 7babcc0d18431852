import re
from collections import Counter
from pathlib import Path

import numpy as np
import PIL.Image
import pytest

from medtune.benchmarks import find_source
from medtune.data.media.images import decode_image
from medtune.data.media.masks import Mask, fill_outline, outer_box
from medtune.data.raw.source import SourceTable
from medtune.data.types import Box


def _read(root: Path, seed: int = 0) -> SourceTable:
    return find_source("fetal_heads").read(root, seed, root)


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    write = find_source("fetal_heads").write_example
    assert write is not None
    write(tmp_path / "hc18")
    return tmp_path / "hc18"


def _truth(shared: Path, stem: str) -> tuple[Mask, Box]:
    pixels_HWC = decode_image(shared / "masks" / f"{stem}.jpg").pixels_HWC
    mask_HW = fill_outline(pixels_HWC.max(axis=2) > 127)
    box = outer_box(mask_HW)
    assert box is not None
    return mask_HW, box


def test_example_groups_pregnancies(tree: Path) -> None:
    table = _read(tree)
    assert len({q.patient_id for q in table.questions}) == 8
    assert sum(q.facets["task"] == "head_localisation" for q in table.questions) == 12


def test_official_layout_with_tables_and_test_set(tree: Path) -> None:
    (tree / "training_set" / "training_set_pixel_size_and_HC.csv").touch()
    (tree / "test_set").mkdir()
    assert _read(tree).notes == (
        "skipped the test set: HC18 publishes no outlines for it",
        "skipped 1 tables of pixel sizes: no question asks for millimetres",
    )
    assert len(_read(tree / "training_set").questions) == len(_read(tree).questions)


def _without_one(tree: Path, message: str) -> None:
    """Asserts that the two questions of one image are rejected and that all other questions are asked."""
    table = _read(tree)
    assert len(table.questions) == 22
    assert len(table.rejects) == 2
    (reject,) = set(table.rejects)
    assert re.search(message, str(reject))


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("900001_HC_Annotation.png", r"its outline is missing.*900001_HC_Annotation\.png"),
        ("900001_HC.png", r"there is no image for this mask.*900001_HC\.png"),
    ],
)
def test_an_image_or_outline_alone_is_rejected_and_missing(tree: Path, name: str, message: str) -> None:
    (tree / "training_set" / name).unlink()
    _without_one(tree, message)
    assert [missing.file for missing in _read(tree).missing] == [f"training_set/{name}"]


def test_outline_of_another_size_and_open_outline(tree: Path) -> None:
    path = tree / "training_set" / "900002_HC_Annotation.png"
    outline_HW = np.array(PIL.Image.open(path))
    PIL.Image.fromarray(outline_HW[:90]).save(path)
    _without_one(tree, "this mask is 128 x 90 pixels, its image is 128 x 96")
    outline_HW[:, 30:40] = 0
    PIL.Image.fromarray(outline_HW).save(path)
    _without_one(tree, "wanted a closed outline")


def test_an_image_whose_pixels_break_off_is_rejected(tree: Path) -> None:
    for path in (tree / "training_set").glob("*HC.png"):
        path.write_bytes(path.read_bytes()[:2000])
    table = _read(tree)
    # Only a box beside the head looks at pixels here; storing meets the others.
    assert 0 < len(table.rejects) < 24
    assert all("truncated or damaged" in reject.reason for reject in table.rejects)


def test_unexpected_and_empty(tree: Path, tmp_path: Path) -> None:
    (tree / "training_set" / "readme.txt").touch()
    table = _read(tree)
    assert len(table.questions) == 24
    assert table.rejects == ()
    assert any("1 " in note and "texts" in note for note in table.notes), table.notes
    (tmp_path / "images").mkdir()
    with pytest.raises(FileNotFoundError, match="the folder of the outlines is missing"):
        _read(tmp_path)
    (tmp_path / "masks").mkdir()
    with pytest.raises(ValueError, match="found none"):
        _read(tmp_path)


def test_real_heads(shared_real: Path) -> None:
    table = _read(shared_real / "fetal_heads")
    tasks = Counter(q.facets["task"] for q in table.questions)
    assert tasks == {"head_localisation": 24, "red_box_grounding": 24}
    assert {q.facets["phantom"] for q in table.questions} == {"no"}
    assert len({q.patient_id for q in table.questions}) == 24


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_real_boxes_mark_what_the_answer_says(shared_real: Path, seed: int) -> None:
    table = _read(shared_real / "fetal_heads", seed)
    answers = Counter[str]()
    for question in table.questions:
        if question.facets["task"] != "red_box_grounding":
            continue
        answers[question.answer] += 1
        (ref,) = table.media[question.media_id]
        (box,) = ref.boxes
        mask_HW, head = _truth(shared_real / "fetal_heads", ref.path.stem)
        inside_HW = mask_HW[box.y0 : box.y1, box.x0 : box.x1]
        if question.answer == "whole fetal head":
            assert box == head
        elif question.answer == "part of the fetal head":
            assert inside_HW.all()
        else:
            assert not inside_HW.any()
    assert set(answers) == {"whole fetal head", "part of the fetal head", "tissue outside the fetal head"}
