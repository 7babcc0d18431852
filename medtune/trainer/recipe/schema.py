"""The schema of a recipe: one frozen dataclass for each block, whose docstrings `medtune show --fields` prints."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Literal

from annotated_types import Interval

from medtune.data.bounds import PROJECT, Count, Draws, Epochs, Minutes, NotNegative, PartlyShare, Positive, Share
from medtune.data.media.augment import Change
from medtune.data.types import AnswerFormat, Condition, Reading, Split
from medtune.eval.asking.conditions import ANATOMY_NAMED, READINGS
from medtune.models.endpoint.settings import Endpoint
from medtune.models.tuning.plan import OptimizerName, Precision, ScheduleName, Tuning
from medtune.models.weights.loading_options import Loading
from medtune.trainer.recipe.early_stopping import EarlyStopping
from medtune.trainer.recipe.judge import JudgeSettings
from medtune.trainer.recipe.loss import LossSettings
from medtune.trainer.recipe.replies import ReplySettings

SERVED = "endpoint"
"""The value of model.name for a model that is asked over the network."""
AUTO = "auto"
"""The value of model.name for any checkpoint of transformers, which model.weights names."""
FOREIGN = "foreign"
"""The value of model.name where `medtune.BenchmarkEvaluation` asked a module of the user's own, which nothing loads."""

STAGE_KEYS = (
    "batch_size", "micro_batch_size", "micro_batch_tokens", "warmup_ratio", "schedule", "lr_floor", "loss", "replies",
)  # fmt: skip
"""The keys whose values a stage takes from `train` if it does not give them itself."""

Board = Literal["tensorboard", "mlflow"]
Evaluations = tuple[Literal["zero_shot", "val", "final"], ...]
StrategyName = Literal[
    "auto", "ddp", "fsdp", "deepspeed_stage_1", "deepspeed_stage_2", "deepspeed_stage_2_offload", "deepspeed_stage_3",
    "deepspeed_stage_3_offload",
]  # fmt: skip


@dataclass(frozen=True)
class ChosenModel:
    """The first fields of a recipe's block `model`: the model, the form of its answers, and its trained weights.

    Attributes:
        name: The model: one of medtune/models/zoo, "endpoint" for a served model, or "auto" for any vision-language
            model of transformers, which `weights` names. A hub id (ORGANISATION/MODEL) or a folder in this place means
            "auto" with these weights. See `medtune list models`.
        answer_format: The form of an answer to a multiple-choice question: text is the option's words, letter its
            letter, text_letter the words and then the letter.
        checkpoint: Trained weights to start from, a .safetensors file of an earlier run, or its folder
            checkpoints/best; none starts from the pretrained weights.
    """

    name: str
    answer_format: AnswerFormat = "text"
    checkpoint: Path | None = None


@dataclass(frozen=True)
class ModelBlock(Loading, ChosenModel):
    """Which model is used, how its weights are read, and how it learns.

    recipe.yaml and results.json keep the order of the fields: those of `ChosenModel`, `Loading` and this class.

    Attributes:
        language_bits: 4 keeps the linear layers of the language model in 4 bits (NF4) before, during and after
            training; with the mode lora, this is QLoRA. None keeps them as train.precision says.
        tuning: How each part of the model learns: not at all, in part, with LoRA, or in full.
        endpoint: The server that is asked; required if `name` is "endpoint", and left out otherwise.
    """

    language_bits: Literal[4] | None = None
    tuning: Tuning = field(default_factory=Tuning)
    endpoint: Endpoint | None = None

    @property
    def shown_name(self) -> str:
        if self.endpoint is not None:
            return self.endpoint.model
        return self.weights if self.name == AUTO and self.weights is not None else self.name


@dataclass(frozen=True)
class TrainFolder:
    """One prepared folder of a training mixture.

    Attributes:
        benchmark: The benchmark that the folder was prepared for; its wording asks the questions.
        root: The prepared folder; the model is trained on its train split.
        weight: The folder's share of the media groups that are drawn, in any unit, because the weights are divided by
            their sum. Either all folders of a mixture have a weight, or none has.
    """

    benchmark: str
    root: Path
    weight: Positive | None = None


