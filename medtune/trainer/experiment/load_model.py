"""A recipe's model on this rank's device: as its weights come, ready for a stage of training, or trained."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import torch

from medtune.data.media.volumes.cache import VolumeCache
from medtune.data.prepared.folder import Prepared
from medtune.data.types import MediaKind
from medtune.models.contract import Assembled, Model
from medtune.models.endpoint.pictures import SLICES_INSTEAD, read_kinds
from medtune.models.endpoint.served import Served
from medtune.models.endpoint.settings import Endpoint, read_key
from medtune.models.tuning.apply import PartRow, adapt, set_learning
from medtune.models.tuning.gradient_checkpointing import recompute_activations
from medtune.models.tuning.precision import narrow_frozen, resolved
from medtune.models.tuning.quantize import quantize_language
from medtune.models.volumes.volume_input import VolumeInput
from medtune.models.weights.checkpoint import load_trained, read_about, trainable_names
from medtune.models.weights.export import assemble_model
from medtune.trainer.experiment.evaluate import Experiment
from medtune.trainer.experiment.run_folder import RunFolder
from medtune.trainer.experiment.strategies import barrier
from medtune.trainer.recipe.read import read_recipe
from medtune.trainer.recipe.schema import Recipe, Stage
from medtune.trainer.training.callbacks import BEST

FOUR_BITS = "; its linear layers held in 4 bits (NF4)"


def assemble(experiment: Experiment) -> Assembled:
    """Returns the model with its pretrained weights, in the recipe's precision; nothing of it learns."""
    assembled = _fetch(experiment)
    assembled.model.requires_grad_(False)
    narrow_frozen(assembled.model, experiment.recipe.train.precision)
    return assembled


def _fetch(experiment: Experiment) -> Assembled:
    """Rank 0 fetches the weights first, the others find them."""
    block, seed = experiment.recipe.model, experiment.recipe.train.seed
    if experiment.rank == 0:
        assembled = assemble_model(block.name, seed, block)
    barrier()
    if experiment.rank != 0:
        assembled = assemble_model(block.name, seed, block)
    reads = assembled.transform.kinds
    otherwise = ", or show this one slices (model.volumes_as)" if "video" in reads else ""
    refuse_media(reads, experiment.prepared, model=block.name, otherwise=otherwise)
    assembled = _keeping(experiment, assembled)
    if block.language_bits is not None:
        quantize_language(assembled.model, precision=experiment.recipe.train.precision, device=experiment.device)
        assembled.provenance["language"] += FOUR_BITS
    assembled.model.to(experiment.device)
    return assembled


def _keeping(experiment: Experiment, assembled: Assembled) -> Assembled:
    """Returns the model with its prepared volumes kept, where the recipe wants that: each is prepared once.

    Raises:
        ValueError: The model is to crop around an organ of which no volume has a mask.
    """
    transform = assembled.transform
    if not isinstance(transform, VolumeInput):
        return assembled
    there = experiment.prepared.organs
    if unknown := sorted(set(experiment.recipe.model.crop_organs or ()) - there):
        raise ValueError(
            f"model.crop_organs: {experiment.prepared.root} has no mask of {unknown[0]}; it has masks of: "
            f"{', '.join(sorted(there)) or 'none at all'}"
        )
    if not experiment.recipe.data.cache:
        return assembled
    return replace(assembled, transform=replace(transform, cache=VolumeCache(experiment.prepared.cache_folder)))


def served(experiment: Experiment, endpoint: Endpoint, *, ledger: Path) -> Served:
    """Returns the model behind an endpoint; `ledger` says what it has charged.

    Raises:
        ValueError: The prepared folder holds volumes that it is not said how to send, or the key's variable is not set.
    """
    refuse_media(
        read_kinds(endpoint),
        experiment.prepared,
        model=experiment.recipe.model.name,
        otherwise=f", or {SLICES_INSTEAD}",
    )
    read_key(endpoint, where="model.endpoint")
    return Served(endpoint, ledger)


def refuse_media(reads: Sequence[MediaKind], prepared: Prepared, *, model: str, otherwise: str = "") -> None:
    """Refuses media of a kind that the model does not read; `otherwise` says how it might read volumes.

    Raises:
        ValueError: Names both.
    """
    if odd := sorted(prepared.kinds - set(reads)):
        raise ValueError(
            f"{prepared.root} holds {odd[0]}s; model.name {model} reads {' and '.join(f'{kind}s' for kind in reads)} "
            f"only. Take another model (`medtune list models`){otherwise if odd[0] == 'volume' else ''}"
        )


