"""The values of a model's parameters that learn, as this rank holds them: read, kept elsewhere and written back."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from torch import Tensor, nn
from torch.distributed.fsdp import FSDPModule

from medtune.models.weights.divided_files import Piece, held_piece, local_part


def learning(model: nn.Module) -> list[nn.Parameter]:
    """Returns the parameters that learn, in the model's order."""
    return [parameter for parameter in model.parameters() if parameter.requires_grad]


def held_values(model: nn.Module) -> list[Tensor]:
    """Returns the values themselves, no copies: where weights are divided among devices, this rank's share of them."""
    return [local_part(parameter).detach() for parameter in learning(model)]


def write_values(model: nn.Module, values: Sequence[Tensor]) -> None:
    """Writes values of the same form into the model, in place."""
    for tensor, value in zip(held_values(model), values, strict=True):
        tensor.copy_(value)
    for part in model.modules():
        if isinstance(part, FSDPModule):
            # What was gathered before still has the other values.
            part.reshard()
    # ZeRO-3 keeps small parameters whole on every device; these are put together again, as after a step.
    whole: list[Any] = [each for each in learning(model) if getattr(each, "ds_persist", False)]
    if whole:
        whole[0].partition(whole)
        whole[0].all_gather(whole)


def value_pieces(model: nn.Module, values: Sequence[Tensor]) -> dict[str, Piece]:
    """Returns values of the same form as pieces, under the parameters' names, for a saved state."""
    held = {name: held_piece(p) for name, p in model.named_parameters() if p.requires_grad}
    return {
        name: replace(piece, values_N=value.view(-1)[: piece.count])
        for (name, piece), value in zip(held.items(), values, strict=bool(values))
        if piece is not None
    }
