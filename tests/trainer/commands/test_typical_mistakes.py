"""Typical mistakes, and guesses of other tools' users: each is refused by a line that names what is wrong and the cure.

A refusal that needs no more than a command line and data is a row here.
"""

import contextlib
from pathlib import Path

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
BUSI = ("--from", "<raw>", "--out", "<new>")
RUN = ("run", RECIPE, "--out", "<new>", "--set", "data.root=<data>")
VALIDATE = ("validate", RECIPE, "--set", "data.root=<data>")
FOLDS = (*RUN[:4], "--folds", "3", "--set", "data.root=<data>")
BLIND = ("model.tuning.language.mode=frozen", "train.text_only_share=1")
OF_COMMANDS = {
    ("show",): ("show takes a RECIPE, or --fields",),
    ("show", RECIPE, "--fields", "train"): ("show takes a RECIPE, or --fields",),
    ("show", "--fields", "trian"): ("no field 'trian'. Did you mean 'train'?",),
    ("run", "nano_bussi_lora"): ("Did you mean 'nano_busi_lora'?",),
    ("init", "<new>", "--data", "<none>.csv"): ("none.csv: there",),
    ("prepare", "busi", "--source", "vqa_rad", *BUSI): ("takes the sources busi, not 'vqa_rad'",),
    ("prepare", "bussi", *BUSI): ("Did you mean 'busi'?",),
    ("prepare", "busi", "--from", "<none>", "--out", "<new>"): ("<none>",),
    ("prepare", "busi", *BUSI, "--slurm-arr", "8"): ("unrecognized arguments: --slurm-arr",),
    **{
        ("prepare", "busi", *BUSI, "--max-rejected", said): (
            f"{said} is not a share from 0 to 1, in which 0.05 is 5 %",
        )
        for said in ("5%", "1.5", "nan")
    },
    ("prepare", "--cache", "nano_ct_lor"): ("Did you mean 'nano_ct_lora'",),
    ("prepare",): ("prepare needs a BENCHMARK",),
    ("prepare", "ctlesionvqa", "--set", "a=1"): ("it belongs to --cache RECIPE",),
    ("export", "<none>", "--out", "<new>"): ("no run is here",),
    ("audit", "<none>"): ("<none>", "no recipe.yaml"),
    ("power", "--gain", "0.1"): ("--baseline",),
    (*VALIDATE, "eval.parser=lenient"): ("there are: robust, strict, likelihood",),
    ("eval", RECIPE, "--out", "<new>", "--resume", "--set", "data.root=<data>"): ("no run to resume here",),
    (*RUN, "train.max_stepz=3"): ("no key 'train.max_stepz'. Did you mean 'max_steps'?",),
    (*RUN[:5], "data.root=<none>"): ("<none>", "medtune prepare"),
    (*RUN, "data.benchmark=vqa_rad"): ("was prepared for the benchmark 'busi'",),
    (*RUN, "model.tuning.language.lora.targets=qkv"): ("fits no module of the part", "q_proj"),
    (*RUN, "model.tuning.projector.mode=frozen", BLIND[0]): ("every part is frozen",),
    **{
        (*command, *BLIND, f"model.tuning.{part}.mode=full", f"model.tuning.{other}.mode=frozen"): (
            f"the part {part!r} (full) has no gradient",
        )
        for command in (RUN, VALIDATE)
        for part, other in (("vision", "projector"), ("projector", "vision"))
    },
    (*RUN[:4], "--accept-changed-data", *RUN[4:]): ("--accept-changed-data is for a run that goes on",),
    (*RUN[:4], "--seeds", "1", *RUN[4:]): ("at least 2",),
    (*RUN[:4], "--folds", "1", *RUN[4:]): ("a cross-validation needs at least 2 folds",),
    (*FOLDS[:6], "--seeds", "2", *FOLDS[6:]): ("--seeds and folds are two series of runs",),
    (*FOLDS[:6], "--nodes", "2", *FOLDS[6:]): (
        "the runs of a grid, of --seeds and of --folds are on one machine each",
    ),
    (*FOLDS, "eval.split=val"): ("each fold is the split test of its run",),
    (*RUN, "data.fold=4", "data.folds=3"): ("data.fold is 4; it must be from 1 to data.folds, which is 3",),
    (*FOLDS, "data.mixture=[{benchmark: busi, root: b}]"): ("no run would learn from a fold",),
    FOLDS: ("these data do not say whose the images are",),
}
"""The words of a command, in which <data> and <raw> are there, and <none> and <new> not; and what is to be said."""


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


@pytest.mark.parametrize(("words", "parts"), OF_COMMANDS.items(), ids=lambda each: " ".join(each)[:60])
def test_a_refusal_names_what_is_wrong_and_the_way_on_and_leaves_nothing_behind(
    words: tuple[str, ...], parts: tuple[str, ...], prepared_tiny: Path, tiny_busi: Path, tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    places = {"data": prepared_tiny, "raw": tiny_busi, "none": tmp_path / "none", "new": tmp_path / "new"}

    def placed(text: str) -> str:
        for name, place in places.items():
            text = text.replace(f"<{name}>", str(place))
        return text

    with contextlib.suppress(SystemExit):
        assert main([placed(each) for each in words]) == 1
    *_, said = capsys.readouterr().err.splitlines()
    assert said.startswith("medtune")
    assert [part for part in parts if placed(part) not in said] == []
    assert not places["new"].exists()


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
