import re
import shutil
from collections import Counter
from pathlib import Path

import PIL.Image
import pytest

from medtune.benchmarks import busi, find_source
from medtune.data.prepared.write import prepare
from medtune.data.raw.source import SourceTable
from medtune.data.types import SPLITS, Box, Question
from tests.data.prepared.lookalikes.test_kept_together import crossing_pairs


def _read(root: Path, seed: int = 0) -> SourceTable:
    return busi.busi().read(root, seed, root)


def _by_task(table: SourceTable, task: str) -> list[Question]:
    return [question for question in table.questions if question.facets["task"] == task]


@pytest.fixture
def tree(tiny_busi: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(tiny_busi, tmp_path / "busi"))


def test_example_has_three_tasks_per_image(tree: Path) -> None:
    table = _read(tree)
    assert Counter(q.facets["task"] for q in table.questions) == {
        "diagnosis": 24,
        "lesion_localisation": 24,
        "red_box_grounding": 24,
    }
    assert len(table.media) == 48
    assert table.notes == ()


def test_several_masks_are_united_for_the_place_and_the_largest_is_boxed(tree: Path) -> None:
    table = _read(tree)
    # benign (2): centres (28, 22) and (62, 12), half axes 8.4 x 6 and 5.6 x 4; centre of both at 44 of 80.
    place = next(q for q in table.questions if q.id == "benign (2) lesion_localisation")
    assert place.answer == "upper right"
    assert table.media["benign (2) boxed"][0].boxes == (Box(20, 16, 37, 29),)


def test_normal_images_are_not_visible_and_boxed_like_lesions(tree: Path) -> None:
    table = _read(tree)
    lesion_boxes = {ref.boxes for name, (ref,) in table.media.items() if "normal" not in name and ref.boxes}
    for question in table.questions:
        if question.facets["lesion_class"] == "normal" and question.facets["task"] == "lesion_localisation":
            assert question.answer == "not visible"
        if question.facets["lesion_class"] == "normal" and question.facets["task"] == "red_box_grounding":
            assert question.answer == "normal breast tissue"
            assert table.media[question.media_id][0].boxes in lesion_boxes
    assert _read(tree, seed=1).media != table.media


def test_official_folder_inside_is_found(tree: Path, tmp_path: Path) -> None:
    tree.rename(tmp_path / "Dataset_BUSI_with_GT")
    assert len(_read(tmp_path).questions) == 72


def test_hidden_files_are_counted(tree: Path) -> None:
    (tree / ".DS_Store").touch()
    (tree / "normal" / "Thumbs.db").touch()
    assert _read(tree).notes == ("skipped 2 files that are no media: hidden, of the system, or texts",)


def _without(tree: Path, stem: str, message: str) -> None:
    """Asserts that the three questions of one image are rejected and that all other questions are asked."""
    table = _read(tree)
    assert len(table.questions) == 69
    assert not any(question.patient_id == stem for question in table.questions)
    assert len(table.rejects) == 3
    (reject,) = set(table.rejects)
    assert re.search(message, str(reject))
    assert stem not in f"{reject.file} {reject.reason}"


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("benign (1).png", r"benign, number 1: there is no image for this mask.*benign \(1\)\.png"),
        ("benign (2).png", r"benign, number 4: there is no image for this mask.*benign \(2\)\.png"),
    ],
)
def test_a_mask_alone_is_rejected_and_its_image_missing(tree: Path, name: str, message: str) -> None:
    (tree / "benign" / name).unlink()
    _without(tree, name.removesuffix(".png"), message)
    assert [missing.file for missing in _read(tree).missing] == [f"benign/{name}"]


def test_a_missing_folder_is_refused(tree: Path) -> None:
    shutil.rmtree(tree / "normal")
    with pytest.raises(FileNotFoundError, match="normal: this folder of BUSI is missing"):
        _read(tree)


@pytest.mark.parametrize("name", ["benign/malignant (1).png", "benign/benign (1) copy.png"])
def test_pictures_that_do_not_belong_are_rejected(tree: Path, name: str) -> None:
    shutil.copy(tree / "benign" / "benign (1).png", tree / name)
    table = _read(tree)
    assert len(table.questions) == 72
    assert all("unexpected file, wanted only 'benign" in reject.reason for reject in table.rejects)
    assert {reject.media for reject in table.rejects} == {tree / name}


