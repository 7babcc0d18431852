"""Loads the model of a recipe or a run: to answer questions, to be trained in a stage, or with trained weights."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import NamedTuple

import torch

from medtune.data.media.volumes.cache import VolumeCache
from medtune.data.prepared.read import Prepared
from medtune.data.types import MediaKind
from medtune.models.contract import Assembled, Model
from medtune.models.endpoint.pictures import SLICES_INSTEAD, read_kinds
from medtune.models.endpoint.served import Served
from medtune.models.endpoint.settings import Endpoint, read_key
from medtune.models.tuning.apply import PartRow, adapt, set_learning
from medtune.models.tuning.gradient_checkpointing import recompute_activations
from medtune.models.tuning.precision import narrow_frozen, resolved
from medtune.models.tuning.quantize import quantize_language
from medtune.models.tuning.starting_weights import NO_STARTS, Starts
from medtune.models.volumes.volume_input import VolumeInput
from medtune.models.weights.checkpoint import load_trained, read_about, read_starts, trainable_names
from medtune.models.weights.export import assemble_model
from medtune.trainer.devices.ranks import barrier
from medtune.trainer.experiment.asked_model import AskedModel, LoadedModel, ServedModel
from medtune.trainer.experiment.experiment import Experiment
from medtune.trainer.experiment.run_folder import RunFolder
from medtune.trainer.recipe.schema import Recipe, Stage

FOUR_BITS = "; its linear layers held in 4 bits (NF4)"
LORA_FACTS = ("alpha", "rslora", "dora", "init")
"""The fields of an adapter that its tensors do not show.

