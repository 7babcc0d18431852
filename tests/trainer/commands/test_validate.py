"""Tests of `medtune validate`, called as on the command line."""

import json
import re
from pathlib import Path

import pytest

from medtune.data.prepared.read import open_prepared
from medtune.trainer.commands.cli import main
from medtune.trainer.commands.show import FieldLine, recipe_fields
from medtune.trainer.recipe.read import read_recipe, recipe_tree
from tests.trainer.conftest import Capture, Told


def test_validate_shows_labels_groups_and_budget(prepared_tiny: Path, shown: Told) -> None:
    said = shown(main(["validate", "nano_busi_lora", "--set", f"data.root={prepared_tiny}"]))
    assert "(8 visual tokens)" in said
    assert "<|im_end|>]]" in said
    assert "66,240" in said, "the projector's parameters"
    assert "target tokens" in said
    assert "test        9 questions" in said


def test_validate_says_that_a_recipe_shares_nothing(prepared_tiny: Path, shown: Told) -> None:
    arguments = ["validate", "nano_busi_lora", "--no-weights", "--set", f"data.root={prepared_tiny}"]
    said = shown(main([*arguments, "train.group_questions=1"]))
    assert (
        "WARNING: nothing in training, as train.group_questions is 1: 34 pictures or scans are read for each of" in said
    )
    assert "their 51 questions" in said
    assert "shares " not in shown(main(arguments))


def test_validate_warns_of_answers_that_are_longer_than_replies(prepared_tiny: Path, shown: Told) -> None:
    arguments = ["validate", "nano_busi_lora", "--set", f"data.root={prepared_tiny}", "eval.max_new_tokens=3"]
    said = shown(main(arguments))
    (warning,) = [line for line in said.splitlines() if line.startswith("warning")]
    longest = max(len(question.answer) for question in open_prepared(prepared_tiny).questions("test"))
    assert f"test has {longest} tokens, and replies are cut behind 3: set eval.max_new_tokens={longest + 1}" in warning
    assert "warning" not in shown(main([*arguments, "eval.readings=[likelihood]"]))


def test_validate_and_run_refuse_questions_beyond_the_context(tiny_busi: Path, tmp_path: Path, capsys: Capture) -> None:
    """The longest text, and the most images together, before any hour is spent on the others."""
    pictures = sorted(path for path in tiny_busi.rglob("*.png") if "_mask" not in path.name)
    history = {"question": "The history is long. " * 1700 + "Is there a mass?"}
    for where, odd in (("test", history), ("test", {"image": [str(pictures[9])] * 4200}), ("train", history)):
        rows = [
            {"image": [str(path)], "question": "Is there a mass?", "answer": "no", "split": split, "patient": path.name}
            for path, split in zip(pictures[:9], ["train"] * 6 + ["val"] * 2 + ["test"], strict=True)
        ]
        named = f"odd_{len([*tmp_path.iterdir()])}"
        table, out, run = tmp_path / f"{named}.jsonl", tmp_path / named, tmp_path / f"{named}_run"
        like = next(row for row in rows if row["split"] == where)
        table.write_text("\n".join(map(json.dumps, [*rows, like | odd])), "utf-8")
        assert main(["prepare", "vqa", "--from", str(table), "--out", str(out)]) == 0
        fields = ["data.benchmark=vqa", f"data.root={out}", "eval.readings=[likelihood]"]
        capsys.readouterr()
        for verb in (["validate"], ["run", "--out", str(run)]):
            assert main([verb[0], "nano_busi_lora", *verb[1:], "--set", *fields]) == 1
            wanted = rf"{out}, split {where}, question .* tokens where the language model"
            assert re.search(wanted, capsys.readouterr().err)
        assert not run.exists()


def test_validate_without_weights_needs_none(prepared_tiny: Path, shown: Told) -> None:
    arguments = ["validate", "pocket_busi_lora", "--no-weights", "--set", f"data.root={prepared_tiny}"]
    said = shown(main(arguments))
    assert "134,515,008" in said
    assert "no weights were loaded" in said


def test_show_resolves_the_recipe_under_its_header(shown: Told) -> None:
    out = shown(main(["show", "nano_busi_lora", "--set", "train.seed=9"]))
    assert "# Expected:" in out
    assert "seed: 9" in out
    assert "warmup_ratio: 0.1" in out


def test_origins_name_the_file_of_each_value(capsys: Capture, tmp_path: Path) -> None:
    own = tmp_path / "own.yaml"
    own.write_text("extends: nano_busi_lora\ntrain: {seed: 3}\n")
    assert main(["show", str(own), "--origins", "--set", "train.max_steps=4"]) == 0
    lines = dict(line.split(" = ", 1) for line in capsys.readouterr().out.splitlines())
    assert lines["train.seed"] == f"3    {own}"
    assert lines["train.max_steps"] == "4    --set"
    assert lines["data.benchmark"].startswith("'busi'")
    # nano_busi_lora itself extends pocket_busi_lora.
    assert lines["data.benchmark"].endswith("pocket_busi_lora.yaml")
    assert lines["model.name"].endswith("nano_busi_lora.yaml")


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


def test_show_prints_all_fields_or_those_of_a_block(refused: Told, shown: Told) -> None:
    assert "model.tuning.language.lora.alpha: number; default: 32\n" in shown(main(["show", "--fields"]))
    said = shown(main(["show", "--fields", "train"]))
    assert "train.batch_size: whole number; default: 8\n    Media groups per optimizer step" in said
    assert "eval." not in [line.split(" ")[0] for line in said.splitlines()]