@dataclass(frozen=True)
class DataBlock:
    """The data of a recipe: the questions that the model is trained on, and those that it is evaluated on.

    Attributes:
        benchmark: The benchmark that is evaluated, and learnt unless there is a mixture (`medtune list benchmarks`).
        root: The prepared folder of the benchmark, which `medtune prepare BENCHMARK --from ... --out ROOT` wrote.
        workers: Number of processes that read media ahead for each device; 0 reads in the process of the model.
        mixture: Prepared folders to train on instead of `root`; `root` itself may be one of them.
        allow_lookalikes: Whether folders of the mixture may hold training images that look like evaluated ones. Without
            it, such a folder is refused; with it, every output says how many images these are.
        temperature: How a mixture without weights is mixed: each folder's share is proportional to its number of media
            groups to the power of 1 / temperature. 1 mixes by size, a high value mixes evenly.
        balance: How far questions with frequent answers are reduced in training, from 0 to 1: 0 asks all questions; 1
            asks every frequent answer of a task and subtype equally often in each epoch. It applies to options and free
            words.
        augment: Random changes of training images, videos and volumes. Each is applied only for questions whose answers
            stay true according to the benchmark; an image whose questions allow different changes counts as several
            media groups. A changed volume is not taken from the cache.
        cache: Whether the prepared folder keeps each volume in the form that the model reads, to prepare it only once.
        features_gb: Memory, for each device, in which features of images are kept that frozen parts of the model made,
            so that later epochs and phases need not make them again; 0 keeps none. Changed images (`augment`) and what
            a part that learns makes are never kept.
        features_dir: A folder that keeps such features in files as well, for what the memory does not hold and for
            other runs with the same weights, pixels and type, such as those of a grid or of other seeds; None keeps
            them in memory alone.
        folds: Number of folds of a cross-validation by patient, as `--folds` sets it: `medtune run` makes a run for
            each, which learns from the others, and pools their answers. None takes the folder's own splits.
        fold: The fold that this run is asked, from 1; `medtune run` sets it.
    """

    benchmark: str
    root: Path
    workers: Annotated[int, Interval(ge=0, le=256)] = 0
    mixture: tuple[TrainFolder, ...] = ()
    allow_lookalikes: bool = False
    temperature: Positive = 1.0
    balance: Share = 0.0
    augment: tuple[Change, ...] = ()
    cache: bool = True
    features_gb: NotNegative = 2.0
    features_dir: Path | None = None
    folds: Annotated[int, Interval(ge=1, le=1000)] | None = None
    fold: Annotated[int, Interval(ge=1, le=1000)] | None = None


@dataclass(frozen=True)
class Stage:
    """One part of a training with its own optimizer, schedule and data; the next stage begins from its last weights.

    A value that a stage leaves out is taken from `train`, and its tuning from `model.tuning`.

    Attributes:
        name: Name of the stage in the log and in messages.
        max_steps: Number of optimizer steps.
        epochs: Number of passes over the stage's questions; given instead of max_steps.
        only: Restricts the stage to some questions: for each facet that is named here, a question must have one of the
            given values. Empty takes all questions.
        batch_size: Media groups per optimizer step, as in `train`.
        micro_batch_size: Media groups per forward pass of one device, as in `train`.
        micro_batch_tokens: Tokens per forward pass of one device, as in `train`.
        warmup_ratio: Share of the steps in which the learning rate rises, as in `train`.
        schedule: Form of the learning rate's curve after the warm-up, as in `train`.
        lr_floor: Share of the peak to which the learning rate falls, as in `train`.
        loss: What the stage lowers, as in `train`.
        replies: The replies that a loss over draws or pairs learns from, as in `train`.
        tuning: How each part of the model learns in this stage.
    """

    name: str
    max_steps: Count | None = None
    epochs: Epochs | None = None
    only: dict[str, tuple[str, ...]] = field(default_factory=dict)
    batch_size: Count = 8
    micro_batch_size: Count = 8
    micro_batch_tokens: Count | None = None
    warmup_ratio: PartlyShare = 0.1
    schedule: ScheduleName = "cosine"
    lr_floor: Share = 0.0
    loss: LossSettings = field(default_factory=LossSettings)
    replies: ReplySettings = field(default_factory=ReplySettings)
    tuning: Tuning = field(default_factory=Tuning)

    @property
    def steps(self) -> int:
        if self.max_steps is None:
            raise ValueError(f"the stage {self.name!r} is given in epochs; they have to be counted on the data first")
        return self.max_steps


