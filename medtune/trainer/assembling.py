"""A recipe's model on this rank's device: as its weights come, ready to be tuned, or tuned already."""

from __future__ import annotations

from pathlib import Path

from medtune.models.assemble import zoo_entry
from medtune.models.checkpoint import load_trained
from medtune.models.precision import narrow_frozen
from medtune.models.tuning import GroupRow, apply_tuning
from medtune.models.vlm import Assembled
from medtune.trainer.evaluation import Bench
from medtune.trainer.strategies import barrier


def assemble(bench: Bench) -> Assembled:
    """Returns the model with its pretrained weights, in the recipe's precision; nothing of it learns."""
    assembled = _fetch(bench)
    assembled.model.requires_grad_(False)
    narrow_frozen(assembled.model, bench.recipe.train.precision)
    return assembled


def _fetch(bench: Bench) -> Assembled:
    """Rank 0 fetches the weights first, the others find them."""
    block, seed = bench.recipe.model, bench.recipe.train.seed
    entry = zoo_entry(block.name)
    if bench.rank == 0:
        assembled = entry.assemble(seed, block.loading)
    barrier()
    if bench.rank != 0:
        assembled = entry.assemble(seed, block.loading)
    assembled.model.to(bench.device)
    return assembled


def assemble_tuned(bench: Bench) -> tuple[Assembled, tuple[GroupRow, ...]]:
    """Returns the model with its groups frozen, adapted or free, and the rows of the table that says so."""
    assembled = _fetch(bench)
    rows = apply_tuning(assembled.model, bench.recipe.model.tuning, seed=bench.recipe.train.seed)
    narrow_frozen(assembled.model, bench.recipe.train.precision)
    assembled.model.to(bench.device)
    return assembled, rows


def assemble_trained(bench: Bench, checkpoint: Path) -> Assembled:
    """Returns the model with the trained weights of a file.

    Raises:
        FileNotFoundError: No such file.
        ValueError: The weights are not those of the recipe's `model.tuning`.
    """
    assembled, _ = assemble_tuned(bench)
    load_trained(assembled.model, checkpoint)
    return assembled
