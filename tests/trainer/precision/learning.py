"""Trains twins with weights from files in 16 bits, on one process or several, and returns what they learnt."""

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import lightning.pytorch as pl
import torch
import torch.distributed as dist
from safetensors.torch import load_file, save_file
from torch import Tensor
from torch.utils.data import DataLoader

from medtune.models.assemble import zoo_entry
from medtune.models.contract import Assembled, Model
from medtune.models.tuning.apply import adapt, set_learning
from medtune.models.tuning.plan import Lora, PartTuning, Precision, Tuning
from medtune.models.tuning.quantize import set_types
from medtune.models.weights.checkpoint import trainable_names
from medtune.models.weights.loading_options import DtypeName, Loading
from medtune.trainer.devices.ranks import join_ranks
from medtune.trainer.devices.strategies import build_strategy
from medtune.trainer.recipe.schema import EvalBlock, ModelBlock, Stage, StrategyName, TrainBlock
from medtune.trainer.training.checkpoints import gathered
from medtune.trainer.training.lightning_module import FineTuning
from tests.models.twins import OF_TRANSFORMERS
from tests.ranks import run_ranks
from tests.trainer.devices.divided import Batches

STEPS, LR, GROUPS = 50, 1e-5, 2
CPU = torch.device("cpu")
TUNING = Tuning(PartTuning("frozen"), PartTuning("full", lr=LR), PartTuning("lora", lr=LR, lora=Lora(r=4, alpha=8.0)))
Update = dict[str, Tensor]


class Case(NamedTuple):
    """What is trained: a twin, the type of the values in its file, and the type in which the file holds them."""

    name: str  # Name of the twin.
    values: torch.dtype  # The 16-bit type that the values were rounded to.
    stored: torch.dtype  # The type of the file, `values` or float32; the values are the same.

    @property
    def file(self) -> str:
        """The name of the file with the update."""
        return f"{self.name}.{str(self.values)[6:]}.{str(self.stored)[6:]}.safetensors"


def from_file(case: Case) -> Assembled:
    """Returns the twin with the weights of a file in the type `stored`, whose values are exact in `values`."""
    if case.name not in OF_TRANSFORMERS:
        assembled = zoo_entry(case.name).assemble(0)
        _round(assembled.model, case)
        return assembled
    with tempfile.TemporaryDirectory() as folder:
        write_checkpoint(case, Path(folder))
        dtype: DtypeName = "bfloat16" if case.stored == torch.bfloat16 else "float32"
        return zoo_entry(case.name).assemble(0, Loading(weights=folder, dtype=dtype))


def write_checkpoint(case: Case, folder: Path) -> None:
    """Writes the twin of a model of transformers as a checkpoint in the type `stored`."""
    assembled = zoo_entry(case.name).assemble(0)
    _round(assembled.model, case)
    whole: Any = assembled.model.of_transformers
    whole.should_save_on_this_rank = lambda is_main_process: True
    whole.config.dtype = case.stored
    assembled.model.save(folder)
    processor: Any = assembled.transform
    processor.processor.save_pretrained(folder)
    assembled.template.save(folder)


def _round(model: Model, case: Case) -> None:
    """Gives the model the tensors of such a file, as released 3D models take them over."""
    rounded = {
        name: (t.to(case.values).to(case.stored) if t.is_floating_point() else t).clone()
        for name, t in model.state_dict().items()
    }
    model.load_state_dict(rounded, assign=True)