@dataclass(frozen=True)
class TrainBlock:
    """How the model is trained.

    Attributes:
        max_steps: Number of optimizer steps; left out if `stages` have their own, and for a served model.
        epochs: Number of passes over the train split; given instead of max_steps.
        stages: Parts of the training, one after another, for instance the alignment of the projector before instruction
            tuning. Empty is one stage with the values of this block.
        group_questions: Largest number of questions in a media group; an image with more counts as several groups. None
            keeps all questions of an image together, 1 makes each question a sample of its own.
        text_only_share: Share of the media groups, from 0 to 1 and drawn with the seed, that are trained on without
            their media. A small share keeps the model able to answer from text alone; 1 trains without any.
        seed: Seed of the adapters, of the order of the data and of dropout.
        batch_size: Media groups per optimizer step, over all devices. A media group is one image, video or volume with
            all its questions, so that a step may learn many more questions than this number.
        micro_batch_size: Media groups per forward pass of one device; gradients are accumulated up to `batch_size`.
        micro_batch_tokens: Given instead of micro_batch_size: the most tokens that the rows of one forward pass
            compute, padding included. Each step's groups are then divided by length; a longer group is alone.
        loss: What the training lowers: the cross entropy of the answers, or another loss.
        replies: The replies that a loss over draws or pairs learns from.
        optimizer: adamw is AdamW; adamw_8bit keeps its moments in 8 bits (bitsandbytes).
        weight_decay: Weight decay of AdamW, applied to matrices only.
        warmup_ratio: Share of the steps in which the learning rate rises linearly to its peak.
        schedule: Form of the learning rate's curve after the warm-up: a cosine, a straight line (linear), or the peak
            all the time (constant).
        lr_floor: Share of the peak to which the learning rate falls at the end, from 0 to 1; not for a constant rate.
        ema_decay: None trains, evaluates and saves the same weights. A number between 0 and 1 keeps an exponential
            moving average, in float32, of what learns: after each step the average is multiplied by this number, and
            the rest is taken from the new weights. Validations, checkpoints and the next stage then use the average. A
            stage should have many more steps than 1 / (1 - ema_decay).
        early_stopping: Ends each stage when its validations no longer improve; None trains to the last step.
        clip_norm: Largest norm of the gradient; 0 does not clip.
        strategy: How several devices share the work; auto is ddp for several devices. fsdp (FSDP2) and
            deepspeed_stage_3 divide the weights among the devices too, so that none ever holds the whole model. An
            ending _offload keeps the optimizer in the host's memory, with deepspeed_stage_3 the weights as well.
        devices: Number of processes on each machine, each with a device of its own.
        nodes: Number of machines.
        timeout_minutes: Time after which a process that waits for the others ends with an error, above 0.
        save_every_steps: Optimizer steps between two saved states; None saves one after each validation alone.
        save_every_minutes: The same in minutes; with both, a state is saved when either is due.
        precision: Number format of training and of every evaluation. bf16-mixed computes in bfloat16 and also stores
            the parameters in it that do not learn; those that learn are float32 under every precision and strategy,
            whatever type the file has. auto is bf16-mixed if the device supports it or model.dtype is bfloat16, else
            32-true. 16-mixed computes in float16 with a scaled loss, on GPUs only.
        gradient_checkpointing: Whether layers are computed again in the backward pass: less memory, a third more time.
        deterministic: Whether a GPU adds in one order, so that a run can be repeated; without it, steps are faster.
    """

    max_steps: Count | None = None
    epochs: Epochs | None = None
    stages: tuple[Stage, ...] = ()
    group_questions: Count | None = None
    text_only_share: Share = 0.0
    seed: Annotated[int, Interval(ge=0, le=2**32 - 1)] = 0
    batch_size: Count = 8
    micro_batch_size: Count = 8
    micro_batch_tokens: Count | None = None
    loss: LossSettings = field(default_factory=LossSettings)
    replies: ReplySettings = field(default_factory=ReplySettings)
    optimizer: OptimizerName = "adamw"
    weight_decay: Annotated[float, Interval(ge=0, le=100)] = 0.01
    warmup_ratio: PartlyShare = 0.1
    schedule: ScheduleName = "cosine"
    lr_floor: Share = 0.0
    ema_decay: Annotated[float, Interval(gt=0, lt=1)] | None = None
    early_stopping: EarlyStopping | None = None
    clip_norm: NotNegative = 1.0
    strategy: StrategyName = "auto"
    devices: Annotated[int, Interval(ge=1, le=4096)] = 1
    nodes: Annotated[int, Interval(ge=1, le=65_536)] = 1
    timeout_minutes: Minutes = 60.0
    save_every_steps: Count | None = None
    save_every_minutes: Minutes | None = None
    precision: Precision = "auto"
    gradient_checkpointing: bool = False
    deterministic: bool = True

    @property
    def world_size(self) -> int:
        return self.nodes * self.devices

    @property
    def zero_stage(self) -> int:
        """The stage of DeepSpeed's ZeRO; 0 for other strategies."""
        return int(self.strategy.split("_")[2]) if self.strategy.startswith("deepspeed") else 0

    @property
    def divides_weights(self) -> bool:
        """Whether the weights are divided among the devices, so that none holds the whole model."""
        return self.strategy == "fsdp" or self.zero_stage == 3

    @property
    def offloads(self) -> bool:
        """Whether the optimizer is kept in the host's memory."""
        return self.strategy.endswith("_offload")


