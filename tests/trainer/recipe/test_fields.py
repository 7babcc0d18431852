"""Tests of the list of recipe fields that `medtune show --fields` prints."""

import pytest

from medtune.trainer.commands.cli import main
from medtune.trainer.commands.show import FieldLine, recipe_fields
from medtune.trainer.recipe.read import read_recipe, recipe_tree

EVERY = recipe_fields()


@pytest.mark.parametrize("field", EVERY, ids=lambda field: field.name)
def test_every_field_has_a_meaning_and_a_type_in_plain_words(field: FieldLine) -> None:
    assert field.meaning.endswith("."), field.name
    for word in ("Literal", "Optional", "Union", "NoneType", "typing", "tuple", "int", "str", "dict"):
        assert word not in field.type.split()


def test_every_key_of_a_resolved_recipe_is_listed() -> None:
    names = {field.name for field in EVERY}
    tree = recipe_tree(read_recipe("nano_busi_lora"))
    assert {f"{block}.{key}" for block in ("model", "data", "train", "eval", "log") for key in tree[block]} <= names
    assert {"train.stages.N.tuning.vision.lora.r", "data.mixture.N.root", "model.endpoint.base_url"} <= names


def test_types_and_defaults_are_those_of_the_block_around() -> None:
    found = {field.name: (field.type, field.default) for field in EVERY}
    assert found["train.max_steps"] == ("whole number or none", "none")
    assert found["model.answer_format"] == ("one of text, letter, text_letter", "text")
    assert found["model.name"] == ("text", "required")
    assert found["data.cache"] == ("true or false", "true")
    assert found["data.root"] == ("path", "required")
    assert found["eval.conditions"][1] == "[image, text_only]"
    assert found["model.tuning.vision.mode"][1] == "frozen"
    assert found["model.tuning.projector.mode"][1] == "full"
    assert found["model.tuning.projector.lr"][1] == "0.001"


def test_show_prints_all_fields_or_those_of_a_block(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["show", "--fields"]) == 0
    assert "model.tuning.language.lora.alpha: number; default: 32\n" in capsys.readouterr().out
    assert main(["show", "--fields", "train"]) == 0
    said = capsys.readouterr().out
    assert "train.batch_size: whole number; default: 8\n    Media groups per optimizer step" in said
    assert "eval." not in [line.split(" ")[0] for line in said.splitlines()]
    assert main(["show", "--fields", "trian"]) == 1
    assert "no field 'trian'. Did you mean 'train'?" in capsys.readouterr().err


def test_show_takes_a_recipe_or_the_fields(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["show"]) == 1
    assert "show takes a RECIPE, or --fields" in capsys.readouterr().err
    assert main(["show", "nano_busi_lora", "--fields", "train"]) == 1
