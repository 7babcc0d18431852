"""Trains small models with random weights as a rank of a run, and measures by how much its anonymous memory grows.

glibc would keep freed memory; it is told to give it back.
"""

from __future__ import annotations

import ctypes
import gc
import threading
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import lightning.pytorch as pl
import torch
from torch.utils.data import DataLoader
from transformers import LlamaConfig, LlamaForCausalLM

from medtune.models.assemble import ZooEntry
from medtune.models.contract import Assembled, Model
from medtune.models.nano import pocket
from medtune.models.sequence.chatml import ChatML
from medtune.models.sharding.lock_step import InTurns, divide, lock_step, ranks_mesh
from medtune.models.sharding.unread import leaving_weights_unread
from medtune.models.tuning.apply import adapt, recompute_activations, set_learning
from medtune.models.tuning.quantize import precise, set_types
from medtune.models.vlm import VisionLanguageModel
from medtune.models.weights.causal_language import read_language
from medtune.models.weights.loading_options import DEFAULT, Loading
from medtune.models.zoo.pocket import GridMixer
from medtune.trainer.devices.ranks import barrier, join_ranks
from medtune.trainer.devices.strategies import build_strategy
from medtune.trainer.plan.devices import Devices
from medtune.trainer.plan.gathered import PassSize, rows_of
from medtune.trainer.plan.plan import Plan, Planner, Sizes
from medtune.trainer.recipe.read import read_recipe
from medtune.trainer.recipe.schema import Recipe
from medtune.trainer.training.batches import MicroBatch
from medtune.trainer.training.lightning_module import FineTuning

CPU = torch.device("cpu")


@dataclass(frozen=True)
class Case:
    """A model and a pass."""

    width: int  # Embedding width.
    layers: int  # Number of decoder layers.
    vocabulary: int  # Number of tokens that the output layer knows.
    size: PassSize  # The pass.
    settings: tuple[str, ...] = ()  # Changes of the recipe.

    @property
    def thin(self) -> Case:
        """A model of the same modules that is too small to count: it shows what libraries keep for each module."""
        return replace(self, width=32, vocabulary=300, size=PassSize(1, 16, 2))


def write_language(case: Case, folder: Path) -> None:
    """Writes the language model of a case into a folder."""
    torch.manual_seed(0)
    LlamaForCausalLM(_config(case)).save_pretrained(folder)


def recipe_of(case: Case, strategy: str, ranks: int) -> Recipe:
    """Returns the recipe with which a case is planned and run."""
    rows = case.size.rows
    batch = (f"train.micro_batch_size={rows}", f"train.batch_size={rows * ranks}", f"train.devices={ranks}")
    asked = (f"eval.batch_tokens={rows * case.size.tokens}", "eval.readings=[likelihood]")
    fixed = ("train.precision=32-true", "model.tuning.projector.mode=frozen", f"train.strategy={strategy}")
    return read_recipe("nano_busi_lora", [*fixed, *batch, *asked, *case.settings])


def plan_of(case: Case, recipe: Recipe, *, is_gpu: bool = False) -> Plan:
    """Returns the plan of a case on CPUs, or on GPUs."""

    def assemble(_: int, __: Loading = DEFAULT, /) -> Assembled:
        raise AssertionError("the plan loads no weights")

    def skeleton(_: Loading = DEFAULT) -> Model:
        with torch.device("meta"):
            return _model(case, LlamaForCausalLM(_config(case)))

    entry = ZooEntry("random", "none", assemble, skeleton)
    sizes = Sizes(case.size.tokens, case.size.targets, is_measured=True)
    return Planner(entry, sizes).plan(recipe, Devices(recipe.train.devices, "any", 1.0, is_gpu=is_gpu))


def training(
    rank: int, world_size: int, case: Case, folder: Path, recipe: Recipe, changed: Mapping[str, int]
) -> dict[str, int]:
    """Trains for two steps, with a pass of a validation between them, as one of several ranks.

    Returns:
        The bytes by which the anonymous memory grew at most: "training" and "validation".
    """
    _give_memory_back()
    if recipe.train.divides_weights:
        join_ranks(world_size, CPU)
        # As `fit` does.
        torch.set_autocast_cache_enabled(False)

    def grown(trained: Case, where: Path) -> dict[str, int]:
        gc.collect()
        peak = Peak()
        with peak.sampled():
            _train(trained, where, recipe, changed, peak)
        return peak.found

    return _beyond_thin(grown, case, folder)


def answering(rank: int, world_size: int, case: Case, folder: Path, recipe: Recipe) -> dict[str, int]:
    """Returns the bytes by which a rank grows that loads and asks a divided model as a final evaluation does."""
    _give_memory_back()
    join_ranks(world_size, CPU)

    def grown(asked: Case, where: Path) -> dict[str, int]:
        gc.collect()
        peak = Peak()
        with peak.sampled():
            _answer(asked, where, recipe, world_size)
            peak.ends("final")
        return peak.found

    return _beyond_thin(grown, case, folder)


def _beyond_thin(grown: Callable[[Case, Path], dict[str, int]], case: Case, folder: Path) -> dict[str, int]:
    """Returns by how much a model grows more than a thin one, after the libraries have got ready."""
    grown(case.thin, folder / "thin")
    thin = grown(case.thin, folder / "thin")
    return {what: size - thin[what] for what, size in grown(case, folder).items()}


