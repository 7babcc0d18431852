"""The results of a proof, and the differences that are put down to rounding."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from torch import nn

TOLERANCE: Mapping[torch.dtype, float] = {torch.float32: 1e-3, torch.float16: 0.03, torch.bfloat16: 0.25}
"""The largest difference between two log-probabilities of one token that is put down to rounding.

A log-probability is computed from logits, whose size is about 16 to 32. Neighbouring numbers of that size are 0.125
apart in bfloat16 and 0.016 apart in float16; two such distances are allowed. In float32 they are 2e-6 apart, and what
counts is the order in which a few thousand products are summed up.
"""

FAULTS = (ArithmeticError, AssertionError, AttributeError, LookupError, OSError, RuntimeError, TypeError, ValueError)
"""The errors that a model with a fault may raise while it is checked."""
Finding = tuple[bool | None, str]
"""The fields `passed` and `detail` of a check."""


class Apart(NamedTuple):
    """How far log-probabilities of the same answers lie apart, in natural logarithms, over all tokens."""

    mean: float  # The mean difference.
    largest: float  # The largest difference.


EXPORT_TOLERANCE = {"float32": Apart(1e-4, 1e-3), "bfloat16": Apart(0.1, 0.5), "float16": Apart(0.02, 0.1)}
"""The largest allowed differences by the number format of the export.

In float32 two programs differ by the order of their sums alone. In 16 bits the merged weights are rounded, and each
layer rounds its output: to 8 significant bits in bfloat16, and to 11 in float16. Twins of two layers differ by 0.014 in
bfloat16 and 0.0016 in float16; such errors grow like the root of the number of layers, about fourfold for 30, and the
tolerances leave room for at least twice that.

Source: measured on four twins and on pocket; docs/export.md has the figures.
"""


def apart(left: Sequence[Sequence[float]], right: Sequence[Sequence[float]]) -> Apart:
    """Returns how far two models' log-probabilities lie apart.

    >>> apart([[-1.0, -2.0]], [[-1.5, -2.0]])
    Apart(mean=0.25, largest=0.5)
    """
    differences = np.abs(np.concatenate(list(map(np.asarray, left))) - np.concatenate(list(map(np.asarray, right))))
    # A value that is not a number must not pass for a small difference.
    return Apart(
        float(np.nan_to_num(differences, nan=np.inf).mean()), float(np.nan_to_num(differences, nan=np.inf).max())
    )


@dataclass(frozen=True, slots=True)
class Check:
    """The result of one check."""

    name: str  # Name of the check, such as "image tokens".
    passed: bool | None  # Whether it passed; None where it does not apply.
    detail: str  # The figure that was found, the first difference, or the reason why the check does not apply.


def checked(name: str, look: Callable[[], Finding]) -> Check:
    """Returns the result of a check; an error while it is made is a failure."""
    try:
        passed, detail = look()
    except FAULTS as error:
        said = " ".join(str(error).split())
        return Check(name, False, f"stopped by {type(error).__name__}: {said[:400] or 'no message'}")
    return Check(name, passed, detail)


def computing_type(model: nn.Module, narrowed_to: torch.dtype | None) -> torch.dtype:
    """Returns the number format that decides how exact a model's answers are."""
    held = {p.dtype for p in model.parameters() if p.dtype in TOLERANCE} | ({narrowed_to} if narrowed_to else set())
    return next((dtype for dtype in (torch.bfloat16, torch.float16) if dtype in held), torch.float32)
