"""Records the outputs of a module's submodules during a forward pass, without changing the module."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from torch import Tensor, nn


@contextmanager
def recorded(module: nn.Module, points: Mapping[str, str]) -> Iterator[dict[str, Tensor]]:
    """Yields a dictionary that each forward pass fills with the outputs of submodules.

    Args:
        module: The module that is run.
        points: Path of each submodule in the module, by the name under which its output is recorded.
    """
    seen: dict[str, Tensor] = {}

    def keep(name: str) -> object:
        def hook(_: nn.Module, __: object, output: Tensor | tuple[Tensor, ...]) -> None:
            seen[name] = output[0] if isinstance(output, tuple) else output

        return hook

    handles = [module.get_submodule(path).register_forward_hook(keep(name)) for name, path in points.items()]  # type: ignore[arg-type]
    try:
        yield seen
    finally:
        for handle in handles:
            handle.remove()
