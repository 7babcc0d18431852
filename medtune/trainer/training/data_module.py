"""The Lightning data module: micro-batches of media groups to learn from, and questions to validate and test with."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any, NamedTuple, get_args

import lightning.pytorch as pl
from torch.utils.data import DataLoader

from medtune.data.prepared.read import open_prepared
from medtune.data.types import Reading, Split
from medtune.models.media_reader import MediaReader
from medtune.trainer.devices.strategies import divides_weights
from medtune.trainer.experiment.judging import SPENDING, opened_judge
from medtune.trainer.experiment.open_data import OpenedData, open_data
from medtune.trainer.experiment.prepared_data import groups_of
from medtune.trainer.losses import steps_per_draw
from medtune.trainer.recipe.check import check_recipe, primary_parser
from medtune.trainer.recipe.judge import worded
from medtune.trainer.recipe.read import read_recipe
from medtune.trainer.recipe.schema import DataBlock, EvalBlock, Recipe, Stage, TrainBlock
from medtune.trainer.replies.check import rewards_of
from medtune.trainer.replies.judged import DrawJudge
from medtune.trainer.replies.prompts import PromptMaker, paired, pairs_of
from medtune.trainer.training.batches import learns_from_media_alone, loader, micro_batches, stage_order
from medtune.trainer.training.budget import GroupOrder
from medtune.trainer.training.lightning_module import FineTuning
from medtune.trainer.training.mixture import Mixture, stage_mixture
from medtune.trainer.training.sampling import ResumableOrder, StepOrder
from medtune.trainer.training.validation.asked import (
    AskedLoader,
    EvaluatedSplit,
    InOrder,
    VisitBatch,
    VisitBatches,
    asked,
)


class QuestionData(pl.LightningDataModule):
    """The questions of a prepared folder for a Lightning trainer.

    Training goes through the train split, `validate` asks the questions of the split val, and `test` and `predict`
    those of the split that the recipe evaluates on. Each rank gets a share of its own, whatever the number of ranks.

    Args:
        module: The module that is trained with them, whose model says how questions become tokens.
        stage: Which questions are learnt, and the number of groups of a step. With `max_steps`, all steps together are
            one epoch, and accumulation has to follow from the stage. Without, an epoch is one pass over the train
            split, and the trainer says how many forward passes are accumulated.
        limit: About how many questions of each split are used; None uses all.
        spending: The file that counts what a judge of draws costs; None takes one in the trainer's default folder.

    Attributes:
        batch_size: Media groups in a forward pass of one device, which Lightning's Tuner may change.
    """

    def __init__(
        self,
        opened: OpenedData,
        module: FineTuning,
        stage: Stage,
        *,
        limit: int | None = None,
        spending: Path | None = None,
    ) -> None:
        super().__init__()
        self.batch_size = stage.micro_batch_size
        self._opened = opened
        self._module = module
        self._stage = stage
        self._limit = limit
        self._spending = spending
        self._orders: dict[int, GroupOrder] = {}

    @classmethod
    def of_recipe(cls, name: str, overrides: Sequence[str] = (), *, model: FineTuning) -> QuestionData:
        """Returns the data of a recipe; the trainer counts epochs and accumulates gradients.

        Args:
            overrides: Changes of it, for instance "data.root=prepared/busi".
        """
        return cls._of(read_recipe(name, overrides), model)

    @classmethod
    def of_folder(
        cls,
        folder: str | Path,
        *,
        model: FineTuning,
        batch_size: int = 8,
        workers: int = 0,
        seed: int = 0,
        readings: Sequence[Reading] | None = None,
        val_questions: int | None = None,
    ) -> QuestionData:
        """Returns the data of a prepared folder.

        Args:
            folder: The folder that `medtune prepare` wrote.
            batch_size: Media groups in a forward pass of one device.
            seed: Seed of the order of the groups, and of the choice of validation questions.
            readings: How questions with options are answered; free answers are generated. None compares the
                likelihoods of the options, which is fast.
            val_questions: Number of questions that validations ask; None asks all of the split val.
        """
        if readings is not None and not set(readings) <= set(get_args(Reading)):
            raise ValueError(f"readings is {readings!r}; it must hold 'likelihood', 'generation' or both")
        root = Path(folder)
        prepared = open_prepared(root)
        most = max(prepared.num_questions("val"), 1) if val_questions is None else val_questions
        has_options = any(question.options for question in prepared.questions("test"))
        usual: tuple[Reading, ...] = ("likelihood",) if has_options else ("generation",)
        train = TrainBlock(max_steps=1, batch_size=batch_size, micro_batch_size=batch_size, seed=seed)
        data = DataBlock(benchmark=prepared.manifest.benchmark, root=root, workers=workers)
        evaluation = EvalBlock(readings=usual if readings is None else tuple(readings), val_questions=most)
        recipe = Recipe(model.chosen, data, train, evaluation)
        check_recipe(recipe)
        return cls._of(recipe, model)

    @classmethod
    def _of(cls, recipe: Recipe, model: FineTuning) -> QuestionData:
        stage = replace(recipe.stages[0], max_steps=None, epochs=None)
        if stage.micro_batch_tokens is not None:
            raise ValueError(
                f"train.micro_batch_tokens is {stage.micro_batch_tokens}; a Trainer of your own says itself how many "
                "forward passes it accumulates: leave it out, and give train.micro_batch_size"
            )
        return cls(open_data(recipe, training=True), model, stage)

    def train_dataloader(self) -> DataLoader[Any]:
        """Returns the loader of this rank's micro-batches; it continues at the trainer's step."""
        trainer, recipe = self._its_trainer(), self._opened.recipe
        if getattr(trainer, "overfit_batches", 0):
            raise ValueError("Trainer(overfit_batches=...) reads batches by number: take limit_train_batches instead")
        plan = self._plan()
        # Where weights are divided, a step follows from what a pass runs.
        both_kinds = learns_from_media_alone(self._stage) or divides_weights(trainer.strategy)
        self._module.model.kept.begin_training(comes_again=self._comes_again(plan))
        make = None
        if self._module.replies is not None:
            make = PromptMaker(self._stage)
            self._module.replies.rewards = rewards_of(self._stage, self._opened.training_sets)
            self._module.replies.judge = self._judge()
        batches = micro_batches(
            self._mixture,
            plan.order,
            self._module.assembled,
            rank=trainer.global_rank,
            both_kinds=both_kinds,
            make=make,
        )
        sampler = ResumableOrder(
            epoch_steps=plan.epoch_steps,
            length=plan.length,
            accumulate=trainer.accumulate_grad_batches,
            start_step=lambda: trainer.global_step,
        )
        return loader(batches, sampler, workers=recipe.data.workers)

    def _judge(self) -> DrawJudge | None:
        settings = self._opened.recipe.eval.judge
        if not self._stage.replies.judge or settings is None:
            return None
        needed = [each.benchmark.judging for each in self._opened.training_sets]
        tasks = [None if task is None or task.is_extra else worded(task, settings) for task in needed]
        ledger = self._spending or Path(self._its_trainer().default_root_dir) / SPENDING
        return DrawJudge(partial(opened_judge, settings, ledger, says_rounds=False), tasks)

    def order(self, world_size: int) -> GroupOrder:
        """Returns the order of the groups in a stage with `max_steps`; a budget's tokens are counted once."""
        if world_size not in self._orders:
            mixture, assembled = self._mixture, self._module.assembled
            self._orders[world_size] = stage_order(
                mixture, self._stage, assembled, world_size=world_size, repeated=steps_per_draw(self._stage)
            )
        return self._orders[world_size]

    def num_steps(self) -> float:
        """Returns the number of optimizer steps that the trainer will make; infinity if nothing says."""
        trainer = self._its_trainer()
        epochs = math.inf if trainer.max_epochs in (None, -1) else trainer.max_epochs * self._plan().epoch_steps
        return min(epochs, math.inf if trainer.max_steps == -1 else trainer.max_steps)

    def _comes_again(self, plan: _TrainPlan) -> bool:
        """Returns whether training, or another run, shows the same pixels again, so that keeping features may pay."""
        mixture = self._mixture
        if mixture.augment:
            return False
        drawn = self.num_steps() * len(plan.order.step_groups(0))
        is_split = self._opened.recipe.train.group_questions is not None
        outlives = self._opened.recipe.data.features_dir is not None
        return is_split or outlives or drawn > sum(len(member.groups) for member in mixture.members)

    @cached_property
    def _mixture(self) -> Mixture:
        pairs = pairs_of(self._stage)
        return stage_mixture(
            self._opened.recipe,
            self._stage,
            self._opened.training_sets,
            limit=self._limit,
            keep=lambda groups: paired(groups, pairs),
        )

    def _plan(self) -> _TrainPlan:
        trainer, mixture = self._its_trainer(), self._mixture
        if self._stage.max_steps is not None:
            order = self.order(trainer.world_size)
            return _TrainPlan(order, self._stage.steps, self._stage.steps * order.accumulate)
        at_once, accumulate = self.batch_size * trainer.world_size, trainer.accumulate_grad_batches
        groups = sum(len(member.epochs.groups_in(0)) for member in mixture.members)
        length = math.ceil(groups / (at_once * accumulate)) * accumulate
        wanted = trainer.limit_train_batches
        passes = min(length, wanted) if isinstance(wanted, int) else int(length * wanted)
        order = StepOrder(
            row=mixture.row(),
            batch_size=at_once * accumulate,
            micro_batch_size=self.batch_size,
            world_size=trainer.world_size,
            epoch_groups=max(min(groups, passes * at_once), 1),
        )
        return _TrainPlan(order, max(math.ceil(passes / accumulate), 1), length)

    def val_dataloader(self) -> DataLoader[VisitBatch]:
        return self._loader(self.validation)

    def test_dataloader(self) -> DataLoader[VisitBatch]:
        return self._loader(self._evaluated_split(self._opened.recipe.eval.split, self._opened.recipe.eval.questions))

    def predict_dataloader(self) -> DataLoader[VisitBatch]:
        return self.test_dataloader()

    @cached_property
    def validation(self) -> EvaluatedSplit:
        """The questions that each validation asks, the same on all ranks."""
        return self._evaluated_split("val", self._opened.recipe.eval.val_questions)

    def _evaluated_split(self, split: Split, questions: int | None) -> EvaluatedSplit:
        recipe, benchmark = self._opened.recipe, self._opened.benchmark
        most = min((number for number in (questions, self._limit) if number is not None), default=None)
        return asked(
            groups_of(self._opened.prepared, split, questions=most, seed=recipe.train.seed),
            benchmark,
            answer_format=recipe.model.answer_format,
            readings=recipe.eval.known_readings,
            parser=primary_parser(recipe, benchmark),
            seed=recipe.train.seed,
        )

    def _loader(self, questions: EvaluatedSplit) -> DataLoader[VisitBatch]:
        trainer, size = self._its_trainer(), self._module.answers.batch_size
        transform, workers = self._module.assembled.transform, self._opened.recipe.data.workers
        batches = VisitBatches(
            questions,
            batch_size=size,
            rank=trainer.global_rank,
            world_size=trainer.world_size,
            reader=lambda: MediaReader(transform, workers=workers),
        )
        return AskedLoader(batches, batch_size=None, sampler=InOrder(len(batches)))

    def _its_trainer(self) -> pl.Trainer:
        if self.trainer is None:
            raise ValueError("the data are divided among a trainer's ranks: give them to Trainer.fit, validate or test")
        return self.trainer


class _TrainPlan(NamedTuple):
    order: GroupOrder
    epoch_steps: int
    length: int
