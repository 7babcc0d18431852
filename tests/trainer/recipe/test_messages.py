"""Tests that messages about wrong values name the field, its value, the wanted values, and the file or `--set`."""

import re
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from medtune.trainer.commands.judge import JudgeSettings
from medtune.trainer.commands.show import recipe_fields
from medtune.trainer.recipe.read import find_recipe, read_recipe, read_settings

STAGED = "m3d_llama2_ctlesionvqa_public"
KEYS = [field.name.replace(".N", ".0") for field in recipe_fields() if ".mixture.N" not in field.name]
FORBIDDEN = ("Union", "subtype", "jsonargparse", "NoneType", "Traceback", "Literal", "<class")
WORDS = st.text("abcxyz ,:.-", max_size=8)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.floats(-9, 9) | WORDS | st.sampled_from(["null", "4", "1e-4"]),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(WORDS, inner, max_size=2),
    max_leaves=4,
)


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("train.max_steps=five", "--set: train.max_steps is 'five'; it must be a whole number, or null for none"),
        ("train.seed=null", "--set: train.seed is null; it must be a whole number"),
        ("train.batch_size=2.5", "--set: train.batch_size is 2.5; it must be a whole number"),
        ("model.tuning.language.lora.alpha=[1]", "--set: model.tuning.language.lora.alpha is [1]; it must be a number"),
        ("model.language_bits=8", "--set: model.language_bits is 8; it must be 4, or null for none"),
        ("model.answer_format=letters", "--set: model.answer_format is 'letters'; it must be one of text, letter, "),
        ("data.cache=maybe", "--set: data.cache is 'maybe'; it must be true or false"),
        ("data.root=12", "--set: data.root is 12; it must be a path"),
        ("data.augment=[mirror, turn]", "--set: data.augment.1 is 'turn'; it must be one of mirror, move, grey"),
        ("data.augment=mirror", "--set: data.augment is 'mirror'; it must be a list, each one of mirror, move, grey"),
        ("train.stages=[{max_steps: 2}]", "--set: train.stages.0.name is missing; it must be text"),
        ("train.stages=[{name: a, only: {organ: 3}}]", "train.stages.0.only.organ is 3; it must be a list, each text"),
        ("train.stages=null", "--set: train.stages is null; it must be a list of blocks of keys"),
        ("train.stages.0.max_steps=5", "--set: train.stages is {'0': {'max_steps': 5}}; it must be a list of blocks"),
        ("model.endpoint={model: x}", "--set: model.endpoint.base_url is missing; it must be text"),
        ("model.endpoint={model: x, base_url: y, extra: {a: [1]}}", "--set: model.endpoint.extra.a is [1]; it must be"),
        ("grid={train.seed: [1]}", "--set: grid.train.seed.0 is 1; it must be text"),
        ("eval.condition_repeats={blind: 2}", "--set: eval.condition_repeats has no key 'blind'."),
        ("model=null", "--set: model is null; it must be a block of keys"),
        ("modle.name=x", "--set: no key 'modle'. Did you mean 'model'?"),
        ("train.max_steps=[", "--set train.max_steps: the value is not YAML"),
    ],
)
def test_set_is_blamed_for_what_it_says(override: str, message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)) as caught:
        read_recipe("nano_busi_lora", [override])
    assert "nano_busi_lora" not in str(caught.value)


def test_a_file_is_blamed_with_its_key_and_a_parent_for_its_own(tmp_path: Path) -> None:
    parent, child = tmp_path / "parent.yaml", tmp_path / "child.yaml"
    parent.write_text("model: {name: nano_pocket}\ndata: {benchmark: busi}\ntrain: {max_steps: five}\n")
    child.write_text(f"extends: {parent}\ntrain: {{seed: one}}\n")
    with pytest.raises(ValueError, match=r"parent\.yaml: data\.root is missing; it must be a path"):
        read_recipe(str(child))
    with pytest.raises(ValueError, match=r"parent\.yaml: train\.max_steps is 'five'; it must be a whole number"):
        read_recipe(str(child), ["data.root=here"])
    with pytest.raises(ValueError, match=r"child\.yaml: train\.seed is 'one'; it must be a whole number"):
        read_recipe(str(child), ["data.root=here", "train.max_steps=5"])