@dataclass(frozen=True)
class EvalBlock:
    """How the model is evaluated, in the same way before, during and after training.

    Attributes:
        split: The split that zero-shot and final results are measured on.
        readings: How an answer to a multiple-choice question is read: from the log-likelihood of each option, or from a
            generated reply that is parsed. The first is the primary one, which `overall` in results.json and the best
            checkpoint use, and the only one under other conditions than "image". None follows the questions: both, the
            likelihood first, if any question of the split has options, else generation alone, as for a served model.
            Questions without options are always answered by a generated reply.
        conditions: The conditions under which the final model, and the model of `medtune eval`, is asked: each says
            what is shown with the question. "image" has to be among them.
        conditions_at: The phases of `medtune run` that ask under all of them; the others ask only under "image".
        parser: The parser of the primary reading; None is "likelihood", or the benchmark's first parser of replies.
        only: Restricts what results are measured on to some questions of the split: for each facet that is named here,
            a question must have one of the values.
        questions: Number of questions of the split, drawn with the seed as whole media groups; None asks all.
        every_steps: Optimizer steps between two evaluations during training.
        val_questions: Number of questions in each evaluation during training; they are always the same ones.
        batch_tokens: Largest number of tokens that a pass computes; a long shared beginning may bring more
            (docs/training.md).
        batch_size: Media groups that are answered together; fewer where their prompts exceed `batch_tokens`.
        max_new_tokens: Largest number of tokens in a reply.
        temperature: Temperature at which a model in this process draws its replies, which are the same for the same
            train.seed; 0 is greedy. A served model has model.endpoint.temperature instead.
        repeats: How often each reply is drawn; greedy replies do not differ. Scores are the mean over the repeats.
        condition_repeats: How often the replies under single conditions are drawn, if not as often as `repeats` says.
            The replies under "image", with which they are compared, are drawn as often as the most frequent of them;
            those with and without the anatomy as often as each other.
        bertscore: The text model of BERTScore, as NAME, NAME:LAYER or FOLDER:LAYER; None leaves it out.
        bertscore_at: The evaluations with a BERTScore: zero_shot, val (each validation, on `val_questions`), final.
        judge: The judge of free answers, with its cap on costs; None leaves it to `medtune judge`.
        judge_at: The evaluations whose free answers are judged, in the same way.
        protocol: recipe uses the values of this block; published uses the temperature, repeats and max_new_tokens that
            the authors of the benchmark state.
    """

    split: Split = "test"
    readings: tuple[Reading, ...] | None = None
    conditions: tuple[Condition, ...] = ("image", "text_only")
    conditions_at: tuple[Literal["zero_shot", "final"], ...] = ("final",)
    parser: str | None = None
    only: dict[str, tuple[str, ...]] = field(default_factory=dict)
    questions: Count | None = None
    every_steps: Count = 20
    val_questions: Count = 100
    batch_tokens: Annotated[int, Interval(ge=1, le=2**20)] = 4096
    batch_size: Count = 8
    max_new_tokens: Annotated[int, Interval(ge=1, le=1_000_000)] = 16
    temperature: Annotated[float, Interval(ge=0, le=100)] = 0.0
    repeats: Draws = 1
    condition_repeats: dict[Condition, Draws] = field(default_factory=dict)
    bertscore: str | None = None
    bertscore_at: Evaluations = ("zero_shot", "final")
    judge: JudgeSettings | None = None
    judge_at: Evaluations = ("zero_shot", "final")
    protocol: Literal["recipe", "published"] = "recipe"

    @property
    def known_readings(self) -> tuple[Reading, ...]:
        """The readings; if the recipe names none, those of questions with options, until its data are opened."""
        return READINGS if self.readings is None else self.readings

    def asked_at(self, phase: Literal["zero_shot", "final"]) -> tuple[Condition, ...]:
        return self.conditions if phase in self.conditions_at else ("image",)

    def draws(self, conditions: Sequence[Condition]) -> dict[Condition, int]:
        """Returns how often a reply is drawn under each condition; those that are compared equally often.

        "image" is compared with every other, and "with_anatomy" with "without_anatomy".
        """
        found = {condition: self.condition_repeats.get(condition, self.repeats) for condition in conditions}
        about_anatomy = [condition for condition in ANATOMY_NAMED if condition in found]
        found |= dict.fromkeys(about_anatomy, max((found[each] for each in about_anatomy), default=0))
        return {**found, "image": max(found.values(), default=self.repeats)}


