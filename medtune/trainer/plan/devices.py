"""The machines that a run may use: how many, with how many devices, and how much memory a device has."""

import os
import re
from dataclasses import dataclass, replace

import torch

from medtune.trainer.losses import compares_with_start
from medtune.trainer.plan.held import MOMENTS_BYTES, WIDE_BYTES
from medtune.trainer.recipe.schema import Recipe

GB = 1e9

_NARROW_BYTES = 2
"""Bytes of a weight in 16 bits."""


@dataclass(frozen=True, slots=True)
class Devices:
    """The devices that a run may use."""

    count: int  # The number of devices of each machine, at least 1.
    name: str  # The name of the device, for messages.
    memory_gb: float  # Memory of one device, in GB.
    is_gpu: bool = True  # False if the only device is the CPU.
    nodes: int = 1

    def __str__(self) -> str:
        """Returns the devices in the form that `parse_devices` reads, without the memory."""
        return f"{f'{self.nodes} x ' if self.nodes > 1 else ''}{self.count} x {self.name}"


def parse_devices(text: str) -> Devices:
    """Returns the devices that a text such as "4xA6000-48GB" or "2x8xA100-80GB" describes.

    >>> parse_devices("2x8xA100-80GB")
    Devices(count=8, name='A100', memory_gb=80.0, is_gpu=True, nodes=2)
    """
    found = re.fullmatch(r"(?:(?:(\d+)x)?(\d+)x)?([\w. -]+?)-(\d+(?:\.\d+)?)GB", text)
    if found is None or "0" in (found[1], found[2]):
        raise ValueError(
            f"--devices {text!r}: expected NxNAME-SIZEGB, for instance 4xA6000-48GB, or with the number of machines in "
            "front 2x8xA100-80GB"
        )
    return Devices(int(found[2] or 1), found[3], float(found[4]), nodes=int(found[1] or 1))


def this_machine() -> Devices:
    """Returns this machine's GPUs or, if it has none, its CPU with the machine's memory."""
    if torch.cuda.is_available():
        first = torch.cuda.get_device_properties(0)
        return Devices(torch.cuda.device_count(), first.name, first.total_memory / GB)
    return Devices(1, "CPU", os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / GB, is_gpu=False)


def on_devices(recipe: Recipe, devices: Devices) -> Recipe:
    """Returns the recipe with the named numbers of machines and devices."""
    return replace(recipe, train=replace(recipe.train, nodes=devices.nodes, devices=devices.count))


def on_disk(recipe: Recipe, learnt: int, adapters: int, *, cached: float) -> dict[str, float]:
    """Returns the bytes that a run writes, by what they are for.

    Args:
        cached: Bytes of the volumes that are kept prepared.
    """
    trained = float(WIDE_BYTES * learnt)
    average = trained if recipe.train.ema_decay is not None else 0.0
    start = trained if any(compares_with_start(stage.loss) for stage in recipe.stages) else 0.0
    state = trained + MOMENTS_BYTES[recipe.train.optimizer] * learnt + average + start
    starts = {how.lora.init for stage in recipe.stages for how in stage.tuning.parts().values() if how.mode == "lora"}
    pissa = float(WIDE_BYTES * adapters) if "pissa" in starts else 0.0
    # The best and the last ones, those after each earlier stage, and one while it is written.
    files = len(recipe.stages) + 2
    return {
        "trained weights (one while it is written)": files * (trained + pissa) + pissa,
        "adapter in PEFT's format (two while it is written)": 2 * trained if _has_peft_adapter(recipe, pissa) else 0.0,
        "states (two while one is written)": 2.0 * state,
        "cache of volumes": cached,
    }


def exported(recipe: Recipe, parameters: int, learnt: int) -> dict[str, float]:
    """Returns the bytes that `medtune export` writes after the run, by how it is asked."""
    merged = {"merged in 16 bits": float(_NARROW_BYTES * parameters), "in float32": float(WIDE_BYTES * parameters)}
    return merged | ({"--adapter": float(WIDE_BYTES * learnt)} if _has_peft_adapter(recipe, 0.0) else {})


def _has_peft_adapter(recipe: Recipe, pissa: float) -> bool:
    adapted = any(stage.tuning.language.mode == "lora" for stage in recipe.stages)
    return adapted and not pissa and recipe.model.adapter is None
