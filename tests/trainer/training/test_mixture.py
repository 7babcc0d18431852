"""Tests of mixtures, balancing and changed images, from the recipe to the batches."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy.ndimage import zoom

from medtune.benchmarks import find_benchmark, find_source
from medtune.data.media.augment import ALL_CHANGES, changes_allowed_by_all
from medtune.data.media.volumes.formats.nifti import write_nifti
from medtune.data.prepared.read import Prepared, open_prepared
from medtune.data.prepared.write import prepare
from medtune.data.types import Image, Split
from medtune.eval.learnt import asked_again, learnt_from, looks_learnt, read_learnt
from medtune.trainer.commands.cli import main
from medtune.trainer.recipe.read import read_recipe
from medtune.trainer.recipe.schema import DataBlock, Recipe, TrainFolder
from medtune.trainer.training.mixture import (
    Mixture,
    num_changeable,
    open_training_sets,
    refuse_same,
    refuse_seen_lookalikes,
    shares_of,
    stage_mixture,
)
from medtune.trainer.training.sampling import Draw
from tests.data.prepared.content.scans import LPS, body, prepared, write_bodies, write_forms
from tests.examples import OF_SETS
from tests.examples.fetal_ultrasound.plugin import PLUGIN, fetal_ultrasound
from tests.trainer.conftest import QUICK, Capture, Curve, Nano, json_of
from tests.twins import write_twins

PLUGINS = ("--plugins", str(PLUGIN))


@pytest.fixture(scope="module")
def heads(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("heads")
    OF_SETS["hc18"](folder / "raw")
    with fetal_ultrasound():
        prepare(find_source("fetal_heads"), benchmark="fetal_heads", root=folder / "raw", out=folder / "prepared")
    return folder / "prepared"


@pytest.fixture(autouse=True)
def named(heads: Path) -> Iterator[None]:
    with fetal_ultrasound():
        yield


def _recipe(root: Path, **data: object) -> Recipe:
    recipe = read_recipe("nano_busi_lora", [f"data.root={root}"])
    return replace(recipe, data=replace(recipe.data, **data))  # type: ignore[arg-type]


def _open(recipe: Recipe) -> Mixture:
    sets = open_training_sets(recipe, open_prepared(recipe.data.root), find_benchmark(recipe.data.benchmark))
    return stage_mixture(recipe, recipe.stages[0], sets, limit=None)


def _mixture(busi: Path, heads: Path, *weights: float | None) -> tuple[TrainFolder, ...]:
    return (TrainFolder("busi", busi, weights[0]), TrainFolder("fetal_heads", heads, weights[1]))


def test_each_part_is_asked_in_its_own_words_and_comes_as_often_as_its_weight_says(
    prepared_tiny: Path, heads: Path
) -> None:
    data = _open(_recipe(prepared_tiny, mixture=_mixture(prepared_tiny, heads, 3, 1)))
    row = data.row()
    drawn = [row[place] for place in range(1024)]
    assert abs(sum(draw.member for draw in drawn) - 256) <= 1
    asked = [
        {q.facets["task"] for draw in drawn if draw.member == member for q in data.group(draw).questions}
        for member in (0, 1)
    ]
    assert asked == [
        {"diagnosis", "lesion_localisation", "red_box_grounding"},
        {"head_localisation", "red_box_grounding"},
    ]


def test_the_evaluated_folder_keeps_its_own_words_behind_another_one(prepared_tiny: Path, heads: Path) -> None:
    busi, fetal_heads = _mixture(prepared_tiny, heads, 1, 1)
    recipe = _recipe(prepared_tiny, mixture=(fetal_heads, busi))
    evaluated = find_benchmark("busi")
    sets = open_training_sets(recipe, open_prepared(prepared_tiny), evaluated)
    assert [each.benchmark.title for each in sets] == [find_benchmark("fetal_heads").title, evaluated.title]


def test_without_a_mixture_the_folder_itself_is_learnt(prepared_tiny: Path) -> None:
    data = _open(_recipe(prepared_tiny))
    assert (len(data.members), data.shares) == (1, (1.0,))
    assert data.members[0].groups == open_prepared(prepared_tiny).groups("train")


@pytest.mark.parametrize(("temperature", "shares"), [(1.0, (0.8, 0.2)), (2.0, (2 / 3, 1 / 3)), (1e6, (0.5, 0.5))])
def test_temperature(temperature: float, shares: tuple[float, float]) -> None:
    parts = (TrainFolder("a", Path("a")), TrainFolder("b", Path("b")))
    found = shares_of(DataBlock("a", Path("a"), mixture=parts, temperature=temperature), [80, 20])
    assert found == pytest.approx(shares, abs=1e-4)


def test_a_part_that_teaches_the_test_is_refused(tiny_busi: Path, prepared_tiny: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    prepare(find_source("busi"), benchmark="busi", root=tiny_busi, out=other, seed=5)
    with pytest.raises(ValueError, match=r"would teach what .* asks: \d+ images and \d+ patients"):
        _open(_recipe(prepared_tiny, mixture=(TrainFolder("busi", other),)))


def test_folder_of_another_benchmark_in_a_mixture_is_refused(prepared_tiny: Path, heads: Path) -> None:
    with pytest.raises(ValueError, match=r"was prepared for the benchmark 'fetal_heads'; data\.mixture says 'busi'"):
        _open(_recipe(prepared_tiny, mixture=(TrainFolder("busi", heads),)))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ("data.mixture=[{benchmark: busi, root: a, weight: 1}, {benchmark: busi, root: b}]", "every part one above 0"),
        ("data.mixture=[{benchmark: busi, root: a}, {benchmark: busi, root: ./a}]", "names a folder twice"),
        ("data.mixture=[{benchmark: busi, rot: a}]", "no key 'data.mixture.0.rot'. Did you mean 'root'?"),
        ("data.mixture=busi", "must be a list of blocks of keys"),
        ("data.temperature=0", "data.temperature is 0.0; it must be above 0"),
        ("data.balance=1.5", "data.balance is 1.5; it must be from 0 to 1"),
        ("data.augment=[flip]", "augment"),
    ],
)
def test_settings_are_checked(settings: str, message: str) -> None:
    with pytest.raises(ValueError) as raised:  # noqa: PT011
        read_recipe("nano_busi_lora", [settings])
    assert message in str(raised.value)


def test_an_augmentation_that_no_image_takes_is_refused(prepared_tiny: Path, tmp_path: Path) -> None:
    data = _open(_recipe(prepared_tiny, augment=("mirror",)))
    changes = [data.change(Draw(0, n, 0, n), group) for n, group in enumerate(data.members[0].groups)]
    flipped = np.arange(12, dtype=np.uint8).reshape(2, 2, 3)
    seen = [change(Image(flipped)) for change in changes]
    assert any(isinstance(one, Image) and not np.array_equal(one.pixels_HWC, flipped) for one in seen)
    for change, group in zip(changes, data.members[0].groups, strict=True):
        if any(q.facets["task"] == "lesion_localisation" for q in group.questions):
            assert isinstance(untouched := change(Image(flipped)), Image)
            assert np.array_equal(untouched.pixels_HWC, flipped)
    OF_SETS["hc18"](tmp_path / "raw")
    prepare(find_source("fetal_heads"), benchmark="fetal_heads", root=tmp_path / "raw", out=tmp_path / "heads")
    with pytest.raises(ValueError, match=r"data\.augment is move; no image of fetal_heads may be changed so"):
        _open(
            replace(
                _recipe(tmp_path / "heads", augment=("move",)),
                data=DataBlock("fetal_heads", tmp_path / "heads", augment=("move",)),
            )
        )


def test_whether_an_image_is_changed_does_not_tell_the_diagnosis(prepared_tiny: Path) -> None:
    plain, data = _open(_recipe(prepared_tiny)), _open(_recipe(prepared_tiny, augment=("mirror", "move")))
    (was,), (member,) = plain.members, data.members
    asked = [sorted(q.id for group in each.groups for q in group.questions) for each in (was, member)]
    assert asked[0] == asked[1]
    diagnoses = [group for group in member.groups if any(q.facets["task"] == "diagnosis" for q in group.questions)]
    assert len({q.answer for group in diagnoses for q in group.questions}) == 3
    assert all(changes_allowed_by_all(group.questions, member.allowed_changes) == ALL_CHANGES for group in diagnoses)
    assert num_changeable(member, data.augment)["move"] == len(diagnoses) < len(member.groups)


def test_a_mixture_trains_resumes_to_the_bit_and_says_what_it_learnt(
    nano: Nano, prepared_tiny: Path, heads: Path, tmp_path: Path, curve: Curve
) -> None:
    mixed = (
        f"data.mixture=[{{benchmark: busi, root: {prepared_tiny}, weight: 2}}, "
        f"{{benchmark: fetal_heads, root: {heads}, weight: 1}}]",
        "data.balance=1",
        "data.augment=[mirror, grey]",
    )
    whole = tmp_path / "whole"
    assert nano.here("train", whole, *mixed, extra=PLUGINS) == 0
    about = json_of(whole / "environment.json")["trained_on"]
    assert about.startswith("busi (tiny): ")
    assert "; fetal_heads (prepared): " in about
    again = tmp_path / "again"
    assert nano.here("train", again, *mixed, "train.micro_batch_size=1", extra=PLUGINS) == 0
    assert curve(again, "train/loss") == pytest.approx(curve(whole, "train/loss"), abs=1e-4)
    plain = tmp_path / "plain"
    assert nano.here("train", plain) == 0
    assert curve(plain, "train/loss") != pytest.approx(curve(whole, "train/loss"), abs=1e-3)


def test_validate_shows_the_parts(prepared_tiny: Path, heads: Path, capsys: Capture) -> None:
    mixture = f"data.mixture=[{{benchmark: busi, root: {prepared_tiny}}}, {{benchmark: fetal_heads, root: {heads}}}]"
    assert main([*PLUGINS, "validate", "nano_busi_lora", "--set", f"data.root={prepared_tiny}", mixture]) == 0
    assert "learns     busi (tiny): " in capsys.readouterr().out
    missing = f"data.mixture=[{{benchmark: fetal_heads, root: {heads}/no}}]"
    assert main([*PLUGINS, "validate", "nano_busi_lora", "--set", f"data.root={prepared_tiny}", missing]) == 1
    assert "(data.mixture)" in capsys.readouterr().out


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


def test_weights_know_a_scan_again_in_another_format_and_one_that_looks_like_it(tmp_path: Path) -> None:
    forms = write_forms(tmp_path / "forms", body(0))
    write_nifti(tmp_path / "finer.nii", zoom(body(1), 1.5, order=1), LPS)
    splits: tuple[Split, ...] = ("train", "train", "val", "test")
    learnt = prepared([forms["scan.nii"], *write_bodies(tmp_path / "a", (1, 2, 3))], splits, tmp_path / "learnt")
    asked = prepared([forms["series"], tmp_path / "finer.nii", *write_bodies(tmp_path / "b", (4, 5))],
                     ("test", "test", "train", "val"), tmp_path / "asked")  # fmt: skip
    known = learnt_from(learnt.groups("train"), learnt.contents, learnt.looks)
    kept = read_learnt(known.facts())
    assert kept == known
    groups = asked.groups("test")
    assert asked_again(kept, groups, asked.contents).startswith("1 of the 2 evaluated patients")
    assert looks_learnt(kept, groups, asked).startswith("1 of the 2 evaluated media look like media that the weights")
    assert "SECRET" not in str(known.facts())


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
