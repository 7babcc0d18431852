"""Opens a recipe, or a run that was started before, as an `Experiment`: all is read, resolved and checked once."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

import lightning.pytorch as pl
import torch

from medtune.data.prepared.read import Prepared
from medtune.eval.benchmark import Benchmark
from medtune.eval.data_label import DataLabel, label_of, unofficial_sets
from medtune.eval.learnt import NOTHING, Learnt, learnt_before, learnt_from, seen_before
from medtune.eval.scoring.baselines import TrainSplit
from medtune.models.features.kept_features import KeptFeatures
from medtune.models.tuning.quantize import resolved
from medtune.models.weights.checkpoint import read_about
from medtune.models.weights.export import is_exported, read_exported
from medtune.models.weights.write_adapter import read_about_adapter
from medtune.trainer.devices.ranks import device_of_rank
from medtune.trainer.experiment.begin import begin_or_resume
from medtune.trainer.experiment.open_data import open_data
from medtune.trainer.experiment.prepared_data import tested
from medtune.trainer.experiment.runnable import feature_files, refuse_long_questions, refuse_unfit
from medtune.trainer.launch.rank import join, see_folder
from medtune.trainer.launch.started import ALONE, Started
from medtune.trainer.plan.devices import GB
from medtune.trainer.recipe.check import primary_parser, set_by_protocol
from medtune.trainer.recipe.judge import check_can_judge
from medtune.trainer.recipe.schema import SERVED, ModelBlock, Recipe
from medtune.trainer.replies.check import replies_said
from medtune.trainer.runs.finished_run import answered_of
from medtune.trainer.runs.run_folder import RunFolder
from medtune.trainer.seen import ASKED, asked_hash, data_facts
from medtune.trainer.time_left import TimeLeft
from medtune.trainer.training.dashboard.further_loggers import refuse_missing_boards
from medtune.trainer.training.dashboard.wandb_reach import Mode, wandb_mode
from medtune.trainer.training.mixture import TrainingSet, described, stage_mixture
from medtune.trainer.training.stages import with_counted_epochs


def facts_before(model: ModelBlock) -> Iterator[Mapping[str, str]]:
    """Yields the facts of the recipe's exported weights, of its adapter and of its checkpoint, where there are such."""
    if model.weights is not None and is_exported(model.weights):
        yield read_exported(model.weights)
    if model.adapter is not None:
        from medtune.models.weights.read_adapter import adapter_folder

        yield read_about_adapter(adapter_folder(model.adapter))
    if model.checkpoint is not None:
        yield read_about(model.checkpoint)


def learnt_in_all(recipe: Recipe, training_sets: Sequence[TrainingSet], *, limit: int | None) -> Learnt:
    """Returns what a model has learnt from once the recipe's training has ended, earlier trainings included."""
    mixtures = [stage_mixture(recipe, stage, training_sets, limit=limit) for stage in recipe.stages]
    groups = (group for mixture in mixtures for member in mixture.members for group in member.groups)
    # Files of two folders have one name only if they are the same.
    contents = {name: shown for each in training_sets for name, shown in each.prepared.contents.items()}
    looks = {name: look for each in training_sets for name, look in each.prepared.looks.items()}
    now = learnt_from(groups, contents, looks)
    return now.joined([learnt_before(facts_before(recipe.model))])