@dataclass(frozen=True)
class LogBlock:
    """The settings of logging; metrics.csv is always written.

    Attributes:
        wandb: Whether W&B is used; auto is online if a key is set, and offline otherwise.
        to: Dashboards that get the same curves, beside W&B, whose field is `wandb`: tensorboard writes into the run's
            folder, mlflow to the server that MLFLOW_TRACKING_URI names, or else into the run's folder.
        project: Name of the project on W&B.
        every_steps: Optimizer steps between two points of the loss curve.
        images: Whether pictures and free texts of single cases are sent to W&B; auto sends only those of simulated
            data.
        facets: Facets of your own data, by whose values scores may be sent to W&B, such as [ward, scanner]. Others stay
            here, because a column of a table may name persons; those of simulated data and the terms of published
            benchmarks are sent.
    """

    wandb: Literal["auto", "online", "offline", "disabled"] = "auto"
    to: tuple[Board, ...] = ()
    project: Annotated[str, PROJECT] = "medtune"
    every_steps: Count = 1
    images: Literal["auto", "always", "never"] = "auto"
    facets: tuple[str, ...] = ()


@dataclass(frozen=True)
class Recipe:
    """A recipe: one experiment, with all its settings.

    Attributes:
        model: Which model is used, how its weights are read, and how it learns.
        data: The questions that the model is trained on, and those that it is evaluated on.
        train: How the model is trained.
        eval: How the model is evaluated.
        log: What is logged, and whether it is sent to W&B.
        grid: For each full key, the values that it takes in turn, as text. `medtune run` makes one run for every
            combination, and a table of all runs. None makes a single run.
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
        """The stages of the training; a recipe without stages has one, named "training"."""
        train = self.train
        shared = {key: getattr(train, key) for key in STAGE_KEYS}
        return train.stages or (Stage("training", train.max_steps, train.epochs, tuning=self.model.tuning, **shared),)

    @property
    def total_steps(self) -> int:
        """The number of optimizer steps of all stages together."""
        return sum(stage.steps for stage in self.stages)