class Tuned(NamedTuple):
    """A model that is ready for a stage of training.

    Attributes:
        rows: Of the table of trainable parts.
        learnt: Names of the parameters that learn in any stage of the recipe: what a checkpoint holds.
    """

    assembled: Assembled
    rows: tuple[PartRow, ...]
    learnt: tuple[str, ...]


def assemble_stage(experiment: Experiment, stage: Stage, start: Path | None) -> Tuned:
    """Returns the model as a stage begins with it: with the trained weights of `start`, its groups frozen or free.

    Raises:
        FileNotFoundError: There is no such file.
        ValueError: The weights are not those of the recipe's tuning.
    """
    assembled = _adapted(experiment)
    learnt = tuple(trainable_names(assembled.model))
    if start is not None:
        load_checkpoint(experiment.recipe, assembled.model, start)
    return Tuned(assembled, set_learning(assembled.model, stage.tuning), learnt)


def _adapted(experiment: Experiment) -> Assembled:
    assembled = _fetch(experiment)
    tunings = [stage.tuning for stage in experiment.recipe.stages]
    adapt(assembled.model, tunings, seed=experiment.recipe.train.seed)
    narrow_frozen(assembled.model, experiment.recipe.train.precision)
    if experiment.recipe.train.gradient_checkpointing:
        recompute_activations(assembled.model)
    assembled.model.to(experiment.device)
    return assembled


def assemble_trained(experiment: Experiment, checkpoint: Path) -> Assembled:
    """Returns the model with the trained weights of a file.

    Raises:
        FileNotFoundError: No such file.
        ValueError: The weights are not those of the recipe's tuning.
    """
    assembled = _adapted(experiment)
    load_checkpoint(experiment.recipe, assembled.model, checkpoint)
    return assembled


def about_weights(recipe: Recipe) -> dict[str, str]:
    """Returns what a checkpoint says about the model that it belongs to, beside its tensors."""
    alphas = {
        part: how.lora.alpha
        for stage in recipe.stages
        for part, how in stage.tuning.parts().items()
        if how.mode == "lora"
    }
    return {"model": recipe.model.name, "lora_alpha": json.dumps(alphas)}


def load_checkpoint(recipe: Recipe, model: Model, path: Path) -> None:
    """Reads trained weights into the parameters that learn.

    Raises:
        FileNotFoundError: No such file.
        ValueError: The file is of another model or of adapters with another scale, or its tensors do not fit.
    """
    found, wanted = read_about(path), about_weights(recipe)
    if found.get("model", "unknown") != wanted["model"]:
        raise ValueError(
            f"{path}: trained weights of the model {found.get('model', 'unknown')}, but model.name is {wanted['model']}"
        )
    # The scale of an adapter is not in its tensors: with another one it would answer otherwise in silence.
    if found.get("lora_alpha", "") != wanted["lora_alpha"]:
        raise ValueError(
            f"{path}: trained with model.tuning.*.lora.alpha {found.get('lora_alpha')}, but the recipe has "
            f"{wanted['lora_alpha']}"
        )
    load_trained(model, path)


def assemble_run(folder: RunFolder, device: torch.device) -> tuple[Recipe, Assembled]:
    """Returns a run's recipe and its model as the run left it; needs no data.

    That is the best trained weights, or those that the run evaluated, or the model as its weights come.

    Raises:
        FileNotFoundError: There is no run, or the weights that it evaluated are gone.
        ValueError: The weights are not those of the recipe, or the run asked a served model.
    """
    if not folder.recipe.is_file():
        raise FileNotFoundError(f"{folder.root}: no run is here (no recipe.yaml); give the folder that a run wrote")
    recipe = read_recipe(str(folder.recipe))
    best, block = folder.checkpoints / BEST, recipe.model
    assembled = assemble_model(block.name, recipe.train.seed, block)
    if block.language_bits is not None:
        quantize_language(assembled.model, precision=resolved(recipe.train.precision, device), device=device)
        assembled.provenance["language"] += FOUR_BITS
    checkpoint = best if best.is_file() else block.checkpoint
    if checkpoint is not None:
        adapt(assembled.model, [stage.tuning for stage in recipe.stages], seed=recipe.train.seed)
        load_checkpoint(recipe, assembled.model, checkpoint)
    assembled.model.requires_grad_(False)
    assembled.model.to(device)
    assembled.model.eval()
    return recipe, assembled