@dataclass(frozen=True)
class Experiment:
    """A recipe opened with its data and benchmark: what every phase and every stage of a run works on."""

    name: str
    # The recipe with everything resolved: precision, published protocol, and lengths in optimizer steps.
    recipe: Recipe
    prepared: Prepared
    benchmark: Benchmark  # The benchmark with the prompts that the folder was prepared with.
    label: DataLabel  # The label that every output carries about its data.
    folder: RunFolder
    device: torch.device
    started: Started = ALONE  # The place of this process among those of the run.
    # The prepared folders that the model is trained on; empty if nothing is trained.
    training_sets: Sequence[TrainingSet] = ()
    limit: int | None = None  # About how many questions of each split are used; None uses all.
    trained_on: str = ""  # A description of the training sets in words; "" if nothing is trained.
    # The patients and media that the model has learnt from once the training has ended, earlier trainings of its
    # weights included; nothing if nothing is trained.
    learnt: Learnt = NOTHING
    wandb: Mode = "disabled"  # How the run uses W&B, as was found out before it began.
    # The folder of volumes in the form that the model reads; None is the prepared folder's own.
    volume_cache: Path | None = None
    left: TimeLeft = field(default_factory=TimeLeft, compare=False)  # How long the run still takes.

    @property
    def rank(self) -> int:
        """The number of this process among those of the run, from 0."""
        return self.started.rank

    @property
    def world_size(self) -> int:
        return self.started.world_size

    @property
    def about(self) -> dict[str, str]:
        """The facts that the run records about itself in environment.json, results.json and every checkpoint."""
        trained_on = {"trained_on": self.trained_on} if self.trained_on else {}
        return {"recipe": self.name, "data_hash": self.prepared.data_hash, **self.label.facts(), **trained_on}

    @property
    def primary_parser(self) -> str:
        """The name of the parser whose readings give the score `overall`."""
        return primary_parser(self.recipe, self.benchmark)

    @cached_property
    def train_split(self) -> TrainSplit:
        """The train split of the folder that is evaluated on, which the majority and prior baselines learn from."""
        return TrainSplit(lambda: self.prepared.each_question("train"))

    @cached_property
    def features(self) -> KeptFeatures:
        """The features that the towers of this run's models computed, which they share."""
        return KeptFeatures(self.recipe.data.features_gb * GB, feature_files(self.recipe))

    def say(self, text: str) -> None:
        if self.rank == 0:
            print(text, flush=True)


def open_experiment(
    recipe: Recipe,
    folder: RunFolder,
    *,
    name: str,
    training: bool,
    resume: bool,
    limit: int | None,
    command: Sequence[str],
    accept_changed_data: bool = False,
) -> Experiment:
    """Opens a recipe to train or evaluate with, on every process of the run, and begins or resumes its run folder.

    Args:
        limit: About how many questions of each split are used; None uses all.
    """
    if training and recipe.model.endpoint is not None:
        raise ValueError(
            f"model.name {SERVED!r}: a model behind an endpoint cannot be trained, its weights are not here; "
            f"`medtune eval {name}` evaluates it"
        )
    started, device = join(recipe.train)
    asked_as = asked_hash(recipe)
    written = replace(recipe, train=replace(recipe.train, precision=resolved(recipe.train.precision, device)))
    pl.seed_everything(recipe.train.seed, workers=True, verbose=False)
    experiment = _opened(written, folder, name=name, training=training, limit=limit, device=device, started=started)
    recipe, prepared, training_sets = experiment.recipe, experiment.prepared, experiment.training_sets
    said: list[str] = []
    if experiment.rank == 0:
        refuse_unfit(recipe, training=training)
        replies = replies_said(recipe, training_sets, limit=limit) if training else []
        if not resume:
            refuse_long_questions(recipe, prepared, experiment.benchmark, training_sets, limit=limit)
        refuse_missing_boards(recipe.log)
        experiment = replace(experiment, wandb=wandb_mode(recipe.log))
        data_before = folder.data_before() if resume else {}
        aside = begin_or_resume(
            folder,
            recipe,
            limit=limit,
            resume=resume,
            command=command,
            about={ASKED: asked_as, **experiment.about},
            data=data_facts(prepared, [each.prepared for each in training_sets], before=data_before),
            accept_changed_data=accept_changed_data,
            asked=tested(recipe, prepared, limit=limit) if accept_changed_data else (),
            contents=prepared.contents,
        )
        said = [*aside, *replies]
    see_folder(folder)
    experiment = _as_recorded(experiment)
    for line in (f"run folder: {folder.root}", *said, set_by_protocol(written, recipe), *_about_data(experiment)):
        if line:
            experiment.say(line)
    return experiment


