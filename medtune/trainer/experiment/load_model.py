"""Loads the model of a recipe or a run: to answer questions, to be trained in a stage, or with trained weights."""

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import NamedTuple

import torch

from medtune.data.prepared.read import Prepared
from medtune.data.types import MediaKind
from medtune.models.assemble import zoo_entry
from medtune.models.contract import Assembled, Model, Transform
from medtune.models.endpoint.settings import Endpoint, read_key
from medtune.models.sharding.lock_step import divide, ranks_mesh
from medtune.models.sharding.unread import leaving_weights_unread
from medtune.models.tuning.apply import PartRow, adapt, recompute_activations, set_learning
from medtune.models.tuning.plan import Precision
from medtune.models.tuning.quantize import quantize_language, resolved, set_types, stored_types
from medtune.models.tuning.starting_weights import NO_STARTS, Starts
from medtune.models.weights.checkpoint import fitting_facts, load_trained, read_starts, trainable_names
from medtune.models.weights.export import assemble_model, base_of
from medtune.models.weights.hub import commits, show_downloads_alone
from medtune.models.weights.write_adapter import Base
from medtune.trainer.devices.ranks import barrier, state_timeout
from medtune.trainer.experiment.evaluate import AskedModel, LoadedModel, ServedModel
from medtune.trainer.experiment.experiment import Experiment
from medtune.trainer.experiment.open_data import cannot_divide
from medtune.trainer.recipe.schema import ModelBlock, Recipe, Stage
from medtune.trainer.runs.run_folder import RunFolder

FOUR_BITS = "; its linear layers held in 4 bits (NF4)"
LORA_FACTS = ("alpha", "rslora", "dora", "init")
"""The fields of an adapter that its tensors do not show.

With other values the model would give other answers without any error: the scale is not in the tensors, and PiSSA's
adapters belong to other weights than the pretrained ones.
"""


def load_model(experiment: Experiment, checkpoint: Path | None) -> AskedModel:
    """Returns the recipe's model, ready to answer questions.

    Args:
        checkpoint: The file of trained weights to read; None keeps the pretrained weights. It has no effect on a model
            behind an endpoint, whose weights are not on this machine.
    """
    if experiment.recipe.model.endpoint is not None:
        return _served(experiment, experiment.recipe.model.endpoint)
    with leaving_weights_unread(experiment.recipe.train.divides_weights):
        if checkpoint is None:
            assembled = _fetched(experiment)
            assembled.model.requires_grad_(False)
        else:
            assembled = adapted(experiment, checkpoint)
    precision, device = experiment.recipe.train.precision, experiment.device
    if experiment.recipe.train.divides_weights:
        # Whatever divides them in training: DeepSpeed's engine divides nothing without an optimizer.
        divide(assembled.model, precision, ranks_mesh(device, experiment.world_size))
        # torch.autocast keeps a copy in 16 bits of each float32 weight that requires gradients until a pass ends, so
        # that each device would hold the whole model.
        assembled.model.requires_grad_(False)
        # The mesh has made process groups of its own.
        state_timeout(experiment.recipe.train.timeout_minutes)
    else:
        place(assembled.model, precision, device)
    return LoadedModel(experiment, assembled)


class TrainableModel(NamedTuple):
    """A model that is ready for a stage of training."""

    assembled: Assembled  # The model; each of its parts is frozen, has adapters, or is trained in full.
    rows: tuple[PartRow, ...]  # The rows of the table of trainable parts, one for each part.
    # Names of the parameters that are trained in any stage of the recipe. A checkpoint holds these.
    learnt: tuple[str, ...]
    starts: Starts  # The beginnings of PiSSA adapters, which a checkpoint holds as well.


def load_trainable(experiment: Experiment, stage: Stage, start: Path | None) -> TrainableModel:
    """Returns the model at the beginning of a stage, with its parts frozen or trainable as the stage says.

    It is on the device. Where the strategy divides the weights, they are still in their files, and the strategy reads
    each rank's share.

    Args:
        start: The file of trained weights to begin from; None begins from the pretrained weights.
    """
    with leaving_weights_unread(experiment.recipe.train.divides_weights):
        assembled = adapted(experiment, start)
    train, types = experiment.recipe.train, None
    if train.divides_weights:
        types = stored_types(assembled.model, train.precision)
    else:
        place(assembled.model, train.precision, experiment.device)
    learnt = tuple(trainable_names(assembled.model))
    starts = NO_STARTS if start is None else read_starts(start)
    return TrainableModel(assembled, set_learning(assembled.model, stage.tuning, types=types), learnt, starts)


