"""Lets models be assembled with weights that stay in their files, and says how each is converted when it is read.

A tensor of a file is mapped into memory: it takes none until its values are asked for, and then the pages of the file,
which all processes of a machine share. Whatever would make a copy in memory, such as another number format, is
therefore put off until the weight is divided, when only one unit of the model is converted at a time.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import partial

import torch
from torch import Tensor, nn

Conversion = Callable[[Tensor], Tensor]
_IS_UNREAD: ContextVar[bool] = ContextVar("weights stay in their files", default=False)
_CONVERSIONS = "_medtune_conversions"


@contextmanager
def leaving_weights_unread(wanted: bool = True) -> Iterator[None]:
    """Makes the models that are assembled while the context lasts keep their weights in their files.

    Args:
        wanted: False makes them read their weights at once, also inside of another such context.
    """
    token = _IS_UNREAD.set(wanted)
    try:
        yield
    finally:
        _IS_UNREAD.reset(token)


def weights_stay_unread() -> bool:
    """Returns whether a model that is assembled now is to keep its weights in their files."""
    return _IS_UNREAD.get()


def convert_when_read(parameter: nn.Parameter, conversion: Conversion) -> None:
    """Lets a parameter be converted when it is read, after the conversions that were stated before."""
    setattr(parameter, _CONVERSIONS, (*getattr(parameter, _CONVERSIONS, ()), conversion))


def rounded_when_read(parameter: nn.Parameter, dtype: torch.dtype) -> None:
    """Lets a parameter of floating-point numbers get a type when it is read, as if it had been loaded in that type."""
    if parameter.is_floating_point() and parameter.dtype != dtype:
        convert_when_read(parameter, partial(_in_dtype, dtype))


def read(parameter: nn.Parameter) -> Tensor:
    """Returns the values of a parameter with its conversions done; it stays as it is."""
    found = parameter.detach()
    conversions: tuple[Conversion, ...] = getattr(parameter, _CONVERSIONS, ())
    for conversion in conversions:
        found = conversion(found)
    return found


def is_only_rounded(parameter: nn.Parameter) -> bool:
    """Returns whether a parameter holds its values already, up to their rounding to another type."""
    conversions: tuple[Conversion, ...] = getattr(parameter, _CONVERSIONS, ())
    return all(isinstance(each, partial) and each.func is _in_dtype for each in conversions)


def forget_conversions(parameter: nn.Parameter) -> None:
    """Says that a parameter holds the values that it is used with."""
    if hasattr(parameter, _CONVERSIONS):
        delattr(parameter, _CONVERSIONS)


def _in_dtype(dtype: torch.dtype, values: Tensor) -> Tensor:
    return values.to(dtype)
