"""Computes whether a run fits into the memory of a device.

The bytes of weights, gradients and optimizer state are exact; those of activations are an estimate.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass

import torch

from medtune.models.contract import Model
from medtune.models.tuning.apply import PartRow
from medtune.models.tuning.precision import NARROW
from medtune.trainer.recipe.schema import Recipe

GB = 1e9
LEARNING_BYTES = 4
"""Bytes of a float32, in which weights that learn, their gradients and AdamW's moments are held."""
ACTIVATION_BYTES = 34
"""Bytes of activations for one token in one layer, per unit of the hidden width.

They are stored with 16 bits, nothing is recomputed, and attention is computed block by block.

Source: Korthikanti et al. 2022, arXiv 2205.05198, section 4.1, without the term of the attention matrix.
"""
RECOMPUTED_BYTES = 2
"""The same if layers are recomputed in the backward pass, which then stores only the input of each layer.

The full activations of one layer at a time come on top. Source: the same paper, section 5.
"""
LARGE = 1_000_000_000
"""The number of parameters above which a run needs a GPU; without one, a step would take minutes."""


@dataclass(frozen=True, slots=True)
class Memory:
    """The memory that a run needs on one device, in units of 10^9 bytes.

    Attributes:
        weights_gb: Memory of the pretrained weights and adapters, in GB.
        learning_gb: Memory of the gradients and of AdamW's two moments for the trained parameters, in GB, and of the
            copy of these parameters that DeepSpeed's stages 1 and 2 keep.
        activations_gb: Memory of the activations for a thousand tokens in one training pass, in GB.
        parameters: The number of parameters of the whole model.
    """

    weights_gb: float
    learning_gb: float
    activations_gb: float
    parameters: int


@dataclass(frozen=True, slots=True)
class Devices:
    """The devices that a run may use.

    Attributes:
        count: The number of devices, at least 1.
        name: The name of the device, for messages.
        memory_gb: Memory of one device, in GB.
        is_gpu: False if the only device is the CPU.
    """

    count: int
    name: str
    memory_gb: float
    is_gpu: bool = True


def parse_devices(text: str) -> Devices:
    """Returns the devices that a text such as "4xA6000-48GB" describes.

    Raises:
        ValueError: The text does not have the form NxNAME-SIZEGB.

    Example:
        >>> parse_devices("4xA6000-48GB")
        Devices(count=4, name='A6000', memory_gb=48.0, is_gpu=True)
    """
    found = re.fullmatch(r"(?:(\d+)x)?([\w. -]+?)-(\d+(?:\.\d+)?)GB", text)
    if found is None:
        raise ValueError(f"--devices {text!r}: expected NxNAME-SIZEGB, for instance 4xA6000-48GB")
    return Devices(int(found[1] or 1), found[2], float(found[3]))


def this_machine() -> Devices:
    """Returns this machine's GPUs or, if it has none, its CPU with the machine's memory."""
    if torch.cuda.is_available():
        first = torch.cuda.get_device_properties(0)
        return Devices(torch.cuda.device_count(), first.name, first.total_memory / GB)
    return Devices(1, "CPU", os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / GB, is_gpu=False)


def memory_of(recipe: Recipe, model: Model, rows: Sequence[PartRow]) -> Memory:
    """Returns the memory that the run needs on one device; ZeRO divides parts of it among the devices.

    Args:
        recipe: The recipe.
        model: The model, whose weights have the types in which they are used, as `set_types` leaves them. It may be on
            the meta device.
        rows: The table of its parts.

    Source: Rajbhandari et al. 2020, arXiv 1910.02054: stage 1 divides the optimizer's state, stage 2 also the
    gradients, stage 3 also the weights. Before stage 3, DeepSpeed's optimizer updates a copy of the device's share of
    the weights (`single_partition_of_fp32_groups` of deepspeed 0.19.8).
    """
    share = recipe.train.devices
    stage = int(recipe.train.strategy[-1]) if recipe.train.strategy.startswith("deepspeed") else 0
    learning = sum(row.trainable for row in rows)
    moments = 2 * LEARNING_BYTES * learning if recipe.train.optimizer == "adamw" else 2 * learning
    copied = LEARNING_BYTES * learning if stage in (1, 2) else 0
    gradients = LEARNING_BYTES * learning
    decoder = model.of_transformers.config.get_text_config()
    layers = decoder.num_hidden_layers
    kept = RECOMPUTED_BYTES * layers + ACTIVATION_BYTES
    per_width = kept if recipe.train.gradient_checkpointing else ACTIVATION_BYTES * layers
    wider = 1 if recipe.train.precision in NARROW else 2
    return Memory(
        weights_gb=sum(row.stored_bytes for row in rows) / (share if stage == 3 else 1) / GB,
        learning_gb=(gradients / (share if stage >= 2 else 1) + (moments + copied) / (share if stage >= 1 else 1)) / GB,
        activations_gb=1000 * per_width * wider * decoder.hidden_size / GB,
        parameters=sum(row.parameters for row in rows),
    )


def memory_text(memory: Memory, devices: Devices) -> str:
    """Returns the needed memory and the devices as two lines of text."""
    return (
        f"memory     per device: weights {memory.weights_gb:.1f} GB + gradients and optimizer "
        f"{memory.learning_gb:.1f} GB + about {memory.activations_gb:.1f} GB per 1000 tokens of a training pass\n"
        f"           {memory.parameters / 1e9:.2f} billion parameters; there is {devices.count} x {devices.name} with "
        f"{devices.memory_gb:.0f} GB"
    )


def missing_memory(memory: Memory, devices: Devices) -> str | None:
    """Returns a message that says how much memory is missing; None if the run fits."""
    least = memory.weights_gb + memory.learning_gb + memory.activations_gb
    wanted = f"GPU memory: at least {least:.0f} GB per device (the line `memory` above, with 1000 tokens in a pass)"
    if not devices.is_gpu and memory.parameters > LARGE:
        return f"{wanted}; there is no GPU here. Name the machine that will run it: --devices 1xH100-80GB"
    if least > devices.memory_gb:
        return (
            f"{wanted}; {devices.name} has {devices.memory_gb:.0f} GB. Set train.precision=bf16-mixed if it is not "
            "set, hold the language model in 4 bits with model.language_bits=4, spread the weights with "
            "train.strategy=deepspeed_stage_3, or take a larger device"
        )
    return None
