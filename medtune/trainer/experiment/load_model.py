"""Loads the model of a recipe or a run: to answer questions, to be trained in a stage, or with trained weights."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
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
from medtune.models.transformers_vlm.generic.model import GenericVlm
from medtune.models.tuning.apply import PartRow, adapt, set_learning
from medtune.models.tuning.gradient_checkpointing import recompute_activations
from medtune.models.tuning.plan import Precision
from medtune.models.tuning.precision import resolved, set_types
from medtune.models.tuning.quantize import quantize_language
from medtune.models.volumes.volume_input import VolumeInput
from medtune.models.weights.checkpoint import load_trained, read_about, trainable_names
from medtune.models.weights.export import assemble_model
from medtune.trainer.devices.ranks import barrier
from medtune.trainer.experiment.asked_model import AskedModel, LoadedModel, ServedModel
from medtune.trainer.experiment.experiment import Experiment
from medtune.trainer.experiment.run_folder import RunFolder
from medtune.trainer.recipe.schema import Recipe, Stage

FOUR_BITS = "; its linear layers held in 4 bits (NF4)"


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
        place(assembled.model, experiment.recipe.train.precision, experiment.device)
    else:
        assembled = _adapted(experiment)
        place(assembled.model, experiment.recipe.train.precision, experiment.device)
        load_checkpoint(experiment.recipe, assembled.model, checkpoint)
    return LoadedModel(experiment, assembled)


class TrainableModel(NamedTuple):
    """A model that is ready for a stage of training.

    Attributes:
        assembled: The model; each of its parts is frozen, has adapters, or is trained in full.
        rows: The rows of the table of trainable parts, one for each part.
        learnt: Names of the parameters that are trained in any stage of the recipe. A checkpoint holds these.
    """

    assembled: Assembled
    rows: tuple[PartRow, ...]
    learnt: tuple[str, ...]


def load_trainable(experiment: Experiment, stage: Stage, start: Path | None) -> TrainableModel:
    """Returns the model at the beginning of a stage, with its parts frozen or trainable as the stage says.

    It is on the device, or under ZeRO-3 in the host's memory.

    Args:
        experiment: The experiment that the stage belongs to.
        stage: The stage that begins.
        start: The file of trained weights to begin from; None begins from the pretrained weights.

    Raises:
        FileNotFoundError: There is no such file.
        ValueError: The weights do not belong to the recipe's tuning.
    """
    assembled = _adapted(experiment)
    train = experiment.recipe.train
    # Under ZeRO-3 a device may have no room for the whole model. The strategy moves its share there.
    device = torch.device("cpu") if train.strategy == "deepspeed_stage_3" else experiment.device
    place(assembled.model, train.precision, device)
    learnt = tuple(trainable_names(assembled.model))
    if start is not None:
        load_checkpoint(experiment.recipe, assembled.model, start)
    return TrainableModel(assembled, set_learning(assembled.model, stage.tuning), learnt)


def load_as_left(folder: RunFolder, device: torch.device) -> tuple[Recipe, Assembled]:
    """Returns the recipe of a run and its model with the run's weights, without opening any data.

    The weights are the best trained ones; if the run did not train, those of model.checkpoint; if there are none, the
    pretrained ones. They are in the types of their files and in the host's memory, from where `place` moves them to the
    device. Linear layers that are held in 4 bits are on the device already. Parameters that the run trained require
    gradients.

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
    assembled.model.requires_grad_(False)
    if checkpoint is not None:
        adapt(assembled.model, [stage.tuning for stage in recipe.stages], seed=recipe.train.seed)
        load_checkpoint(recipe, assembled.model, checkpoint)
    assembled.model.eval()
    return recipe, assembled


def place(model: Model, precision: Precision, device: torch.device) -> None:
    """Stores each weight in the type in which it is used, and only then moves the model to the device.

    The device therefore never holds more than the model that is used, however wide the weights are in their files.

    Args:
        model: The model; the parameters that any stage trains require gradients.
        precision: The precision that the model computes in, resolved for the device.
        device: The device of the model.

    Raises:
        ValueError: A weight is too large for float16, which the precision asks for.
    """
    set_types(model, precision)
    model.to(device)


def about_weights(recipe: Recipe) -> dict[str, str]:
    """Returns the facts about the model that are written into a checkpoint next to its tensors."""
    alphas = {
        part: how.lora.alpha
        for stage in recipe.stages
        for part, how in stage.tuning.parts().items()
        if how.mode == "lora"
    }
    return {"model": recipe.model.name, "lora_alpha": json.dumps(alphas)}


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
    # The tensors do not contain the scale of an adapter. With another scale the model would give other answers without
    # any error.
    if found.get("lora_alpha", "") != wanted["lora_alpha"]:
        raise ValueError(
            f"{path}: trained with model.tuning.*.lora.alpha {found.get('lora_alpha')}, but the recipe has "
            f"{wanted['lora_alpha']}"
        )
    load_trained(model, path)


def _adapted(experiment: Experiment) -> Assembled:
    """Returns the model with the adapters of all stages, in the host's memory."""
    assembled = _fetched(experiment)
    tunings = [stage.tuning for stage in experiment.recipe.stages]
    adapt(assembled.model, tunings, seed=experiment.recipe.train.seed)
    if experiment.recipe.train.gradient_checkpointing:
        recompute_activations(assembled.model)
    return assembled


def _fetched(experiment: Experiment) -> Assembled:
    """Returns the model with its pretrained weights, in the types of its files and in the host's memory.

    Linear layers that are held in 4 bits are already on the device. Rank 0 fetches the weights first, so that the other
    ranks find them.

    Raises:
        ValueError: The model does not read the prepared media, or cannot be divided among the devices.
    """
    block, seed = experiment.recipe.model, experiment.recipe.train.seed
    if experiment.rank == 0:
        assembled = assemble_model(block.name, seed, block)
    barrier()
    if experiment.rank != 0:
        assembled = assemble_model(block.name, seed, block)
    if isinstance(assembled.model, GenericVlm) and experiment.recipe.train.strategy == "deepspeed_stage_3":
        raise ValueError(
            f"train.strategy is deepspeed_stage_3 and {block.weights} is read by the generic entry, which makes a pass "
            "for each shape of images: the devices would make different numbers of passes and wait for one another for "
            "ever. Take deepspeed_stage_2"
        )
    reads = assembled.transform.kinds
    otherwise = ", or show this one slices (model.volumes_as)" if "video" in reads else ""
    _refuse_media(reads, experiment.prepared, model=block.name, otherwise=otherwise)
    assembled = _with_volume_cache(experiment, assembled)
    if block.language_bits is not None:
        quantize_language(assembled.model, precision=experiment.recipe.train.precision, device=experiment.device)
        assembled.provenance["language"] += FOUR_BITS
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
