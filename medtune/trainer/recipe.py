"""The schema of a recipe: one frozen dataclass per block."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from medtune.data.types import AnswerFormat, Condition, Reading, Split
from medtune.models.loading_plan import DtypeName, Loading
from medtune.models.tuning_plan import Precision, Tuning

LEAST_IMAGE_PIXELS = 56 * 56
"""Two by two visual tokens of Qwen2.5-VL."""

StrategyName = Literal["auto", "ddp", "deepspeed_stage_1", "deepspeed_stage_2", "deepspeed_stage_3"]


@dataclass(frozen=True)
class ModelBlock:
    """Which model, and how it learns.

    Attributes:
        name: A file in models/zoo.
        answer_format: Whether the model says an option's words or its letter.
        checkpoint: Trained weights (.safetensors of an earlier run) to start from.
        weights: Hub id or local folder of pretrained weights to take instead of the model's own.
        dtype: Of the pretrained weights in memory; adapters are always float32.
        image_max_pixels: Larger images are scaled down to it, where a model takes images of any size.
        tuning: Frozen, LoRA or full, per group.
    """

    name: str
    answer_format: AnswerFormat = "text"
    checkpoint: Path | None = None
    weights: str | None = None
    dtype: DtypeName = "float32"
    image_max_pixels: int | None = None
    tuning: Tuning = field(default_factory=Tuning)

    @property
    def loading(self) -> Loading:
        """How the pretrained weights are read."""
        return Loading(self.weights, self.dtype, self.image_max_pixels)


@dataclass(frozen=True)
class DataBlock:
    """Which questions.

    Attributes:
        benchmark: A file in eval/benchmarks.
        root: The prepared folder (`medtune prepare BENCHMARK --from ... --out ROOT`).
        workers: Processes that decode training images; 0 decodes in the training process.
    """

    benchmark: str
    root: Path
    workers: int = 0


@dataclass(frozen=True)
class TrainBlock:
    """How to train.

    Attributes:
        max_steps: Optimizer steps.
        seed: Of adapters, data order and dropout.
        batch_groups: Media groups per optimizer step, over all devices: an image with all its questions is one.
        micro_batch_groups: Media groups per forward pass of one device; the rest is accumulated.
        weight_decay: AdamW's, on matrices only.
        warmup_ratio: Share of the steps in which the learning rate rises linearly; a cosine to zero follows.
        clip_norm: Largest gradient norm; 0 does not clip.
        strategy: auto is one device, or ddp where there are several.
        devices: Processes on this machine, one device each.
        precision: Of training and of every evaluation. bf16-mixed computes in bfloat16 and stores what does not learn
            in it; auto is that where the device has it, else 32-true.
    """

    max_steps: int
    seed: int = 0
    batch_groups: int = 8
    micro_batch_groups: int = 8
    weight_decay: float = 0.01
    warmup_ratio: float = 0.1
    clip_norm: float = 1.0
    strategy: StrategyName = "auto"
    devices: int = 1
    precision: Precision = "auto"


@dataclass(frozen=True)
class EvalBlock:
    """How to evaluate; before, during and after training alike.

    Attributes:
        split: What zero-shot and final are measured on.
        readings: Of multiple-choice questions: option log-likelihood, and generation with parsing. The first is
            primary: `overall` in results.json, the best checkpoint and the blind conditions go by it.
        conditions: What the final model is shown, and that of `medtune eval`; "image" is always part of it. Before
            training, `medtune run` asks under "image" alone.
        parser: Of the primary reading; None is "likelihood", or the benchmark's first parser of generations.
        every_steps: Optimizer steps between evaluations during training.
        val_questions: How many validation questions these use: the same ones each time.
        batch_tokens: Padded tokens per forward pass.
        max_new_tokens: Length limit of a generation.
    """

    split: Split = "test"
    readings: tuple[Reading, ...] = ("likelihood", "generation")
    conditions: tuple[Condition, ...] = ("image", "text_only")
    parser: str | None = None
    every_steps: int = 20
    val_questions: int = 100
    batch_tokens: int = 4096
    max_new_tokens: int = 16


@dataclass(frozen=True)
class LogBlock:
    """What is logged where; metrics.csv is always written.

    Attributes:
        wandb: auto is online where a key is set and offline elsewhere.
        project: On W&B.
        every_steps: Optimizer steps between points of the loss curve.
        images: Whether pictures and free texts of single cases go to W&B; auto is for simulated data alone.
    """

    wandb: Literal["auto", "online", "offline", "disabled"] = "auto"
    project: str = "medtune"
    every_steps: int = 1
    images: Literal["auto", "always", "never"] = "auto"


@dataclass(frozen=True)
class Recipe:
    """One experiment."""

    model: ModelBlock
    data: DataBlock
    train: TrainBlock
    eval: EvalBlock = field(default_factory=EvalBlock)
    log: LogBlock = field(default_factory=LogBlock)


def check_recipe(recipe: Recipe) -> None:
    """Refuses values that no run could use.

    Raises:
        ValueError: Names the field, its value and what it must be.
    """
    train, evaluation = recipe.train, recipe.eval
    for name, value, least in (
        ("train.max_steps", train.max_steps, 1),
        ("train.batch_groups", train.batch_groups, 1),
        ("train.micro_batch_groups", train.micro_batch_groups, 1),
        ("train.devices", train.devices, 1),
        ("train.weight_decay", train.weight_decay, 0),
        ("train.clip_norm", train.clip_norm, 0),
        ("eval.every_steps", evaluation.every_steps, 1),
        ("eval.val_questions", evaluation.val_questions, 1),
        ("eval.batch_tokens", evaluation.batch_tokens, 1),
        ("eval.max_new_tokens", evaluation.max_new_tokens, 1),
        ("data.workers", recipe.data.workers, 0),
        ("log.every_steps", recipe.log.every_steps, 1),
        ("model.image_max_pixels", recipe.model.image_max_pixels or LEAST_IMAGE_PIXELS, LEAST_IMAGE_PIXELS),
    ):
        if value < least:
            raise ValueError(f"{name} is {value}; it must be at least {least}")
    if not 0 <= train.warmup_ratio < 1:
        raise ValueError(f"train.warmup_ratio is {train.warmup_ratio}; it must be at least 0 and below 1")
    if not evaluation.readings:
        raise ValueError("eval.readings is empty; it must hold likelihood, generation or both")
    if "image" not in evaluation.conditions:
        raise ValueError(f"eval.conditions is {evaluation.conditions}; it must hold 'image'")
    for group, how in recipe.model.tuning.groups().items():
        if how.mode != "frozen" and how.lr <= 0:
            raise ValueError(f"model.tuning.{group}.lr is {how.lr}; a group that learns needs a rate above 0")
        if how.mode == "lora" and (how.lora.r < 1 or not 0 <= how.lora.dropout < 1):
            raise ValueError(f"model.tuning.{group}.lora: r must be at least 1 and dropout in [0, 1)")