def load_as_left(
    folder: RunFolder,
    device: torch.device,
    *,
    in_4_bits: bool = True,
    before_training: Callable[[Assembled], None] | None = None,
) -> tuple[Recipe, Assembled]:
    """Returns the recipe of a run and its model with the run's weights, without opening any data.

    The weights are the best trained ones; if the run did not train, those of model.checkpoint; if there are none, the
    pretrained ones. They are in the types of their files and in the host's memory, from where `place` moves them to the
    device. Linear layers that are held in 4 bits are on the device already. Parameters that the run trained require
    gradients.

    Args:
        in_4_bits: Whether a language model that the run held in 4 bits is held so again; otherwise it keeps the weights
            of its checkpoint.
        before_training: Called with the model before the trained weights are read; None for nothing.
    """
    recipe = folder.read_recipe()
    pinned = replace(recipe, model=_pinned(recipe.model, folder))
    weights = trained_weights(folder, recipe)
    return recipe, load_without_data(pinned, weights, device, in_4_bits=in_4_bits, before_training=before_training)


def load_without_data(
    recipe: Recipe,
    checkpoint: Path | None,
    device: torch.device,
    *,
    in_4_bits: bool = True,
    before_training: Callable[[Assembled], None] | None = None,
) -> Assembled:
    """Returns the model of a recipe with trained weights, without opening any data.

    Args:
        checkpoint: The trained weights; None keeps the pretrained ones. The others are those of `load_as_left`.
    """
    block = recipe.model
    assembled = assemble_model(block.name, recipe.train.seed, block)
    if in_4_bits and block.language_bits is not None:
        quantize_language(assembled.model, precision=resolved(recipe.train.precision, device), device=device)
        assembled.provenance["language"] += FOUR_BITS
    if before_training is not None:
        assembled.model.eval()
        before_training(assembled)
    assembled.model.requires_grad_(False)
    if checkpoint is not None:
        adapt(assembled.model, [stage.tuning for stage in recipe.stages], seed=recipe.train.seed)
        load_checkpoint(recipe, assembled.model, checkpoint)
    assembled.model.eval()
    return assembled


def trained_weights(folder: RunFolder, recipe: Recipe) -> Path | None:
    """Returns the weights that a run has trained, or began from; None where it has the pretrained ones."""
    return folder.best if folder.has_best else recipe.model.checkpoint


def place(model: Model, precision: Precision, device: torch.device) -> None:
    """Stores each weight in the type in which it is used, and only then moves the model to the device.

    The device therefore never holds more than the model that is used, however wide the weights are in their files.

    Args:
        model: The model; the parameters that any stage trains require gradients.
    """
    set_types(model, precision)
    model.to(device)


def about_weights(recipe: Recipe) -> dict[str, str]:
    """Returns the facts about the model that are written into a checkpoint next to its tensors."""
    adapters = {
        part: {name: value for name, value in asdict(how.lora).items() if name in LORA_FACTS}
        for stage in recipe.stages
        for part, how in stage.tuning.parts().items()
        if how.mode == "lora"
    }
    average = {} if recipe.train.ema_decay is None else {"ema_decay": str(recipe.train.ema_decay)}
    about = {"model": recipe.model.name, "lora": json.dumps(adapters), **average}
    if recipe.model.adapter is None:
        return about
    from medtune.models.weights.read_adapter import adapter_digest

    return {**about, "adapter": adapter_digest(recipe.model.adapter)}


def adapter_base(recipe: Recipe) -> Base:
    """Returns the model that the adapter of a run belongs to."""
    block = recipe.model
    where = base_of(block.name, block)
    if where == block.name:
        return Base(where, block.revision, block.adapter)
    from medtune.models.transformers_vlm.originals.read import is_original

    return Base(where, block.revision, block.adapter, is_plain=not is_original(where, block.revision))


def load_checkpoint(recipe: Recipe, model: Model, path: Path) -> None:
    """Reads trained weights from a file or a folder into the trainable parameters of a model."""
    fitting_facts(path, about_weights(recipe))
    load_trained(model, path)