def _opened(
    recipe: Recipe,
    folder: RunFolder,
    *,
    name: str,
    training: bool,
    limit: int | None,
    device: torch.device,
    started: Started,
) -> Experiment:
    """Returns the experiment of a recipe whose data are read and checked; its folder is not looked at."""
    recipe, prepared, benchmark, training_sets = open_data(recipe, training=training, limit=limit)
    if recipe.eval.judge is not None:
        check_can_judge(recipe.eval.judge, benchmark)
    trained_on = ""
    if training:
        recipe = with_counted_epochs(recipe, [each.prepared for each in training_sets], limit=limit)
        trained_on = described(recipe, stage_mixture(recipe, recipe.stages[0], training_sets, limit=limit))
    seen = seen_before(list(facts_before(recipe.model)), tested(recipe, prepared, limit=limit), prepared)
    manifests = [each.prepared.manifest for each in training_sets]
    label = label_of(
        prepared.manifest,
        prompts=benchmark.wording,
        unofficial_training=unofficial_sets(manifests, before=[seen.unofficial]),
        learnt_lookalikes="; ".join(filter(None, [*(each.lookalikes for each in training_sets), seen.alike])),
        seen_in_training=seen.again,
    )
    return Experiment(
        name=name,
        recipe=recipe,
        prepared=prepared,
        benchmark=benchmark,
        label=label,
        training_sets=training_sets,
        folder=folder,
        device=device,
        started=started,
        limit=limit,
        trained_on=trained_on,
        learnt=learnt_in_all(recipe, training_sets, limit=limit) if training else NOTHING,
    )


def _as_recorded(experiment: Experiment) -> Experiment:
    """Returns the experiment with what its folder records: what was learnt and seen before the data changed."""
    recorded, learnt = experiment.folder.recorded_label(), experiment.learnt
    label = replace(experiment.label, seen_in_training=recorded.seen_in_training, changed_data=recorded.changed_data)
    if experiment.training_sets:
        learnt = learnt.joined([experiment.folder.read_learnt()])
    return replace(experiment, learnt=learnt, label=label)


def _about_data(experiment: Experiment) -> Iterator[str]:
    label = experiment.label
    for line in (*experiment.prepared.manifest.lookalikes.lines(), *filter(None, [label.learnt_lookalikes])):
        yield f"look-alikes: {line}"
    if label.seen_in_training:
        yield f"trained on before: {label.seen_in_training}"
    if label.changed_data:
        yield f"the data changed: {label.changed_data}"


def open_run(root: Path, *, questions: Path | None = None) -> Experiment:
    """Opens a run that was started before, in this process only and without its training sets.

    Args:
        questions: The prepared folder of the run, if it has been moved from `data.root`; with None it is looked for.
    """
    folder = RunFolder(root)
    recipe, recorded = folder.read_recipe(), folder.recorded()
    data_root = folder.needed_data(recipe.data.root, questions=questions)
    recipe, prepared, benchmark, _ = open_data(
        replace(recipe, data=replace(recipe.data, root=data_root)), training=False
    )
    folder.refuse_other_data(prepared.root, data_facts(prepared, (), before=folder.data_before()))
    asked = prepared.questions(recipe.eval.split)
    benchmark = benchmark.for_part(asked, drawn=answered_of(folder, asked))
    return Experiment(
        name=str(recorded["recipe"]),
        recipe=recipe,
        prepared=prepared,
        benchmark=benchmark,
        folder=folder,
        device=device_of_rank(0),
        label=label_of(prepared.manifest, prompts=benchmark.wording, **folder.recorded_label().of_training),
        trained_on=str(recorded.get("trained_on", "")),
    )
