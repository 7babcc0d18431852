"""Tests of mixtures, balancing and changed images, from the recipe to the batches."""

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from medtune.benchmarks import find_benchmark, find_source
from medtune.data.media.augment import ALL_CHANGES, changes_allowed_by_all
from medtune.data.prepared.read import open_prepared
from medtune.data.prepared.write import prepare
from medtune.data.types import Image
from medtune.trainer.commands.cli import main
from medtune.trainer.recipe.read import read_recipe
from medtune.trainer.recipe.schema import DataBlock, Recipe, TrainFolder
from medtune.trainer.training.mixture import Mixture, num_changeable, open_training_sets, shares_of, stage_mixture
from medtune.trainer.training.sampling import Draw
from tests.examples import OF_SETS
from tests.examples.fetal_ultrasound.plugin import PLUGIN, fetal_ultrasound
from tests.trainer.conftest import Nano

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
    prepare(
        find_source("fetal_heads"),
        benchmark="fetal_heads",
        root=tmp_path / "raw",
        out=tmp_path / "heads",
    )
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
    nano: Nano, prepared_tiny: Path, heads: Path, tmp_path: Path, curve: Callable[[Path, str], list[float]]
) -> None:
    mixed = (
        f"data.mixture=[{{benchmark: busi, root: {prepared_tiny}, weight: 2}}, "
        f"{{benchmark: fetal_heads, root: {heads}, weight: 1}}]",
        "data.balance=1",
        "data.augment=[mirror, grey]",
    )
    whole = tmp_path / "whole"
    assert nano.here("train", whole, *mixed, extra=PLUGINS) == 0
    about = json.loads((whole / "environment.json").read_text())["trained_on"]
    assert about.startswith("busi (tiny): ")
    assert "; fetal_heads (prepared): " in about
    again = tmp_path / "again"
    assert nano.here("train", again, *mixed, "train.micro_batch_size=1", extra=PLUGINS) == 0
    assert curve(again, "train/loss") == pytest.approx(curve(whole, "train/loss"), abs=1e-4)
    plain = tmp_path / "plain"
    assert nano.here("train", plain) == 0
    assert curve(plain, "train/loss") != pytest.approx(curve(whole, "train/loss"), abs=1e-3)


def test_validate_shows_the_parts(prepared_tiny: Path, heads: Path, capsys: pytest.CaptureFixture[str]) -> None:
    mixture = f"data.mixture=[{{benchmark: busi, root: {prepared_tiny}}}, {{benchmark: fetal_heads, root: {heads}}}]"
    assert main([*PLUGINS, "validate", "nano_busi_lora", "--set", f"data.root={prepared_tiny}", mixture]) == 0
    assert "learns     busi (tiny): " in capsys.readouterr().out
    missing = f"data.mixture=[{{benchmark: fetal_heads, root: {heads}/no}}]"
    assert main([*PLUGINS, "validate", "nano_busi_lora", "--set", f"data.root={prepared_tiny}", missing]) == 1
    assert "(data.mixture)" in capsys.readouterr().out
