"""Tests that a recipe which is accepted can be scored to its end, and that one which could not is refused before."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path

import pytest

from medtune.benchmarks.m3d_vqa import judge_task as m3d_judge_task
from medtune.data.types import Split
from medtune.eval.asking.ask import evaluate
from medtune.eval.scoring.score import score_phase
from medtune.trainer.experiment.open_data import OpenedData, check_scored, open_data
from medtune.trainer.experiment.prepared_data import groups_of
from medtune.trainer.recipe.check import primary_parser
from medtune.trainer.recipe.read import read_recipe
from tests.eval.answerers import Oracle
from tests.own_questions import KINDS, Kind, prepare_own

FREE: tuple[Kind, ...] = ("short", "report")
Splits = Mapping[Split, Sequence[Kind]]
DATA: Mapping[str, Splits] = {
    "closed": dict.fromkeys(("train", "val", "test"), ("choice", "yes_no")),
    "free": dict.fromkeys(("train", "val", "test"), FREE),
    "reports": dict.fromkeys(("train", "val", "test"), ("report",)),
    "numbers": dict.fromkeys(("train", "val", "test"), ("number",)),
    "all kinds": dict.fromkeys(("train", "val", "test"), KINDS),
    "closed tests, free val": {"train": FREE, "val": FREE, "test": KINDS},
    "free tests, closed val": {"train": KINDS, "val": ("choice",), "test": FREE},
}
READINGS = (None, "[likelihood]", "[generation]", "[likelihood,generation]", "[generation,likelihood]")
PARSERS = (None, "reply", "verbatim", "likelihood", "likelihood_per_token")


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Path]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CONFIG_HOME", str(tmp_path_factory.mktemp("config")))
        return {
            name: prepare_own(tmp_path_factory.mktemp("own"), kinds, patients=2).root for name, kinds in DATA.items()
        }


def opened(root: Path, *settings: str, training: bool = True) -> OpenedData:
    recipe = read_recipe("nano_busi_lora", ["data.benchmark=vqa", f"data.root={root}", *settings])
    return open_data(recipe, training=training)


PLAIN = ("all kinds", "free")


@pytest.mark.parametrize(
    "name", [name if name in PLAIN else pytest.param(name, marks=pytest.mark.slow) for name in DATA]
)
def test_what_is_accepted_is_scored_to_its_end(folders: Mapping[str, Path], tmp_path: Path, name: str) -> None:
    accepted = 0
    for number, (readings, parser) in enumerate(product(READINGS, PARSERS)):
        settings = [f"eval.readings={readings}"] * (readings is not None)
        settings += [f"eval.parser={parser}"] * (parser is not None)
        try:
            data = opened(folders[name], *settings)
        except ValueError:
            continue
        accepted += 1
        recipe, prepared, benchmark, _ = data
        for split in ("val", "test"):
            groups = groups_of(prepared, split, questions=None, seed=0)
            out = tmp_path / f"{number}-{split}"
            said = evaluate(
                Oracle(), groups, benchmark, answer_format="text", out_dir=out, readings=recipe.eval.known_readings
            )
            asked = [question for group in groups for question in group.questions]
            scores = score_phase(asked, said, benchmark, parser=primary_parser(recipe, benchmark))
            assert scores.overall.score.value == pytest.approx(1), (name, settings, split)
            assert scores.overall.unanswered == 0, (name, settings, split)
    assert accepted >= (0 if "," in name else 3)


@pytest.mark.parametrize(
    ("name", "readings"),
    [
        ("closed", ("likelihood", "generation")),
        ("all kinds", ("likelihood", "generation")),
        ("free", ("generation",)),
        ("reports", ("generation",)),
        ("numbers", ("generation",)),
    ],
)
def test_readings_follow_the_questions_where_none_are_named(
    folders: Mapping[str, Path], name: str, readings: tuple[str, ...]
) -> None:
    assert opened(folders[name]).recipe.eval.readings == readings


def test_named_readings_stay_and_a_likelihood_of_nothing_is_left_out(folders: Mapping[str, Path]) -> None:
    assert opened(folders["closed"], "eval.readings=[generation]").recipe.eval.readings == ("generation",)
    assert opened(folders["free"], "eval.readings=[likelihood,generation]").recipe.eval.readings == ("generation",)


@pytest.mark.parametrize(
    ("name", "settings", "message"),
    [
        ("free", ["eval.readings=[likelihood]"], "has options whose likelihood could be read"),
        ("free", ["eval.parser=likelihood"], "add likelihood to the readings"),
        ("closed", ["eval.readings=[generation]", "eval.parser=likelihood"], "add likelihood to the readings"),
        ("closed", ["eval.readings=[likelihood]", "eval.parser=reply"], "add generation to the readings"),
        ("closed", ["eval.parser=robust"], "eval.parser is 'robust'; there are: reply, verbatim"),
        ("closed tests, free val", [], "of the split 'val' is one that the primary metric 'closed_accuracy' is about"),
        ("free tests, closed val", [], "of the split 'val' is one that the primary metric 'exact_match' is about"),
    ],
)
def test_what_could_not_be_scored_is_refused(
    folders: Mapping[str, Path], name: str, settings: list[str], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        opened(folders[name], *settings)


def test_a_drawn_validation_is_checked_as_it_is_drawn(tmp_path: Path) -> None:
    kinds: Splits = dict.fromkeys(("train", "val", "test"), ("yes_no", "report"))
    prepared = prepare_own(tmp_path, kinds, one_each=True)
    accepted = set[bool]()
    for seed in range(6):
        settings = ("eval.val_questions=1", f"train.seed={seed}")
        (group,) = groups_of(prepared, "val", questions=1, seed=seed)
        is_closed = bool(group.questions[0].options)
        if is_closed:
            opened(prepared.root, *settings)
        else:
            with pytest.raises(ValueError, match=r"that eval.val_questions draws is one .* Raise that number"):
                opened(prepared.root, *settings)
            opened(prepared.root, *settings, training=False)
        accepted.add(is_closed)
    assert accepted == {True, False}


def test_a_limit_of_a_run_is_checked_too(tmp_path: Path) -> None:
    kinds: Splits = dict.fromkeys(("train", "val", "test"), ("yes_no", "report"))
    prepared = prepare_own(tmp_path, kinds, one_each=True)
    recipe = read_recipe("nano_busi_lora", ["data.benchmark=vqa", f"data.root={prepared.root}"])
    seeds = [
        seed for seed in range(6) if not groups_of(prepared, "test", questions=1, seed=seed)[0].questions[0].options
    ]
    limited = replace(recipe, train=replace(recipe.train, seed=seeds[0]))
    with pytest.raises(ValueError, match="the 1 questions of the split 'test' that --limit draws"):
        open_data(limited, training=False, limit=1)


def test_a_training_whose_validation_waits_for_a_judge_is_refused(folders: Mapping[str, Path]) -> None:
    data = opened(folders["free"])
    judged = replace(data.benchmark, judging=replace(m3d_judge_task(), covers=lambda question: True))
    with pytest.raises(ValueError, match="needs a judge, who has no part in training"):
        check_scored(data.recipe, data.prepared, judged, parser="reply", training=True, limit=None)
    check_scored(data.recipe, data.prepared, judged, parser="reply", training=False, limit=None)
