"""Imports peft, and bitsandbytes with it where that is installed, as far as a recipe needs them."""

import os

_UNCOMPILED = "TORCHDYNAMO_DISABLE"
"""With 1, `torch.compile` returns a function as it is. Source: torch 2.15, `torch/_dynamo/eval_frame.py`."""


def import_peft(*, uses_bitsandbytes: bool) -> None:
    """Imports peft; where nothing of bitsandbytes is used, its functions for the CPU are not made ready to be compiled.

    Making them ready imports torch's compiler, for 1 CPU s.
    """
    before = os.environ.get(_UNCOMPILED)
    if not uses_bitsandbytes:
        os.environ[_UNCOMPILED] = "1"
    try:
        import peft  # noqa: F401
    finally:
        if before is None:
            os.environ.pop(_UNCOMPILED, None)
        else:
            os.environ[_UNCOMPILED] = before
