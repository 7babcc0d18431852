"""Trains twins for a few steps under a strategy, on one process or as one of several ranks, and returns the course."""

import weakref
from collections.abc import Sequence
from typing import Any, NamedTuple

import lightning.pytorch as pl
import numpy as np
import torch
import torch.distributed as dist
from numpy.typing import NDArray
from torch.utils.data import DataLoader, Dataset

from medtune.models.assemble import zoo_entry
from medtune.models.contract import Assembled
from medtune.models.sharding.unread import leaving_weights_unread
from medtune.models.tuning.apply import adapt, set_learning
from medtune.models.tuning.plan import Lora, PartTuning, Precision, Tuning
from medtune.models.weights.checkpoint import trainable_names
from medtune.models.weights.loading_options import DEFAULT, Loading
from medtune.trainer.devices.ranks import join_ranks
from medtune.trainer.devices.strategies import build_strategy, check_freed, end_engine
from medtune.trainer.recipe.schema import EvalBlock, ModelBlock, Stage, StrategyName, TrainBlock
from medtune.trainer.training.batches import MicroBatch
from medtune.trainer.training.checkpoints import gathered
from medtune.trainer.training.lightning_module import FineTuning
from tests.models.twins import layout, row_each, shown

CPU = torch.device("cpu")
ADAPTED = PartTuning("lora", lr=1e-2, lora=Lora(r=4, alpha=8.0))
LORA = Tuning(PartTuning("frozen"), PartTuning("full", lr=1e-3), ADAPTED)
FULL = Tuning(*(PartTuning("full", lr=1e-3),) * 3)
GROUPS, CLIP = 4, 0.5


class Course(NamedTuple):
    """What a training did: the loss and the gradient's norm of each step, the weights that learnt, and whether the
    model was freed afterwards."""

    losses: list[float]
    norms: list[float]
    learnt: dict[str, NDArray[np.float32]]
    is_freed: bool


class Case(NamedTuple):
    """What is trained: a model, how its parts learn, and how."""

    name: str
    tuning: Tuning
    precision: Precision = "32-true"
    loading: Loading = DEFAULT

    @property
    def twin(self) -> str:
        """The twin that reads the same media."""
        return {"pocket": "nano_pocket", "auto": "nano_qwen3vl"}.get(self.name, self.name)


def trained(case: Case, strategy: StrategyName = "auto", steps: int = 3) -> Course:
    """Returns the course of a training of four groups a step, two at a time under two ranks, one at a time alone."""
    name, tuning, precision, loading = case
    world_size, rank = (dist.get_world_size(), dist.get_rank()) if dist.is_initialized() else (1, 0)
    divides = strategy in ("fsdp", "deepspeed_stage_3", "deepspeed_stage_3_offload")
    with leaving_weights_unread(divides):
        assembled = zoo_entry(name, loading.weights).assemble(0, loading)
        adapt(assembled.model, [tuning], seed=0)
    set_learning(assembled.model, tuning)
    names = trainable_names(assembled.model)
    module = FineTuning(
        assembled,
        Stage(name="test", max_steps=steps, warmup_ratio=0.0, tuning=tuning),
        train=TrainBlock(clip_norm=CLIP),
        answers=EvalBlock(),
        chosen=ModelBlock(name="test"),
    )
    accumulate = GROUPS // world_size
    watch = _Watch()
    assert precision != "auto"
    trainer = pl.Trainer(
        accelerator="cpu",
        strategy=build_strategy(strategy, world_size=world_size, device=CPU, precision=precision),
        devices=world_size,
        precision=precision,
        max_steps=steps,
        max_epochs=-1,
        accumulate_grad_batches=accumulate,
        gradient_clip_val=CLIP if strategy.startswith("deepspeed") else None,
        use_distributed_sampler=False,
        logger=False,
        enable_checkpointing=False,
        enable_model_summary=False,
        enable_progress_bar=False,
        callbacks=[watch],
    )
    assembled.model.train()
    batches = Batches(assembled, case.twin, in_a_step=GROUPS, first=rank, apart=world_size, count=steps * accumulate)
    trainer.fit(module, DataLoader(batches, batch_size=None))
    learnt = {each: tensor.numpy() for each, tensor in gathered(assembled.model, names).items()}
    end_engine(trainer.strategy)
    model = weakref.ref(assembled.model)
    losses, norms = watch.losses, watch.norms
    # Lightning gives each callback the module's method `log`.
    del assembled, module, trainer, batches, watch
    return Course(losses, norms, learnt, check_freed(model, what=name))


def trained_in_rank(rank: int, world_size: int, cases: Sequence[Case], strategy: StrategyName) -> list[Course]:
    """Returns the courses of one of several ranks, which train one model after another."""
    join_ranks(world_size, CPU)
    return [trained(case, strategy) for case in cases]


class _Watch(pl.Callback):
    def __init__(self) -> None:
        self.losses: list[float] = []
        self.norms: list[float] = []

    def on_train_batch_end(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        assert isinstance(pl_module, FineTuning)
        if (batch_idx + 1) % trainer.accumulate_grad_batches == 0:
            self.losses.append(pl_module.step_loss())
            self.norms.append(pl_module.take_gradient_norm())


class Batches(Dataset[MicroBatch]):
    """The forward passes of one rank, with one group each."""

    def __init__(self, assembled: Assembled, name: str, *, in_a_step: int, first: int, apart: int, count: int) -> None:
        self._groups = [_group(assembled, name, seed, in_a_step) for seed in range(4)]
        self._first, self._apart, self._count = first, apart, count

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, number: int) -> MicroBatch:
        group = (self._first + number * self._apart) % len(self._groups)
        # Dropout is seeded with the number of the pass and the rank; the number of the group alone makes it the same
        # on one device and two.
        return self._groups[group]._replace(number=number)


def _group(assembled: Assembled, name: str, seed: int, in_a_step: int) -> MicroBatch:
    rows = row_each(assembled, [layout(assembled, name, answer) for answer in ("head", "arm")], [0, 0])
    return MicroBatch(
        number=0,
        rows=rows,
        media=shown(assembled, name, seed),
        step_target_tokens=in_a_step * len(rows.target_id_T),
        step_replies=2 * in_a_step,
        num_replies=2,
        num_counted=2,
        num_shown=1,
        question_ids=("a", "b"),
    )