class Peak:
    """Looks every two milliseconds how much anonymous memory the process has.

    Attributes:
        found: The most by which it grew, in bytes, by the name of what ended.
    """

    def __init__(self) -> None:
        self._before = self._most = _anonymous_bytes()
        self._lock = threading.Lock()
        self.found: dict[str, int] = {}

    @contextmanager
    def sampled(self) -> Iterator[None]:
        """Looks while the context lasts."""
        is_over = threading.Event()

        def sample() -> None:
            while not is_over.wait(0.002):
                with self._lock:
                    self._most = max(self._most, _anonymous_bytes())

        thread = threading.Thread(target=sample, daemon=True)
        thread.start()
        try:
            yield
        finally:
            is_over.set()
            thread.join()

    def ends(self, what: str) -> None:
        """Notes the most since the last call."""
        with self._lock:
            now = _anonymous_bytes()
            self.found[what] = max(self._most - self._before, now - self._before, self.found.get(what, 0))
            self._most = now


class _Validates(pl.Callback):
    def __init__(self, case: Case, peak: Peak) -> None:
        self._case, self._peak = case, peak

    def on_train_batch_end(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        assert isinstance(pl_module, FineTuning)
        self._peak.ends("training")
        if batch_idx == 0:
            pl_module.model.eval()
            _read(self._case, pl_module.model, pl_module._precision, pl_module._in_turns())
            pl_module.model.train()
            self._peak.ends("validation")


def _train(case: Case, folder: Path, recipe: Recipe, changed: Mapping[str, int], peak: Peak) -> None:
    train, stage = recipe.train, replace(recipe.stages[0], max_steps=2)
    assert train.precision != "auto"
    model = _adapted(case, folder, recipe)
    if not train.divides_weights:
        set_types(model, train.precision)
    set_learning(model, stage.tuning)
    if train.gradient_checkpointing:
        recompute_activations(model)
    assembled = Assembled(model, ChatML(pocket.chatml_tokenizer(), num_media_tokens=8), pocket.TRANSFORM, {})
    module = FineTuning(assembled, stage, train=train, answers=recipe.eval, chosen=recipe.model)
    rows = rows_of(case.size, visual_tokens=0)
    replies = case.size.rows
    batch = MicroBatch(0, rows, None, replies * case.size.targets, replies, replies, replies, 0, ("a question",))
    strategy: Any = build_strategy(train.strategy, world_size=train.devices, device=CPU, precision=train.precision)
    if changed:
        strategy.config["zero_optimization"] |= dict(changed)
    trainer = pl.Trainer(
        accelerator="cpu",
        strategy=strategy,
        devices=train.devices,
        precision=train.precision,
        max_steps=2,
        max_epochs=-1,
        logger=False,
        enable_checkpointing=False,
        enable_model_summary=False,
        enable_progress_bar=False,
        limit_val_batches=0,
        gradient_clip_val=train.clip_norm if train.zero_stage else None,
        use_distributed_sampler=False,
        callbacks=[_Validates(case, peak)],
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        batches: Any = [batch] * 4
        trainer.fit(module, DataLoader(batches, batch_size=None))


def _answer(case: Case, folder: Path, recipe: Recipe, world_size: int) -> None:
    assert recipe.train.precision != "auto"
    model = _adapted(case, folder, recipe)
    divide(model, recipe.train.precision, ranks_mesh(CPU, world_size))
    model.requires_grad_(False)
    _read(case, model.eval(), recipe.train.precision, None)
    barrier()


def _read(case: Case, model: Model, precision: Any, in_turns: InTurns | None) -> None:
    with lock_step(model, in_turns=in_turns), torch.no_grad(), precise(precision, CPU)():
        model(rows_of(case.size, visual_tokens=0), None)


def _adapted(case: Case, folder: Path, recipe: Recipe) -> VisionLanguageModel:
    torch.manual_seed(0)
    if recipe.train.divides_weights:
        with leaving_weights_unread():
            model = _model(case, read_language(folder))
    else:
        model = _model(case, LlamaForCausalLM(_config(case)))
    adapt(model, [stage.tuning for stage in recipe.stages], seed=0)
    return model


def _model(case: Case, language: Any) -> VisionLanguageModel:
    projector = GridMixer(
        pocket.FEATURE_WIDTH, num_cells=16, reduced_width=16, num_tokens=8, embedding_width=case.width
    )
    return VisionLanguageModel(pocket.tower(grid=4), projector, language)


def _config(case: Case) -> LlamaConfig:
    return LlamaConfig(
        vocab_size=case.vocabulary,
        hidden_size=case.width,
        intermediate_size=3 * case.width,
        num_hidden_layers=case.layers,
        num_attention_heads=8,
        tie_word_embeddings=False,
    )


def _give_memory_back() -> None:
    libc = ctypes.CDLL(None)
    for parameter, value in ((-3, 65536), (-1, 65536), (-8, 1)):
        libc.mallopt(parameter, value)


def _anonymous_bytes() -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("RssAnon"))
