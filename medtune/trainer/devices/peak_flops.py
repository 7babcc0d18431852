"""How many operations a GPU can do in a second at most, and how many a training has to do for a token."""

from dataclasses import dataclass

import torch
from torch import nn

from medtune.models.contract import Model
from medtune.models.tuning.plan import Precision
from medtune.models.tuning.quantize import logical_size

PEAKS: tuple[tuple[str, float], ...] = (
    ("B200", 2.25e15),
    ("H200", 989.4e12),
    ("GH200", 989.4e12),
    ("H100 PCIe", 756e12),
    ("H100 NVL", 835.5e12),
    ("H100", 989.4e12),
    ("A100", 312e12),
    ("A800", 312e12),
    ("L40S", 362.05e12),
    ("RTX 6000 Ada", 364.2e12),
    ("RTX A6000", 154.8e12),
    ("A40", 149.7e12),
    ("A30", 165e12),
    ("A10", 125e12),
    ("L4", 121e12),
    ("V100 PCIE", 112e12),
    ("V100", 125e12),
    ("T4", 65e12),
)
"""A part of the name that torch gives a GPU, and its peak in 16-bit products summed in 32 bits, without sparsity.

Names are looked for in this order, as whole words.

Source: NVIDIA's data sheets of these GPUs (Tensor Core, BFLOAT16 or FP16; halved where they state it with sparsity), as
tables of others quote them: winston-zhang-orz/gpu-specs and astroC86/gpu-datasheet for H100, H200, A100, L40S, L4, A40,
A10, V100 and T4. The sheets themselves were not at hand.
"""
IN_16_BITS: tuple[Precision, ...] = ("bf16-mixed", "16-mixed")


@dataclass(frozen=True, slots=True)
class StepWork:
    """The operations of a step of training, forward and backward: two for each weight of a product, and its gradients.

    Products of attention, towers of media and experts that lie in stacks are not counted, and nothing twice that is
    computed again in the backward pass, so that the share of a peak that comes out is a lower bound.
    """

    of_token: float
    of_target: float  # What the output layer does beside, at each target token.


def work_of(model: Model) -> StepWork:
    """Returns the operations of a model whose parameters that learn are chosen; its weights need no values."""
    whole = model.of_transformers
    inputs, outputs = (getattr(each, "weight", None) for each in (_inputs(whole), whole.get_output_embeddings()))
    decoder: nn.Module = whole.get_decoder()
    matrices = [p for p in decoder.parameters() if p.dim() == 2 and p is not inputs and p is not outputs]
    return StepWork(sum(map(_operations, matrices)), 0.0 if outputs is None else _operations(outputs))


def _inputs(whole: nn.Module) -> nn.Module | None:
    found: nn.Module | None = whole.get_input_embeddings()  # type: ignore[operator]
    return found


def _operations(weight: nn.Parameter) -> float:
    # Forward, the gradient of its input, and its own gradient where it learns.
    return 2.0 * logical_size(weight) * (3 if weight.requires_grad else 2)


def peak_of(name: str, precision: Precision) -> float | None:
    """Returns the most operations a second of a GPU, or None where it, or the peak in this precision, is not known.

    >>> peak_of("NVIDIA H100 80GB HBM3", "bf16-mixed"), peak_of("NVIDIA L40S", "bf16-mixed"), peak_of("T4", "32-true")
    (989400000000000.0, 362050000000000.0, None)
    >>> peak_of("NVIDIA L400", "bf16-mixed") is None
    True
    """
    if precision not in IN_16_BITS:
        return None
    words = name.replace("-", " ").split()
    for known, peak in PEAKS:
        own = known.split()
        if any(words[place : place + len(own)] == own for place in range(len(words))):
            return peak
    return None


def peak_here(device: torch.device, precision: Precision) -> float | None:
    """Returns the most operations a second of this process's device, or None where it is not known."""
    return peak_of(torch.cuda.get_device_name(device), precision) if device.type == "cuda" else None
