"""Typical mistakes, and guesses of other tools' users: each is refused by a message that names the cure."""

import contextlib

import pytest

from medtune.trainer.commands.cli import COMMANDS, main
from medtune.trainer.recipe.other_words import KEYS, VALUES, paths_of
from medtune.trainer.recipe.read import read_recipe
from medtune.trainer.recipe.schema import Recipe

RECIPE = "nano_busi_lora"
OF_SETTINGS = {
    "max_steps=10": "Did you mean 'train.max_steps'?",
    "epochs=3": "Did you mean 'train.epochs'?",
    "seed=3": "Did you mean 'train.seed'?",
    "batch_size=4": "Did you mean 'train.batch_size', or 'eval.batch_size'?",
    "max_new_tokens=8": "Did you mean 'eval.max_new_tokens'",
    "temperature=0.7": "'eval.temperature'",
    "wandb=offline": "Did you mean 'log.wandb'?",
    "precision=bf16": "Did you mean 'train.precision'?",
    "weights=x": "'model.weights'",
    "train.max_step=3": "Did you mean 'max_steps'?",
    "eval.conditons=[image]": "Did you mean 'conditions'?",
    "traim.max_steps=3": "Did you mean 'train'?",
    "lr=1e-4": "is model.tuning.language.lr",
    "train.lr=1e-4": "is model.tuning.language.lr",
    "learning_rate=1e-4": "is model.tuning.language.lr",
    "lora.rank=8": "'lora.rank' is model.tuning.language.lora.r.",
    "lora_rank=8": "is model.tuning.language.lora.r.",
    "model.tuning.language.lora.rank=8": "is model.tuning.language.lora.r.",
    "lora.alpha=8": "Did you mean 'model.tuning.vision.lora.alpha'",
    "lora_alpha=8": "is model.tuning.language.lora.alpha.",
    "target_modules=[q_proj]": "is model.tuning.language.lora.targets, which is one regular expression",
    "model.tuning.language.lora.targets=[q_proj,v_proj]": "'.*(q_proj|v_proj)'",
    "per_device_train_batch_size=4": "train.micro_batch_size for a pass on one device",
    "gradient_accumulation_steps=8": "train.batch_size, the size of a step on all devices",
    "num_train_epochs=3": "is train.epochs",
    "train.warmup_steps=100": "train.warmup_ratio, a share of all steps",
    "max_grad_norm=1": "is train.clip_norm",
    "lr_scheduler_type=cosine": "is train.schedule",
    "bf16=true": "train.precision=bf16-mixed",
    "load_in_4bit=true": "model.language_bits=4",
    "deepspeed=ds.json": "train.strategy=deepspeed_stage_2",
    "train.strategy=zero3": "Did you mean 'deepspeed_stage_3'?",
    "train.strategy=fsdp2": "Did you mean 'fsdp'?",
    "train.precision=bf16": "Did you mean 'bf16-mixed'?",
    "model_name_or_path=x": "model.name, or model.weights",
    "dataset=x": "a folder that `medtune prepare` wrote",
    "output_dir=x": "`--out DIR` of the command",
    "report_to=wandb": "is log.wandb",
    "max_pixels=1000": "is model.image_max_pixels",
    "train.max_steps": "expected KEY=VALUE",
}
OF_WORDS = {
    ("trian", RECIPE): "Did you mean 'train'?",
    ("evaluate", RECIPE): "Did you mean 'eval'?",
    ("finetune", RECIPE): "Did you mean 'run'?",
    ("list", "recipe"): "Did you mean 'recipes'?",
    ("run", "--config", RECIPE): "The recipe is named without it: medtune COMMAND RECIPE",
    ("run", RECIPE, "--train.max_steps=10"): "by --set train.max_steps=10",
    ("run", RECIPE, "--resme"): "Did you mean '--resume'?",
    ("show", "nano_busi_lor"): "Did you mean 'nano_busi_lora'?",
    ("show", RECIPE, "--set", "model.name=nano_pockett"): "model.name: no 'nano_pockett' among the models.",
    ("show", RECIPE, "--set", "data.benchmark=bussi"): "Did you mean 'busi'?",
    ("show", RECIPE, "--set", "train.loss.name=cross_entrpy"): "Did you mean 'cross_entropy'?",
}


@pytest.mark.parametrize(("setting", "cure"), OF_SETTINGS.items())
def test_a_setting_that_is_not_there_is_answered_with_the_one_that_is(setting: str, cure: str) -> None:
    with pytest.raises(ValueError, match=r".") as refused:
        read_recipe(RECIPE, [setting])
    assert cure in str(refused.value)


@pytest.mark.parametrize(("words", "cure"), OF_WORDS.items())
def test_a_wrong_word_is_answered_with_the_right_one(
    words: tuple[str, ...], cure: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with contextlib.suppress(SystemExit):
        assert main(words) != 0
    assert cure in capsys.readouterr().err


def test_medtune_alone_shows_the_commands_and_three_next_steps(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 0
    said = capsys.readouterr().out
    assert all(f"  {name} " in said for name in COMMANDS)
    assert len(said.partition("Three next steps:\n")[2].splitlines()) == 3


def test_the_later_of_steps_and_epochs_counts() -> None:
    assert read_recipe(RECIPE).train.max_steps == 4
    train = read_recipe(RECIPE, ["train.epochs=3"]).train
    assert (train.max_steps, train.epochs) == (None, 3)
    train = read_recipe(RECIPE, ["train.epochs=3", "train.max_steps=5"]).train
    assert (train.max_steps, train.epochs) == (5, None)


def test_what_other_tools_words_are_answered_with_is_there() -> None:
    paths = {*paths_of(Recipe)}
    for cure in KEYS.values():
        key = cure.partition(",")[0].partition(";")[0].partition("=")[0].partition(" for ")[0]
        assert key in paths or key.startswith("`--"), cure
    for ours in VALUES.values():
        assert ours.isprintable()
