"""The schema of a recipe: one frozen dataclass per block."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

from medtune.data.media.augment import Change
from medtune.data.types import AnswerFormat, Condition, Reading, Split, VolumesAs
from medtune.models.endpoint.settings import Endpoint, asked_alike
from medtune.models.tuning.plan import OptimizerName, Precision, Tuning
from medtune.models.weights.loading_options import DtypeName, Loading
from medtune.trainer.recipe.log_block import LogBlock

SERVED = "endpoint"
"""The zoo entry whose model is asked over the network."""

StrategyName = Literal["auto", "ddp", "deepspeed_stage_1", "deepspeed_stage_2", "deepspeed_stage_3"]


@dataclass(frozen=True)
class ModelBlock:
    """Which model, and how it learns.

    Attributes:
        name: A file in models/zoo.
        answer_format: Whether the model says an option's words, its letter, or the words and then the letter.
        checkpoint: Trained weights (.safetensors of an earlier run) to start from.
        weights: Hub id or local folder of pretrained weights to take instead of the model's own.
        dtype: Of the pretrained weights in memory; adapters are always float32.
        image_max_pixels: Larger images are scaled down to it, where a model takes images of any size.
        video_frames: At most so many frames of a video are looked at, where a model takes any number; None is 16.
        video_frames_per_s: How many of each second; None spreads them over the whole clip.
        volumes_as: How a model of images and videos is shown a CT: slices (MedGemma's: up to 85 axial slices in three
            windows) or video (DeepTumorVQA's: up to 150 grey frames); video_frames lowers the number.
        variant: A named preparation of what the model sees, where it has several: the papers' and the public code's, or
            codes: code ids of the model's own tower, which has to be frozen (ct_chat).
        vision: A tower by name, where the model is put together from parts (pocket_ct); None takes the model's own.
        projector: A projector by name, likewise.
        language: Hub id or local folder of any causal language model of transformers, likewise.
        crop_organs: Organs around which the nn_ models crop what they see; None is the organ that a question is about.
        crop_margin_mm: What they leave around them; None takes the model's own.
        language_bits: 4 holds the language model's linear layers in NF4, before, during and after training: QLoRA,
            where its mode is lora. None holds them as `dtype` says.
        tuning: Frozen, in part, LoRA or full, per group.
        endpoint: The server to ask, where `name` is "endpoint".
    """

    name: str
    answer_format: AnswerFormat = "text"
    checkpoint: Path | None = None
    weights: str | None = None
    dtype: DtypeName = "float32"
    image_max_pixels: int | None = None
    video_frames: int | None = None
    video_frames_per_s: float | None = None
    variant: str | None = None
    volumes_as: VolumesAs | None = None
    vision: str | None = None
    projector: str | None = None
    language: str | None = None
    crop_organs: tuple[str, ...] | None = None
    crop_margin_mm: float | None = None
    language_bits: Literal[4] | None = None
    tuning: Tuning = field(default_factory=Tuning)
    endpoint: Endpoint | None = None

    @property
    def shown_name(self) -> str:
        """What results and tables call the model."""
        return self.name if self.endpoint is None else self.endpoint.model

    @property
    def shows_volumes_as(self) -> VolumesAs | None:
        """How the model, or the server, is shown a CT; None as a volume."""
        return self.volumes_as if self.endpoint is None else self.endpoint.volumes_as

    @property
    def loading(self) -> Loading:
        """How the pretrained weights are read."""
        return Loading(
            weights=self.weights,
            dtype=self.dtype,
            image_max_pixels=self.image_max_pixels,
            variant=self.variant,
            video_frames=self.video_frames,
            video_frames_per_s=self.video_frames_per_s,
            volumes_as=self.volumes_as,
            vision=self.vision,
            projector=self.projector,
            language=self.language,
            crop_organs=self.crop_organs,
            crop_margin_mm=self.crop_margin_mm,
        )


@dataclass(frozen=True)
class TrainFolder:
    """One prepared folder of a training mixture.

    Attributes:
        benchmark: Whose words ask its questions: what it was prepared for.
        root: The prepared folder; its train split is learnt.
        weight: Its part of the media groups that are drawn, in any unit; give all parts one, or none.
    """

    benchmark: str
    root: Path
    weight: float | None = None


@dataclass(frozen=True)
class DataBlock:
    """Which questions.

    Attributes:
        benchmark: What the run is evaluated on, and without a mixture trained on: a file in eval/benchmarks.
        root: Its prepared folder (`medtune prepare BENCHMARK --from ... --out ROOT`).
        workers: Processes that decode training images; 0 decodes in the training process.
        mixture: What is learnt instead of `root` alone; name that too where it belongs to it.
        temperature: Of a mixture without weights: a folder's share is its number of media groups to the power
            1 / temperature. 1 mixes by size, a high one evenly.
        balance: 1 asks every frequent answer of a task and subtype equally often in each epoch of training, options and
            free words alike, 0 all questions; between them, frequent answers are thinned in part.
        augment: Changes of training images, videos and volumes (mirror, move, grey), each only for questions whose
            answers the benchmark says stay true; an image whose questions allow different ones counts as several
            groups. A changed volume is prepared anew each time.
        cache: Whether volumes are kept in the prepared folder as the model reads them: float32, each prepared once.
    """

    benchmark: str
    root: Path
    workers: int = 0
    mixture: tuple[TrainFolder, ...] = ()
    temperature: float = 1.0
    balance: float = 0.0
    augment: tuple[Change, ...] = ()
    cache: bool = True


@dataclass(frozen=True)
class Stage:
    """One part of a training with its own optimizer, schedule and data; the next begins from its last weights.

    In a recipe, what a stage leaves out is taken from `train` and, for its tuning, from `model.tuning`.

    Attributes:
        name: In the log and in messages.
        max_steps: Optimizer steps.
        epochs: Passes over the stage's questions, where max_steps is not given.
        only: The stage's questions: those whose facet of that name has one of the values. Empty takes all.
        batch_size: As in `train`.
        micro_batch_size: As in `train`.
        warmup_ratio: As in `train`.
        tuning: Which groups learn, and at which rates.
    """

    name: str
    max_steps: int | None = None
    epochs: float | None = None
    only: dict[str, tuple[str, ...]] = field(default_factory=dict)
    batch_size: int = 8
    micro_batch_size: int = 8
    warmup_ratio: float = 0.1
    tuning: Tuning = field(default_factory=Tuning)

    @property
    def steps(self) -> int:
        """Optimizer steps.

        Raises:
            ValueError: They are still given in epochs.
        """
        if self.max_steps is None:
            raise ValueError(f"the stage {self.name!r} is given in epochs; they have to be counted on the data first")
        return self.max_steps


@dataclass(frozen=True)
class TrainBlock:
    """How to train.

    Attributes:
        max_steps: Optimizer steps; with `stages`, each has its own. A served model needs none.
        epochs: Passes over the train split, where max_steps is not given.
        stages: Parts of the training, one after another, for instance the projector's alignment before instruction
            tuning. Empty is one stage with the values of this block.
        group_questions: An image with more questions counts as several groups of at most so many; None keeps all
            together, 1 makes every question a sample of its own.
        text_only_share: Share of the groups, drawn with the seed, that are learnt without their media: a little keeps a
            model able to talk of text alone, 1 trains a blind one to compare with.
        seed: Of adapters, data order and dropout.
        batch_size: Media groups per optimizer step, over all devices: an image with all its questions is one.
        micro_batch_size: Media groups per forward pass of one device; the rest is accumulated.
        optimizer: AdamW; adamw_8bit keeps its moments in 8 bits (bitsandbytes).
        weight_decay: AdamW's, on matrices only.
        warmup_ratio: Share of the steps in which the learning rate rises linearly; a cosine to zero follows.
        clip_norm: Largest gradient norm; 0 does not clip.
        strategy: auto is one device, or ddp where there are several.
        devices: Processes on this machine, one device each.
        precision: Of training and of every evaluation. bf16-mixed computes in bfloat16 and stores what does not learn
            in it; auto is that where the device has it, else 32-true. 16-mixed does so in float16 with a scaled loss,
            on GPUs alone.
        gradient_checkpointing: Recomputes the layers' activations in the backward pass: less memory, a third more time.
    """

    max_steps: int | None = None
    epochs: float | None = None
    stages: tuple[Stage, ...] = ()
    group_questions: int | None = None
    text_only_share: float = 0.0
    seed: int = 0
    batch_size: int = 8
    micro_batch_size: int = 8
    optimizer: OptimizerName = "adamw"
    weight_decay: float = 0.01
    warmup_ratio: float = 0.1
    clip_norm: float = 1.0
    strategy: StrategyName = "auto"
    devices: int = 1
    precision: Precision = "auto"
    gradient_checkpointing: bool = False


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
        questions: How many questions of the split, drawn by the seed as whole media groups; None for all of them.
        every_steps: Optimizer steps between evaluations during training.
        val_questions: How many validation questions these use: the same ones each time.
        batch_tokens: Padded tokens per forward pass.
        batch_size: Media groups that are answered together; fewer where their prompts exceed `batch_tokens`.
        max_new_tokens: Length limit of a generation.
        temperature: At which a model in this process draws its replies, the same ones for the same train.seed; 0 is
            greedy. A served model has model.endpoint.temperature; log-likelihoods know none.
        repeats: How often each reply is drawn; greedy ones do not differ.
        condition_repeats: Condition -> how often its replies are drawn where that is not `repeats`, and those to
            "image", which they are compared with, as often.
        protocol: published takes the temperature, repeats and max_new_tokens of the benchmark's authors.
    """

    split: Split = "test"
    readings: tuple[Reading, ...] = ("likelihood", "generation")
    conditions: tuple[Condition, ...] = ("image", "text_only")
    parser: str | None = None
    questions: int | None = None
    every_steps: int = 20
    val_questions: int = 100
    batch_tokens: int = 4096
    batch_size: int = 8
    max_new_tokens: int = 16
    temperature: float = 0.0
    repeats: int = 1
    condition_repeats: dict[Condition, int] = field(default_factory=dict)
    protocol: Literal["recipe", "published"] = "recipe"

    def draws(self, conditions: Sequence[Condition]) -> dict[Condition, int]:
        """Returns how often a reply is drawn under each condition of a stage; "image" as often as any of the others."""
        found = {condition: self.condition_repeats.get(condition, self.repeats) for condition in conditions}
        return {**found, "image": max(found.values(), default=self.repeats)}


@dataclass(frozen=True)
class Recipe:
    """One experiment.

    Attributes:
        grid: Dotted fields and the values that they take in turn: `medtune run` makes a run of every combination, and a
            table of them all.
        plugins: Folders with benchmarks, models, recipes and so on of your own, relative to the recipe's file. A run's
            recipe.yaml holds their absolute paths, those of `--plugins` among them.
    """

    model: ModelBlock
    data: DataBlock
    train: TrainBlock = field(default_factory=TrainBlock)
    eval: EvalBlock = field(default_factory=EvalBlock)
    log: LogBlock = field(default_factory=LogBlock)
    grid: dict[str, tuple[str, ...]] | None = None
    plugins: tuple[Path, ...] = ()

    @property
    def stages(self) -> tuple[Stage, ...]:
        """The stages of the training; one, named "training", where the recipe has none of its own."""
        train = self.train
        return train.stages or (
            Stage(
                name="training",
                max_steps=train.max_steps,
                epochs=train.epochs,
                batch_size=train.batch_size,
                micro_batch_size=train.micro_batch_size,
                warmup_ratio=train.warmup_ratio,
                tuning=self.model.tuning,
            ),
        )

    @property
    def total_steps(self) -> int:
        """Optimizer steps of all stages."""
        return sum(stage.steps for stage in self.stages)


def asks_the_same(recipe: Recipe) -> Recipe:
    """Returns the recipe without what may change when a run is resumed: the price, cap and pace of an endpoint."""
    if recipe.model.endpoint is None:
        return recipe
    return replace(recipe, model=replace(recipe.model, endpoint=asked_alike(recipe.model.endpoint)))
