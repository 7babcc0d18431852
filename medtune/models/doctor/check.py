"""The record of one check, and the largest differences that the number format of a model explains."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

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


@dataclass(frozen=True, slots=True)
class Check:
    """The result of one check.

    Attributes:
        name: Name of the check, such as "image tokens".
        passed: Whether it passed; None where it does not apply.
        detail: The figure that was found, the first difference, or the reason why the check does not apply.
    """

    name: str
    passed: bool | None
    detail: str


Finding = tuple[bool | None, str]
"""The fields `passed` and `detail` of a check."""


def checked(name: str, look: Callable[[], Finding]) -> Check:
    """Returns the result of a check; an error while it is made is a failure."""
    try:
        passed, detail = look()
    except FAULTS as error:
        said = " ".join(str(error).split())
        return Check(name, False, f"stopped by {type(error).__name__}: {said[:400] or 'no message'}")
    return Check(name, passed, detail)


def computing_type(model: nn.Module, narrowed_to: torch.dtype | None) -> torch.dtype:
    """Returns the number format that decides how exact a model's answers are.

    Args:
        model: The model.
        narrowed_to: The number format of autocast; None where the model runs without it.
    """
    held = {p.dtype for p in model.parameters() if p.dtype in TOLERANCE} | ({narrowed_to} if narrowed_to else set())
    return next((dtype for dtype in (torch.bfloat16, torch.float16) if dtype in held), torch.float32)
