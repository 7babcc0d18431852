"""Tests of reading recipes: defaults, extends, overrides, and messages about typing mistakes."""

import re
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from medtune.trainer.commands.show import recipe_fields
from medtune.trainer.recipe.build import origins
from medtune.trainer.recipe.judge import JudgeSettings
from medtune.trainer.recipe.read import (
    find_recipe,
    read_layers,
    read_recipe,
    read_settings,
    recipe_to_yaml,
    recipe_tree,
)
from medtune.trainer.seen import differences

PLAIN = """
model: {name: nano_pocket}
data: {benchmark: busi, root: somewhere}
train: {max_steps: 7}
"""


def _write(folder: Path, name: str, text: str) -> str:
    path = folder / name
    path.write_text(text)
    return str(path)


def test_defaults_and_overrides(tmp_path: Path) -> None:
    file = _write(tmp_path, "a.yaml", PLAIN)
    recipe = read_recipe(file, ["train.seed=3", "model.tuning.language.lora.r=4", "eval.conditions=[image]"])
    assert (recipe.train.max_steps, recipe.train.seed) == (7, 3)
    assert recipe.model.tuning.language.lora.r == 4
    assert recipe.model.tuning.projector.mode == "full"
    assert recipe.eval.conditions == ("image",)
    assert recipe.data.root == Path("somewhere")
    assert read_recipe(_write(tmp_path, "b.yaml", recipe_to_yaml(recipe))) == recipe


def test_extends_chains_of_any_depth_whose_relative_names_start_at_the_file_that_has_them(tmp_path: Path) -> None:
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
    _write(tmp_path, "parent.yaml", PLAIN)
    _write(tmp_path / "a", "child.yaml", "extends: ../parent.yaml\ntrain: {seed: 5, batch_size: 2}\n")
    _write(tmp_path / "b", "grandchild.yaml", "extends: ../a/child.yaml\ntrain: {batch_size: 4}\n")
    last = _write(tmp_path / "b", "last.yaml", "extends: grandchild.yaml\n")
    recipe = read_recipe(last)
    assert (recipe.train.max_steps, recipe.train.seed, recipe.train.batch_size) == (7, 5, 4)
    said = origins(read_layers(last, ["train.precision=32-true"]), recipe_tree(recipe))
    names = {key: Path(origin).name for key, origin in said.items() if key.startswith("train.")}
    assert names["train.max_steps"] == "parent.yaml"
    assert names["train.seed"] == "child.yaml"
    assert names["train.batch_size"] == "grandchild.yaml"
    assert (names["train.precision"], names["train.devices"]) == ("--set", "default")
    _write(tmp_path / "a", "child.yaml", "extends: ../parent.yaml\ntrain: {sed: 5}\n")
    with pytest.raises(ValueError, match=r"child\.yaml: no key 'train.sed'"):
        read_recipe(last)


def test_recipes_that_extend_each_other_are_refused_with_the_chain(tmp_path: Path) -> None:
    for name, parent in (("one", "two"), ("two", "three"), ("three", "one")):
        _write(tmp_path, f"{name}.yaml", f"extends: {parent}.yaml\n")
    circle = r"in a circle: \S*one\.yaml extends \S*two\.yaml extends \S*three\.yaml extends \S*one\.yaml"
    with pytest.raises(ValueError, match=circle):
        read_recipe(str(tmp_path / "one.yaml"))


