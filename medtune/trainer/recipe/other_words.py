"""What other tools call the settings of a recipe, and what answers an unknown key or value: medtune's own words.

Source: the arguments of transformers' TrainingArguments, peft's LoraConfig, ms-swift, LLaMA-Factory and axolotl.
"""

import dataclasses
import difflib
import typing
from collections.abc import Collection, Iterator, Mapping, Sequence

from medtune.data import catalog

_SURE = 0.75
"""How like a key elsewhere in the recipe has to be (of 1, by difflib), so that it is taken for what was meant."""
_LORA = "model.tuning.language.lora"
KEYS: Mapping[str, str] = {
    **dict.fromkeys(("lr", "learning_rate"), "model.tuning.language.lr; each part of the model has its own"),
    **dict.fromkeys(("rank", "lora_rank", "lora_r"), f"{_LORA}.r"),
    "lora_alpha": f"{_LORA}.alpha",
    "lora_dropout": f"{_LORA}.dropout",
    "use_dora": f"{_LORA}.dora",
    **dict.fromkeys(
        ("target_modules", "lora_target", "lora_target_modules"), f"{_LORA}.targets, which is one regular expression"
    ),
    **dict.fromkeys(
        ("per_device_train_batch_size", "micro_batch", "micro_batch_size_per_gpu", "train_batch_size"),
        "train.micro_batch_size for a pass on one device, and train.batch_size for a step on all",
    ),
    **dict.fromkeys(
        ("gradient_accumulation_steps", "accumulate_grad_batches", "grad_accum"),
        "train.batch_size, the size of a step on all devices; passes are collected by themselves",
    ),
    **dict.fromkeys(("num_train_epochs", "num_epochs", "max_epochs"), "train.epochs"),
    **dict.fromkeys(("steps", "num_steps"), "train.max_steps"),
    **dict.fromkeys(("max_grad_norm", "gradient_clip_val", "gradient_clipping"), "train.clip_norm"),
    "warmup_steps": "train.warmup_ratio, a share of all steps",
    **dict.fromkeys(("lr_scheduler_type", "lr_scheduler", "scheduler"), "train.schedule"),
    **dict.fromkeys(("bf16", "fp16", "mixed_precision", "torch_dtype"), "train.precision=bf16-mixed, or model.dtype"),
    **dict.fromkeys(("load_in_4bit", "quantization_bit", "quant_bits", "quantization"), "model.language_bits=4"),
    "deepspeed": "train.strategy=deepspeed_stage_2",
    **dict.fromkeys(
        ("freeze_vit", "freeze_vision_tower", "freeze_vision"), "model.tuning.vision.mode=frozen, lora or full"
    ),
    **dict.fromkeys(("model_name_or_path", "model_id", "base_model", "pretrained"), "model.name, or model.weights"),
    **dict.fromkeys(
        ("dataset", "data_path", "train_file", "dataset_dir"), "data.root, a folder that `medtune prepare` wrote"
    ),
    **dict.fromkeys(("output_dir", "save_dir"), "`--out DIR` of the command"),
    **dict.fromkeys(("eval_steps", "val_check_interval"), "eval.every_steps"),
    "save_steps": "train.save_every_steps",
    **dict.fromkeys(("report_to", "use_wandb"), "log.wandb"),
    **dict.fromkeys(("max_pixels", "image_size", "image_resolution"), "model.image_max_pixels"),
    **dict.fromkeys(("num_gpus", "nproc_per_node", "gpus"), "train.devices"),
    **dict.fromkeys(("dataloader_num_workers", "num_workers"), "data.workers"),
}
"""The last word of a key of another tool, and the answer to it."""
VALUES: Mapping[str, str] = {
    **{f"zero{stage}": f"deepspeed_stage_{stage}" for stage in (1, 2, 3)},
    **{f"zero_{stage}": f"deepspeed_stage_{stage}" for stage in (1, 2, 3)},
    **{f"deepspeed_zero{stage}": f"deepspeed_stage_{stage}" for stage in (1, 2, 3)},
    "deepspeed": "deepspeed_stage_2",
    "fsdp2": "fsdp",
    **dict.fromkeys(("bf16", "bfloat16"), "bf16-mixed"),
    **dict.fromkeys(("fp16", "16"), "16-mixed"),
    **dict.fromkeys(("fp32", "float32", "32"), "32-true"),
    **dict.fromkeys(("freeze", "none"), "frozen"),
}
"""Values of other tools, and ours."""


def key_meant(key: str, value: object, known: Collection[str], root: type) -> str:
    """Returns " Did you mean ...?" for a key that a block does not have, or "" where nothing is like it.

    Args:
        value: Its value; of a block of one key, the key is meant together with that inside.
        known: The keys of the block that it stands in.
        root: The dataclass of the whole recipe.
    """
    words = [key]
    while isinstance(value, Mapping) and len(value) == 1:
        (inner, value), *_ = value.items()
        words.append(str(inner))
    paths = [*paths_of(root)]
    if (meant := KEYS.get(words[-1])) and any(path.startswith("model.") for path in paths):
        return f" What other tools call {'.'.join(words)!r} is {meant}."
    # Of several the one of a whole block is meant sooner than one of a part.
    same = sorted((path for path in paths if path.rpartition(".")[2] == words[-1]), key=lambda path: path.count("."))
    if near := catalog.nearest(key, known, cutoff=_SURE):
        return near
    if same:
        return _full(same)
    last = {path.rpartition(".")[2]: path for path in paths}
    if close := difflib.get_close_matches(words[-1], last, n=1, cutoff=_SURE):
        return _full([last[close[0]]])
    return catalog.nearest(key, known)


def _full(paths: Sequence[str]) -> str:
    return f" Did you mean {', or '.join(map(repr, paths[:3]))}?"


def value_meant(value: object, choices: Sequence[object]) -> str:
    """Returns " Did you mean 'x'?" for a value that is not among the choices, or ""."""
    meant = VALUES.get(str(value).lower())
    if meant in choices:
        return f" Did you mean {meant!r}?"
    return catalog.nearest(str(value), [str(each) for each in choices])


def targets_meant(value: Sequence[object]) -> str:
    """Returns what the targets of adapters are, for a list of layers as other tools take it."""
    return f" Give one regular expression of whole names: '.*({'|'.join(map(str, value))})'"


def paths_of(block: type, above: str = "") -> Iterator[str]:
    """Yields the full keys of all fields of a dataclass and of the blocks in it."""
    for name, hint in typing.get_type_hints(block).items():
        yield above + name
        # The blocks of a list have numbers for keys.
        for kind in (hint, *(() if typing.get_origin(hint) is tuple else typing.get_args(hint))):
            if isinstance(kind, type) and dataclasses.is_dataclass(kind):
                yield from paths_of(kind, f"{above}{name}.")
