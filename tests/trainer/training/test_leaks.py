"""Tests that a mixture is checked against the evaluated questions by look-alikes, and what says so."""

from pathlib import Path

import pytest
from scipy.ndimage import zoom

from medtune.benchmarks import find_benchmark, find_source
from medtune.data.media.volumes.formats.nifti import write_nifti
from medtune.data.prepared.read import Prepared, open_prepared
from medtune.data.prepared.write import prepare
from medtune.data.types import Split
from medtune.trainer.commands.cli import main
from medtune.trainer.recipe.read import read_recipe
from medtune.trainer.training.mixture import open_training_sets, refuse_same, refuse_seen_lookalikes
from tests.data.prepared.content.scans import LPS, body, prepared, write_bodies, write_forms
from tests.examples import OF_SETS
from tests.examples.fetal_ultrasound.plugin import fetal_ultrasound
from tests.trainer.conftest import QUICK
from tests.twins import write_twins

Capture = pytest.CaptureFixture[str]
HELD_OUT: tuple[Split, ...] = ("val", "test")
ALLOWED = "data.allow_lookalikes=true"


@pytest.fixture(scope="module")
def enlarged(tiny_busi: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Larger copies of six images under new names, prepared: no image and no patient is the same."""
    folder = tmp_path_factory.mktemp("enlarged")
    raw = write_twins(tiny_busi, folder / "raw")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CONFIG_HOME", str(tmp_path_factory.getbasetemp() / "config"))
        prepare(find_source("busi"), benchmark="busi", root=raw, out=folder / "enlarged")
    return folder / "enlarged"


def settings(evaluated: Path, learnt: Path) -> list[str]:
    return [f"data.root={evaluated}", f"data.mixture=[{{benchmark: busi, root: {learnt}}}]"]


def image_look(made: Prepared, file: str) -> int:
    look = made.looks[file]
    assert isinstance(look, int)
    return look


def seen(evaluated: Path, learnt: Path) -> set[str]:
    """Returns the files of val and test that look like a file of the other's train, one by one."""
    here, there = open_prepared(evaluated), open_prepared(learnt)
    train = [image_look(there, group.media[0].path.name) for group in there.groups("train")]
    asked = {group.media[0].path.name for split in HELD_OUT for group in here.groups(split)}
    return {file for file in asked if min((image_look(here, file) ^ look).bit_count() for look in train) <= 8}


def test_a_part_with_look_alikes_of_the_test_is_refused_with_counts_and_no_names(
    prepared_tiny: Path, enlarged: Path
) -> None:
    recipe = read_recipe("nano_busi_lora", settings(prepared_tiny, enlarged))
    number = len(seen(prepared_tiny, enlarged))
    assert number > 0
    message = rf"would teach what .* asks: {number} of 7 val and test images look like images of its train split"
    with pytest.raises(ValueError, match=message) as told:
        open_training_sets(recipe, open_prepared(prepared_tiny), find_benchmark("busi"))
    said = str(told.value)
    assert "set data.allow_lookalikes=true; every output then says so" in said
    ids = {group.media_id for split in HELD_OUT for group in open_prepared(prepared_tiny).groups(split)}
    assert any(media_id in said for media_id in ids)
    assert not any(name in said for name in ("benign (", "malignant (", "normal ("))


def test_allowed_look_alikes_are_said(prepared_tiny: Path, enlarged: Path, capsys: Capture) -> None:
    recipe = read_recipe("nano_busi_lora", [*settings(prepared_tiny, enlarged), ALLOWED])
    (opened,) = open_training_sets(recipe, open_prepared(prepared_tiny), find_benchmark("busi"))
    number = len(seen(prepared_tiny, enlarged))
    said = f"{number} of 7 val and test images look like images of enlarged that were trained on"
    assert opened.lookalikes == f"{said}, by data.allow_lookalikes"
    assert main(["validate", "nano_busi_lora", "--set", *settings(prepared_tiny, enlarged), ALLOWED, *QUICK]) == 0
    assert f"look-alikes: {said}" in capsys.readouterr().out


def test_a_part_without_look_alikes_is_learnt(prepared_tiny: Path, tmp_path: Path) -> None:
    OF_SETS["hc18"](tmp_path / "raw")
    with fetal_ultrasound():
        prepare(find_source("fetal_heads"), benchmark="fetal_heads", root=tmp_path / "raw", out=tmp_path / "heads")
        assert open_prepared(tmp_path / "heads").looks
        parts = f"data.mixture=[{{benchmark: fetal_heads, root: {tmp_path / 'heads'}}}]"
        recipe = read_recipe("nano_busi_lora", [f"data.root={prepared_tiny}", parts])
        (opened,) = open_training_sets(recipe, open_prepared(prepared_tiny), find_benchmark("busi"))
    assert opened.lookalikes == ""


def test_a_scan_of_the_test_in_another_format_is_refused_with_counts_and_no_names(tmp_path: Path) -> None:
    forms = write_forms(tmp_path / "forms", body(0))
    splits: tuple[Split, ...] = ("train", "train", "val", "test")
    learnt = prepared([forms["scan.nii"], *write_bodies(tmp_path / "a", (1, 2, 3))], splits, tmp_path / "learnt")
    asked = prepared([*write_bodies(tmp_path / "b", (4, 5, 6)), forms["series"]], splits, tmp_path / "asked")
    with pytest.raises(ValueError, match=r"1 volumes and 0 patients of its train split") as told:
        refuse_same(learnt, asked)
    assert "SECRET" not in str(told.value)
    refuse_same(asked, learnt)


def test_a_resampled_scan_of_the_test_is_refused_unless_it_is_allowed(tmp_path: Path) -> None:
    splits: tuple[Split, ...] = ("train", "train", "val", "test")
    write_nifti(tmp_path / "finer.nii", zoom(body(1), 1.5, order=1), LPS)
    learnt = prepared(write_bodies(tmp_path / "a", range(4)), splits, tmp_path / "learnt")
    asked_paths = [*write_bodies(tmp_path / "b", (4, 5, 6)), tmp_path / "finer.nii"]
    asked = prepared(asked_paths, splits, tmp_path / "asked")
    refuse_same(learnt, asked)
    with pytest.raises(ValueError, match=r"1 of 2 val and test volumes look like volumes of its train split"):
        refuse_seen_lookalikes(learnt, asked, allowed=False)
    said = refuse_seen_lookalikes(learnt, asked, allowed=True)
    assert said == (
        "1 of 2 val and test volumes look like volumes of learnt that were trained on, by data.allow_lookalikes"
    )
    assert refuse_seen_lookalikes(asked, learnt, allowed=False) == ""