def test_a_recipe_that_is_extended_and_not_there_is_named_with_the_file_that_names_it(tmp_path: Path) -> None:
    child = _write(tmp_path, "child.yaml", "extends: nowhere.yaml\n")
    with pytest.raises(FileNotFoundError, match=r"child\.yaml: extends 'nowhere\.yaml': no recipe file"):
        read_recipe(child)
    child = _write(tmp_path, "child.yaml", "extends: pocket_busi_lorra\n")
    with pytest.raises(ValueError, match=r"child\.yaml: extends 'pocket_busi_lorra'.*pocket_busi_lora"):
        read_recipe(child)
    child = _write(tmp_path, "child.yaml", "extends: [a, b]\n")
    with pytest.raises(ValueError, match=r"takes the name or the file of one recipe"):
        read_recipe(child)


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("train.max_steps=1:30", "train.max_steps is '1:30'; it must be a whole number"),
        ("train.max_steps=010", "train.max_steps is '010'; it must be a whole number"),
        ("train.weight_decay=1:30.5", "train.weight_decay is '1:30.5'; it must be a number"),
        ("train.max_stepz=3", "no key 'train.max_stepz'. Did you mean 'max_steps'\\?"),
        ("modle.name=x", "Did you mean 'model'\\?"),
        ("model.tuning.language.lora.rank=4", "no key 'model.tuning.language.lora.rank'"),
        ("train.max_steps=many", "train.max_steps is .many.; it must be a whole number"),
        ("train.max_steps=2.5", "train.max_steps is 2.5; it must be a whole number"),
        ("model.answer_format=letters", "one of text, letter, text_letter"),
        ("train=3", "train is 3; it must be a block of keys"),
        ("train.max_steps=0", "train.max_steps is 0; it must be at least 1"),
        ("train.warmup_ratio=1.5", "train.warmup_ratio is 1.5"),
        ("eval.readings=[]", "eval.readings is empty"),
        ("eval.conditions=[text_only]", "it must hold 'image'"),
        ("model.tuning.projector.lr=0", "model.tuning.projector.lr is 0"),
        ("max_steps", "expected KEY=VALUE"),
    ],
)
def test_mistakes_are_named(tmp_path: Path, override: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        read_recipe(_write(tmp_path, "a.yaml", PLAIN), [override])


def test_a_value_that_was_read_as_another_type_is_refused_all_the_same() -> None:
    read_recipe("nano_busi_lora", ["train.seed=1", "data.cache=true"])
    for setting in ("train.seed=true", "train.seed=1.0", "data.cache=1"):
        with pytest.raises(ValueError, match="it must be"):
            read_recipe("nano_busi_lora", [setting])


def test_missing_key_and_broken_yaml(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="max_steps"):
        read_recipe(_write(tmp_path, "a.yaml", PLAIN.replace("max_steps: 7", "seed: 1")))
    with pytest.raises(ValueError, match=r"b\.yaml: not YAML"):
        read_recipe(_write(tmp_path, "b.yaml", "model: [unclosed"))
    with pytest.raises(ValueError, match="a recipe is a mapping"):
        read_recipe(_write(tmp_path, "c.yaml", "just words"))
    with pytest.raises(FileNotFoundError, match=r"no recipe file .*d\.yaml"):
        read_recipe(str(tmp_path / "d.yaml"))


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


LORA = "model.tuning.language.lora"


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ("train.strategy=fsdp & train.precision=16-mixed", r"scaled gradients cannot be divided; set train\.precision"),
        ("train.strategy=fsdp & train.optimizer=adamw_8bit", r"cannot update; set train\.optimizer=adamw"),
        ("train.strategy=deepspeed_stage_2_offload & train.optimizer=adamw_8bit", r"cannot update; set train\."),
        ("model.language_bits=4 & model.tuning.language.mode=full", "weights in 4 bits cannot learn: use lora"),
        ("model.language_bits=4 & train.strategy=deepspeed_stage_3 & train.devices=2", "use deepspeed_stage_2 or ddp"),
        *(
            (f"train.ema_decay={n}", r"train\.ema_decay is .*; it must be above 0 and below 1")
            for n in ("1", "0", "-0.5")
        ),
        ("train.early_stopping.patience=0", r"train\.early_stopping\.patience is 0; it must be at least 1"),
        ("train.early_stopping.min_delta=-1", r"train\.early_stopping\.min_delta is -1.*; it must be at least 0"),
        ("train.early_stopping.metrik=loss", r"no key 'train\.early_stopping\.metrik'\. Did you mean 'metric'"),
        (f"{LORA}.init=pissa & model.language_bits=4", "lora.init is pissa, which changes the weights"),
        (f"{LORA}.lr_ratio=0", r"lora\.lr_ratio is 0\.0; it must be above 0"),
        (f"{LORA}.init=olora", "olora"),
        ("train.schedule=constant & train.lr_floor=0.1", "constant, which does not fall"),
        ("train.lr_floor=1.5", r"train\.lr_floor is 1\.5; it must be from 0 to 1"),
        ("train.schedule=step", "step"),
        ("eval.repeats=5", r"eval\.repeats is 5; greedy answers do not differ. Set eval\.temperature above 0"),
        (
            "eval.condition_repeats={text_only: 5}",
            r"eval\.condition_repeats is \{'text_only': 5\}; greedy answers do not differ",
        ),
        ("eval.temperature=1 & eval.condition_repeats={image: 5}", r"condition_repeats\.image: .* set eval\.repeats"),
        ("eval.temperature=1 & eval.condition_repeats={text_only: 0}", r"condition_repeats\.text_only is 0"),
        ("eval.temperature=-1", r"eval\.temperature is -1\.0; it must be at least 0"),
        ("eval.temperature=1 & eval.readings=[likelihood]", "a log-likelihood is computed, not drawn; add generation"),
    ],
)
def test_what_cannot_be_done_is_said_before_anything_is_loaded(settings: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        read_recipe("nano_busi_lora", settings.split(" & "))


STAGES = (
    "train.max_steps=null", "train.epochs=null",
    "train.stages=[{name: one, max_steps: 2}, {name: two, max_steps: 2, micro_batch_size: 3}]",
)  # fmt: skip


def test_a_budget_takes_the_place_of_a_number_below_it() -> None:
    recipe = read_recipe("nano_busi_lora", ["train.micro_batch_tokens=300"])
    assert recipe.stages[0].micro_batch_tokens == 300
    assert read_recipe("nano_busi_lora").stages[0].micro_batch_tokens is None


def test_what_a_run_wrote_can_be_read_again_and_changed(tmp_path: Path) -> None:
    recipe = read_recipe("nano_busi_lora", ["train.micro_batch_tokens=300"])
    file = tmp_path / "recipe.yaml"
    file.write_text(recipe_to_yaml(recipe))
    again = read_recipe(str(file))
    assert again.train.micro_batch_tokens == 300
    assert recipe_to_yaml(again) == recipe_to_yaml(recipe)
    by_count = read_recipe(str(file), ["train.micro_batch_size=3"])
    assert (by_count.train.micro_batch_size, by_count.train.micro_batch_tokens) == (3, None)
    assert differences(recipe, by_count) == []


@pytest.mark.parametrize("block", ["train", "train.stages.0"])
def test_both_in_one_place_are_refused(block: str) -> None:
    stages = [] if block == "train" else list(STAGES)
    wanted = rf"--set: {block}\.micro_batch_size and {block}\.micro_batch_tokens are both given"
    with pytest.raises(ValueError, match=wanted):
        read_recipe("nano_busi_lora", [*stages, f"{block}.micro_batch_size=2", f"{block}.micro_batch_tokens=300"])


def test_a_file_that_gives_both_is_named(tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text("extends: nano_busi_lora\ntrain: {micro_batch_size: 2, micro_batch_tokens: 300}\n")
    with pytest.raises(ValueError, match=r"mine\.yaml: train\.micro_batch_size and train\.micro_batch_tokens are both"):
        read_recipe(str(file))
    assert read_recipe(str(file), ["train.micro_batch_tokens=null"]).train.micro_batch_size == 2


def test_a_stage_that_says_its_own_takes_nothing_from_train() -> None:
    one, two = read_recipe("nano_busi_lora", [*STAGES, "train.micro_batch_tokens=300"]).stages
    assert one.micro_batch_tokens == 300
    assert (two.micro_batch_size, two.micro_batch_tokens) == (3, None)


def test_a_budget_is_at_least_one_token() -> None:
    with pytest.raises(ValueError, match=r"train\.micro_batch_tokens is 0; it must be at least 1"):
        read_recipe("nano_busi_lora", ["train.micro_batch_tokens=0"])
