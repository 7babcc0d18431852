"""What `medtune validate` takes, `medtune run` finishes; numbers out of their bounds are refused by their field."""

import dataclasses
import re
import typing
from collections.abc import Iterator
from pathlib import Path

import pytest

from medtune.data.bounds import bounds_of, check_bounds
from medtune.models.endpoint.settings import Endpoint
from medtune.trainer.commands.cli import main
from medtune.trainer.recipe.judge import JudgeSettings
from medtune.trainer.recipe.read import read_recipe
from medtune.trainer.recipe.schema import Recipe, Stage, TrainFolder
from tests.soak import in_suites, sample_and_all
from tests.trainer.conftest import Capture, Nano
from tests.trainer.recipe.random_recipes import tried


@pytest.mark.parametrize("number", sample_and_all(3, 60))
def test_what_validate_takes_run_finishes(prepared_tiny: Path, tmp_path: Path, number: int) -> None:
    taken, seed = 0, 0
    while taken < number:
        outcome = tried(seed, prepared_tiny, tmp_path)
        assert outcome.finished, f"seed {seed}, {' '.join(outcome.settings)}:\n{outcome.said[-3000:]}"
        taken, seed = taken + outcome.accepted, seed + 1
    assert seed < 4 * number, "most recipes were refused, so that few of the schema's values were tried"


def _numbers(kind: type, above: str) -> Iterator[tuple[str, object]]:
    """Yields each number of a block with its bounds, and of the blocks in it."""
    hints, bounds = typing.get_type_hints(kind), bounds_of(kind)
    for field in dataclasses.fields(kind):
        hint, name = hints[field.name], f"{above}{field.name}"
        for inner in (hint, *typing.get_args(hint)):
            if isinstance(inner, type) and dataclasses.is_dataclass(inner):
                yield from _numbers(inner, f"{name}.")
            elif inner in (int, float):
                yield name, bounds.get(field.name)


NUMBERS = dict(_numbers(Recipe, ""))


def test_every_number_of_a_recipe_has_bounds() -> None:
    assert len(NUMBERS) > 60
    assert [name for name, bound in NUMBERS.items() if bound is None] == []
    for kind in (Endpoint, JudgeSettings, Stage, TrainFolder):
        assert bounds_of(kind)


ODD = (".nan", ".inf", "-.inf", "-1", "1e300")


@pytest.mark.parametrize("odd", in_suites(ODD, plain=(".nan", "1e300")))
def test_an_odd_number_is_refused_by_its_field(odd: str) -> None:
    """Whatever the field is: a whole number refuses what is none, and every one what lies outside of its bounds."""
    for name in NUMBERS:
        if name.startswith(("model.endpoint", "eval.judge", "train.stages", "data.mixture", "train.early_stopping")):
            continue
        with pytest.raises(ValueError, match=rf"(?s){re.escape(name)}\b.*(must be|both are given)"):
            read_recipe("nano_busi_lora", [f"{name}={odd}"])


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        ("model.tuning.language.lora.alpha=0", r"language\.lora\.alpha is 0.*above 0"),
        ("model.tuning.language.lora.alpha=-4", r"language\.lora\.alpha is -4"),
        ("model.tuning.language.lora.r=64 model.tuning.language.lora.init=pissa", r"too small for lora\.r 64"),
        ("model.tuning.language.lora.lr_ratio=1000 model.tuning.language.lr=0.01", "at a rate above 1"),
        ("model.tuning.projector.lr=.nan", r"projector\.lr is nan; it must be from 0 to 1"),
        ("train.weight_decay=.inf", r"weight_decay is inf; it must be from 0 to 100"),
        ("train.clip_norm=.nan", r"clip_norm is nan"),
        (f"train.seed={2**63}", r"train\.seed is 9223372036854775808; it must be at most 4,294,967,295"),
        ("train.seed=-1", r"train\.seed is -1; it must be at least 0"),
        ("train.text_only_share=1", "has no gradient"),
        ("train.precision=16-mixed", "16-mixed needs a GPU"),
        ("log.project=a/b", r"log\.project is 'a/b'"),
        ("eval.batch_tokens=100000000", r"eval\.batch_tokens is 100000000; it must be at most"),
        ("model.tuning.language.parameters='['", r"language\.parameters"),
        ("model.system_prompt='a\0b'", "control character|not YAML"),
    ],
)
def test_validate_and_run_refuse_an_odd_value_alike(
    nano: Nano, prepared_tiny: Path, tmp_path: Path, capsys: Capture, setting: str, said: str
) -> None:
    settings = setting.split(" ")
    assert main(["validate", "nano_busi_lora", "--set", f"data.root={prepared_tiny}", *settings]) == 1
    told = capsys.readouterr()
    assert re.search(said, told.out + told.err), told
    assert nano.here("run", tmp_path / "run", *settings) == 1
    assert re.search(said, capsys.readouterr().err)
    assert not (tmp_path / "run").exists()


def test_bounds_reach_into_lists_mappings_and_blocks() -> None:
    recipe = read_recipe("nano_busi_lora")
    stage = Stage("first", max_steps=1, batch_size=0)
    with pytest.raises(ValueError, match=r"train\.stages\.0\.batch_size is 0; it must be at least 1"):
        check_bounds(dataclasses.replace(recipe, train=dataclasses.replace(recipe.train, stages=(stage,))))
    odd = dataclasses.replace(recipe.eval, condition_repeats={"text_only": 0})
    with pytest.raises(ValueError, match=r"eval\.condition_repeats\.text_only is 0"):
        check_bounds(dataclasses.replace(recipe, eval=odd))
    with pytest.raises(ValueError, match=r"a number of 50\d\d digits"):
        check_bounds(dataclasses.replace(recipe, train=dataclasses.replace(recipe.train, seed=10**5003)))