With other values the model would give other answers without any error: the scale is not in the tensors, and PiSSA's
adapters belong to other weights than the pretrained ones.
"""


def load_model(experiment: Experiment, checkpoint: Path | None) -> AskedModel:
    """Returns the recipe's model, ready to answer questions.

    Args:
        experiment: The experiment whose model is loaded.
        checkpoint: The file of trained weights to read; None keeps the pretrained weights. It has no effect on a model
            behind an endpoint, whose weights are not on this machine.

    Raises:
        FileNotFoundError: There is no such file.
        ValueError: The weights do not belong to the recipe's tuning, or the model does not read the prepared media.
    """
    if experiment.recipe.model.endpoint is not None:
        return ServedModel(experiment, _served(experiment, experiment.recipe.model.endpoint))
    if checkpoint is None:
        assembled = _fetched(experiment)
        assembled.model.requires_grad_(False)
        narrow_frozen(assembled.model, experiment.recipe.train.precision)
    else:
        assembled = adapted(experiment, checkpoint)
    return LoadedModel(experiment, assembled)


class TrainableModel(NamedTuple):
    """A model that is ready for a stage of training.

    Attributes:
        assembled: The model; each of its parts is frozen, has adapters, or is trained in full.
        rows: The rows of the table of trainable parts, one for each part.
        learnt: Names of the parameters that are trained in any stage of the recipe. A checkpoint holds these.
        starts: The beginnings of PiSSA adapters, which a checkpoint holds as well.
    """

    assembled: Assembled
    rows: tuple[PartRow, ...]
    learnt: tuple[str, ...]
    starts: Starts


def load_trainable(experiment: Experiment, stage: Stage, start: Path | None) -> TrainableModel:
    """Returns the model at the beginning of a stage, with its parts frozen or trainable as the stage says.

    Args:
        experiment: The experiment that the stage belongs to.
        stage: The stage that begins.
        start: The file of trained weights to begin from; None begins from the pretrained weights.

    Raises:
        FileNotFoundError: There is no such file.
        ValueError: The weights do not belong to the recipe's tuning.
    """
    assembled = adapted(experiment, start)
    learnt = tuple(trainable_names(assembled.model))
    starts = NO_STARTS if start is None else read_starts(start)
    return TrainableModel(assembled, set_learning(assembled.model, stage.tuning), learnt, starts)


def load_as_left(folder: RunFolder, device: torch.device) -> tuple[Recipe, Assembled]:
    """Returns the recipe of a run and its model with the run's weights, without opening any data.

    The weights are the best trained ones; if the run did not train, those of model.checkpoint; if there are none, the
    pretrained ones.

    Raises:
        FileNotFoundError: There is no run, or the weights that it evaluated are gone.
        ValueError: The weights do not belong to the recipe, or the run asked a served model.
    """
    recipe = folder.read_recipe()
    block = recipe.model
    assembled = assemble_model(block.name, recipe.train.seed, block)
    if block.language_bits is not None:
        quantize_language(assembled.model, precision=resolved(recipe.train.precision, device), device=device)
        assembled.provenance["language"] += FOUR_BITS
    checkpoint = folder.best if folder.best.is_file() else block.checkpoint
    if checkpoint is not None:
        adapt(assembled.model, [stage.tuning for stage in recipe.stages], seed=recipe.train.seed)
        load_checkpoint(recipe, assembled.model, checkpoint)
    assembled.model.requires_grad_(False)
    assembled.model.to(device)
    assembled.model.eval()
    return recipe, assembled


def about_weights(recipe: Recipe) -> dict[str, str]:
    """Returns the facts about the model that are written into a checkpoint next to its tensors."""
    adapters = {
        part: {name: value for name, value in asdict(how.lora).items() if name in LORA_FACTS}
        for stage in recipe.stages
        for part, how in stage.tuning.parts().items()
        if how.mode == "lora"
    }
    average = {} if recipe.train.ema_decay is None else {"ema_decay": str(recipe.train.ema_decay)}
    return {"model": recipe.model.name, "lora": json.dumps(adapters), **average}


def load_checkpoint(recipe: Recipe, model: Model, path: Path) -> None:
    """Reads trained weights from a file into the trainable parameters of a model.

    Raises:
        FileNotFoundError: There is no such file.
        ValueError: The file belongs to another model, or to adapters with another scale, or its tensors do not fit.
    """
    found, wanted = read_about(path), about_weights(recipe)
    if found.get("model", "unknown") != wanted["model"]:
        raise ValueError(
            f"{path}: trained weights of the model {found.get('model', 'unknown')}, but model.name is {wanted['model']}"
        )
    if found.get("lora", "") != wanted["lora"]:
        raise ValueError(
            f"{path}: trained with other adapters (model.tuning.*.lora) than the recipe has: "
            f"{found.get('lora', 'unknown')} there, {wanted['lora']} here"
        )
    load_trained(model, path)


def adapted(experiment: Experiment, checkpoint: Path | None) -> Assembled:
    """Returns the model with the adapters of all stages, in the recipe's precision.

    Args:
        experiment: The experiment whose model is loaded.
        checkpoint: The file of trained weights to read; None leaves the weights as they are before training.

    Raises:
        FileNotFoundError: There is no such file.
        ValueError: The weights do not belong to the recipe's tuning.
    """
    assembled = _fetched(experiment)
    tunings = [stage.tuning for stage in experiment.recipe.stages]
    adapt(assembled.model, tunings, seed=experiment.recipe.train.seed)
    if checkpoint is not None:
        # Before the weights are narrowed: PiSSA takes its part out of them as they were loaded.
        load_checkpoint(experiment.recipe, assembled.model, checkpoint)
    narrow_frozen(assembled.model, experiment.recipe.train.precision)
    if experiment.recipe.train.gradient_checkpointing:
        recompute_activations(assembled.model)
    assembled.model.to(experiment.device)
    return assembled


def _fetched(experiment: Experiment) -> Assembled:
    """Returns the model with its pretrained weights. Rank 0 fetches them first, so that the other ranks find them."""
    block, seed = experiment.recipe.model, experiment.recipe.train.seed
    if experiment.rank == 0:
        assembled = assemble_model(block.name, seed, block)
    barrier()
    if experiment.rank != 0:
        assembled = assemble_model(block.name, seed, block)
    reads = assembled.transform.kinds
    otherwise = ", or show this one slices (model.volumes_as)" if "video" in reads else ""
    _refuse_media(reads, experiment.prepared, model=block.name, otherwise=otherwise)
    assembled = _with_volume_cache(experiment, assembled)
    if block.language_bits is not None:
        quantize_language(assembled.model, precision=experiment.recipe.train.precision, device=experiment.device)
        assembled.provenance["language"] += FOUR_BITS
    assembled.model.to(experiment.device)
    return assembled


def _with_volume_cache(experiment: Experiment, assembled: Assembled) -> Assembled:
    """Returns the model with a cache of prepared volumes, if it reads volumes and the recipe asks for a cache.

    Raises:
        ValueError: model.crop_organs names an organ of which no volume has a mask.
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


def _served(experiment: Experiment, endpoint: Endpoint) -> Served:
    """Returns the model behind an endpoint; its costs are recorded in the run folder.

    Raises:
        ValueError: The prepared folder holds volumes and the recipe does not say how to send them, or the environment
            variable with the key is not set.
    """
    name = experiment.recipe.model.name
    _refuse_media(read_kinds(endpoint), experiment.prepared, model=name, otherwise=f", or {SLICES_INSTEAD}")
    read_key(endpoint, where="model.endpoint")
    return Served(endpoint, experiment.folder.spending)


def _refuse_media(reads: Sequence[MediaKind], prepared: Prepared, *, model: str, otherwise: str = "") -> None:
    """Refuses media of a kind that the model does not read. For volumes, the message ends with the hint `otherwise`."""
    if odd := sorted(prepared.kinds - set(reads)):
        raise ValueError(
            f"{prepared.root} holds {odd[0]}s; model.name {model} reads {' and '.join(f'{kind}s' for kind in reads)} "
            f"only. Take another model (`medtune list models`){otherwise if odd[0] == 'volume' else ''}"
        )