def test_numbered_elements_of_stages_are_blamed_one_by_one() -> None:
    with pytest.raises(ValueError, match=r"^--set: train\.stages\.1\.epochs is 'x'; it must be a number, or null"):
        read_recipe(STAGED, ["train.stages.1.epochs=x"])
    with pytest.raises(ValueError, match=r"^--set: train\.stages\.0\.name is missing; it must be text"):
        read_recipe(STAGED, ["train.stages=[{}]"])
    with pytest.raises(ValueError, match=r"train\.stages\.7: train\.stages has the elements 0 to 1"):
        read_recipe(STAGED, ["train.stages.7.epochs=1"])


def test_an_unknown_key_that_could_be_a_secret_is_not_repeated() -> None:
    with pytest.raises(ValueError, match="api_key") as caught:
        read_recipe("endpoint_fetal_gauge", ["model.endpoint.api_key=sk-123"])
    assert "sk-123" not in str(caught.value)
    with pytest.raises(ValueError, match="not YAML") as caught:
        read_recipe("endpoint_fetal_gauge", ["model.endpoint.api_key=[sk-123"])
    assert "sk-123" not in str(caught.value)


def test_settings_of_a_judge_have_the_same_messages(tmp_path: Path) -> None:
    file = tmp_path / "judge.yaml"
    file.write_text("local: {weights: x}\nstrict: perhaps\n")
    with pytest.raises(ValueError, match=r"judge\.yaml: strict is 'perhaps'; it must be true or false"):
        read_settings(JudgeSettings, file, [])
    with pytest.raises(ValueError, match=r"^--set: max_new_tokens is 'x'; it must be a whole number"):
        read_settings(JudgeSettings, None, ["max_new_tokens=x"])


@given(st.sampled_from(["nano_busi_lora", STAGED, "endpoint_fetal_gauge"]), st.sampled_from(KEYS), VALUES)
def test_no_message_speaks_of_python_or_of_a_file_that_is_not_to_blame(recipe: str, key: str, value: object) -> None:
    written = yaml.safe_dump(value, default_flow_style=True, width=1000).removesuffix("...\n").strip()
    override = f"{key}={written}"
    try:
        read_recipe(recipe, [override])
    except ValueError as error:
        said = str(error)
    else:
        return
    assert "\n" not in said
    assert not any(word in said for word in FORBIDDEN)
    assert str(find_recipe(recipe)) not in said


@pytest.mark.parametrize("precision", ["32-true", "16-mixed"])
def test_weights_read_in_bfloat16_go_with_bf16_mixed(precision: str) -> None:
    settings = ["model.dtype=bfloat16", f"train.precision={precision}"]
    with pytest.raises(ValueError, match=r"rounded for nothing; set model\.dtype=float32, or train\.precision=bf16"):
        read_recipe("nano_busi_lora", settings)


def test_auto_is_bf16_mixed_where_the_weights_are_read_in_bfloat16() -> None:
    settings = ["model.dtype=bfloat16", "train.precision=auto"]
    assert read_recipe("nano_busi_lora", settings).train.precision == "bf16-mixed"


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            ["train.strategy=fsdp", "train.precision=16-mixed"],
            r"scaled gradients cannot be divided; set train\.precision",
        ),
        (["train.strategy=fsdp", "train.optimizer=adamw_8bit"], r"cannot update; set train\.optimizer=adamw"),
        (["train.strategy=deepspeed_stage_2_offload", "train.optimizer=adamw_8bit"], r"cannot update; set train\."),
    ],
)
def test_what_divided_weights_do_not_go_with(settings: list[str], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        read_recipe("nano_busi_lora", settings)