def test_files_that_are_no_media_are_skipped_and_counted(tree: Path) -> None:
    (tree / "benign" / "notes.txt").write_text("from the ward")
    (tree / "benign" / "done").touch()
    (tree / "normal" / "new.png").touch()
    table = _read(tree)
    assert (len(table.questions), table.rejects) == (72, ())
    assert table.notes == (
        "skipped 1 files that are no media: hidden, of the system, or texts",
        "skipped 2 empty files that the release does not have",
    )


@pytest.mark.parametrize("mask", ["benign (2)_mask.png", "benign (2)_mask_1.png"])
@pytest.mark.parametrize("how", ["they have no mask", "a mask has another size", "a mask is damaged"])
def test_a_mask_that_says_nothing_leaves_the_diagnosis(tree: Path, mask: str, how: str) -> None:
    path = tree / "benign" / mask
    if how == "they have no mask":
        (tree / "benign" / "benign (2)_mask.png").unlink()
    elif how == "a mask is damaged":
        path.write_bytes(path.read_bytes()[:60])
    else:
        PIL.Image.new("L", (70, 60)).save(path)
    table = _read(tree)
    assert [q.facets["task"] for q in table.questions if q.patient_id == "benign (2)"] == ["diagnosis"]
    assert table.notes == (f"images asked for their diagnosis alone, as {how}: 1",)
    assert table.rejects == ()


def test_a_copy_without_masks_asks_for_the_diagnosis(tree: Path, tmp_path: Path) -> None:
    for path in tree.rglob("*_mask*.png"):
        path.unlink()
    prepared = prepare(find_source("busi"), benchmark="busi", root=tree, out=tmp_path / "out")
    asked = [question.facets["task"] for split in SPLITS for question in prepared.questions(split)]
    assert asked == ["diagnosis"] * 24
    assert "images asked for their diagnosis alone, as they have no mask: 24" in prepared.manifest.notes


@pytest.mark.parametrize(
    ("target", "taken_from", "found"), [("benign", "normal", "is empty"), ("normal", "benign", "marks a lesion")]
)
def test_mask_that_contradicts_its_class(tree: Path, target: str, taken_from: str, found: str) -> None:
    shutil.copy(tree / taken_from / f"{taken_from} (1)_mask.png", tree / target / f"{target} (1)_mask.png")
    _without(tree, f"{target} (1)", f"the mask of a {target} image {found}")


def test_empty_folders(tree: Path, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(ValueError, match="the folder is empty"):
        _read(tmp_path / "empty")
    for path in (tree / "normal").iterdir():
        path.unlink()
    with pytest.raises(ValueError, match=r"normal: wanted images such as 'normal \(1\)\.png', there are none"):
        _read(tree)


def test_real_files(shared_real: Path) -> None:
    table = _read(shared_real / "busi")
    assert Counter(q.answer for q in _by_task(table, "diagnosis")) == {"normal": 20, "benign": 20, "malignant": 20}
    places = _by_task(table, "lesion_localisation")
    # benign (4)'s second mask is 555 x 465, its image 416 x 416.
    assert len(places) == len(_by_task(table, "red_box_grounding")) == 59
    assert sum(q.answer == "not visible" for q in places) == 20
    assert {q.patient_id for q in table.questions} - {q.patient_id for q in places} == {"benign (4)"}
    assert len(table.notes) == 1


def test_real_files_prepare(shared_real: Path, tmp_path: Path) -> None:
    prepared = prepare(find_source("busi"), benchmark="u2_bench", root=shared_real / "busi", out=tmp_path / "out")
    assert sum(prepared.num_questions(split) for split in SPLITS) == 178
    assert prepared.manifest.num_media == 119
    # Images of one woman are in one split.
    found = prepared.manifest.lookalikes
    assert (found.num_groups, found.num_pairs, found.largest) == (55, 8, 4)
    assert crossing_pairs(prepared) == found.num_across == 0
    assert prepared.manifest.num_patients == {"train": 39, "val": 8, "test": 8}
    for split in SPLITS:
        classes = Counter(q.answer for q in prepared.questions(split) if q.facets["task"] == "diagnosis")
        assert max(classes.values()) - min(classes.values()) <= 2