def adapted(experiment: Experiment, checkpoint: Path | None) -> Assembled:
    """Returns the model with the adapters of all stages, in the host's memory and in the types of its files.

    Args:
        checkpoint: The file of trained weights to read; None leaves the weights as they are before training.
    """
    assembled = _fetched(experiment)
    tunings = [stage.tuning for stage in experiment.recipe.stages]
    adapt(assembled.model, tunings, seed=experiment.recipe.train.seed)
    if checkpoint is not None:
        # Before `place` narrows the weights: PiSSA takes its part out of them as they were loaded.
        load_checkpoint(experiment.recipe, assembled.model, checkpoint)
    if experiment.recipe.train.gradient_checkpointing:
        recompute_activations(assembled.model)
    return assembled


def _fetched(experiment: Experiment) -> Assembled:
    """Returns the model with its pretrained weights, in the types of its files and in the host's memory.

    Linear layers that are held in 4 bits are already on the device. Rank 0 fetches the weights first, so that the other
    ranks find them.
    """
    block, seed = _pinned(experiment.recipe.model, experiment.folder), experiment.recipe.train.seed
    show_downloads_alone()
    if experiment.rank == 0:
        assembled = assemble_model(block.name, seed, block)
        experiment.folder.note_commits(commits(_repositories(block), block.revision))
    barrier()
    if experiment.rank != 0:
        block = _pinned(block, experiment.folder)
        assembled = assemble_model(block.name, seed, block)
    if refused := cannot_divide(assembled.model, experiment.recipe):
        raise ValueError(refused)
    transform = assembled.transform
    _refuse_media(transform.kinds, experiment.prepared, block.name, lambda kind: _instead(transform, kind))
    assembled = _with_volume_cache(experiment, assembled)
    experiment.features.begin_answers()
    assembled.model.kept = experiment.features
    if block.language_bits is not None:
        quantize_language(assembled.model, precision=experiment.recipe.train.precision, device=experiment.device)
        assembled.provenance["language"] += FOUR_BITS
    return assembled


def _repositories(block: ModelBlock) -> list[str]:
    entry = zoo_entry(block.name, block.weights)
    return [each for each in (block.weights or (entry.hub.repo_id if entry.hub else None), block.language) if each]


def _pinned(block: ModelBlock, folder: RunFolder) -> ModelBlock:
    noted = [commit for where, commit in folder.commits.items() if where in _repositories(block)]
    return replace(block, revision=noted[0]) if noted else block


def _with_volume_cache(experiment: Experiment, assembled: Assembled) -> Assembled:
    if not experiment.recipe.data.cache or "volume" not in assembled.transform.kinds:
        return assembled
    from medtune.data.media.volumes.cache import VolumeCache
    from medtune.models.volumes.volume_parts import VolumeInput

    transform = assembled.transform
    if not isinstance(transform, VolumeInput):
        return assembled
    folder = experiment.volume_cache or experiment.prepared.cache_folder
    return replace(assembled, transform=replace(transform, cache=VolumeCache(folder)))


def _served(experiment: Experiment, endpoint: Endpoint) -> ServedModel:
    from medtune.models.endpoint.messages import SLICES_INSTEAD, read_kinds
    from medtune.models.endpoint.served import Served

    name = experiment.recipe.model.name
    instead: dict[MediaKind, str] = {"volume": f", or {SLICES_INSTEAD}"}
    _refuse_media(read_kinds(endpoint), experiment.prepared, name, lambda kind: instead.get(kind, ""))
    read_key(endpoint, where="model.endpoint")
    return ServedModel(experiment, Served(endpoint, experiment.folder.spending))


def _instead(transform: Transform, kind: MediaKind) -> str:
    from medtune.models.pictures import PictureInput

    takes_pictures = isinstance(transform, PictureInput)
    if kind == "volume" and (takes_pictures or "video" in transform.kinds):
        return ", or show this one slices (model.volumes_as)"
    return ", or say how many pictures this one sees (model.video_frames)" if kind == "video" and takes_pictures else ""


def _refuse_media(
    reads: Sequence[MediaKind], prepared: Prepared, model: str, instead: Callable[[MediaKind], str]
) -> None:
    if odd := sorted(prepared.kinds - set(reads)):
        raise ValueError(
            f"{prepared.root} holds {odd[0]}s; model.name {model} reads {' and '.join(f'{kind}s' for kind in reads)} "
            f"only. Take another model (`medtune list models`){instead(odd[0])}"
        )