def learnt(
    case: Case,
    *,
    strategy: StrategyName = "auto",
    precision: Precision = "bf16-mixed",
    narrow_masters: torch.dtype | None = None,
    steps: int = STEPS,
) -> Update:
    """Returns by how much each weight that learns has changed after some steps of two groups.

    Args:
        case: What is trained.
        strategy: How the ranks share the work; each takes one group, and one process alone takes both in turn.
        precision: The precision.
        narrow_masters: A type that what learns is converted to, as a negative control; None leaves it alone.
        steps: Number of steps.
    """
    # Lightning removes WORLD_SIZE from the environment after each training.
    world_size, rank = (dist.get_world_size(), dist.get_rank()) if dist.is_initialized() else (1, 0)
    assembled = from_file(case)
    model = assembled.model
    adapt(model, [TUNING], seed=0)
    set_types(model, precision)
    set_learning(model, TUNING)
    names = trainable_names(model)
    before = gathered(model, names)
    accumulate = GROUPS // world_size
    module = FineTuning(
        assembled,
        Stage(name="test", max_steps=steps, warmup_ratio=0.0, tuning=TUNING),
        train=TrainBlock(weight_decay=0.0),
        answers=EvalBlock(),
        chosen=ModelBlock(name="test"),
    )
    if precision == "auto":
        raise ValueError("name a precision")
    trainer = pl.Trainer(
        accelerator="cpu",
        strategy=build_strategy(strategy, world_size=world_size, device=CPU, precision=precision),
        devices=world_size,
        precision=precision,
        max_steps=steps,
        max_epochs=-1,
        accumulate_grad_batches=accumulate,
        gradient_clip_val=1.0 if strategy.startswith("deepspeed") else None,
        use_distributed_sampler=False,
        logger=False,
        enable_checkpointing=False,
        enable_model_summary=False,
        enable_progress_bar=False,
        callbacks=[] if narrow_masters is None else [_NarrowMasters(narrow_masters)],
    )
    model.train()
    batches = Batches(assembled, case.name, in_a_step=GROUPS, first=rank, apart=world_size, count=steps * accumulate)
    trainer.fit(module, DataLoader(batches, batch_size=None))
    if narrow_masters is None:
        _all_is_float32(trainer, module)
    after = gathered(model, names)
    return {name: after[name].float() - before[name].float() for name in before}


class _NarrowMasters(pl.Callback):
    """Converts what learns, after the module has given it its type."""

    def __init__(self, dtype: torch.dtype) -> None:
        self._dtype = dtype

    def on_fit_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        for parameter in pl_module.parameters():
            if parameter.requires_grad:
                parameter.data = parameter.data.to(self._dtype)


def _all_is_float32(trainer: pl.Trainer, module: FineTuning) -> None:
    """Fails if anything that learns, or a moment of the optimizer, is not in float32."""
    optimizer: Any = trainer.optimizers[0]
    inner = getattr(optimizer, "optimizer", optimizer)
    held: list[Tensor] = [p for p in module.parameters() if p.requires_grad]
    held += [t for state in inner.state.values() for t in state.values() if isinstance(t, Tensor)]
    held += [p for group in inner.param_groups for p in group["params"]]
    if wrong := {t.dtype for t in held} - {torch.float32}:
        raise AssertionError(f"what learns is also held in {wrong}")


def apart(one: Update, other: Update) -> float:
    """Returns the norm of the difference of two updates as a share of the norm of the second."""
    mine, theirs = (torch.cat([each[name].flatten().double() for name in sorted(each)]) for each in (one, other))
    return float((mine - theirs).norm() / theirs.norm())


def learnt_by_two(
    cases: Sequence[Case], folder: Path, *, strategy: StrategyName, precision: Precision, steps: int = STEPS
) -> dict[Case, Update]:
    """Returns what two gloo processes learn together, by case; what is learnt is handed over in files of a folder."""
    run_ranks(2, _learn_as_rank, folder, strategy, precision, steps, list(cases), timeout_s=500)
    return {case: load_file(folder / case.file) for case in cases}


def _learn_as_rank(
    rank: int,
    world_size: int,
    folder: Path,
    strategy: StrategyName,
    precision: Precision,
    steps: int,
    cases: Sequence[Case],
) -> None:
    join_ranks(world_size, CPU)
    for case in cases:
        update = learnt(case, strategy=strategy, precision=precision, steps=steps)
        if rank == 0:
            save_file(update, folder / case.file)
