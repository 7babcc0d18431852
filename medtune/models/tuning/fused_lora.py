"""A layer with LoRA whose adapter is added within the products, and not beside them.

peft multiplies the adapter's output by its scale, adds it to the layer's, and adds up two gradients of the input: five
passes over tensors as wide as the layer, which cost a short row on a CPU as much as half a product. Products that add
to what is there need none of them. Layer and adapter stay apart, so that a sum is rounded as peft's is.

Shape legend: N tokens, X inputs, Y outputs, R rank.
"""

from typing import Any

import torch
from peft.tuners.lora.layer import Linear
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.distributed.tensor import DTensor

_ADAPTER = "default"


class FusedLinear(Linear):  # type: ignore[misc]
    """peft's layer, which computes otherwise where weights in float32 lie in the host's memory and the adapter learns.

    Everywhere else it is peft's own.
    """

    def forward(self, x: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        if args or kwargs or not torch.is_grad_enabled() or not _fuses(self, x):
            found: Tensor = super().forward(x, *args, **kwargs)
            return found
        dropout = self.lora_dropout[_ADAPTER]
        seen = x if isinstance(dropout, nn.Identity) or not dropout.training else dropout(x)
        base: Any = self.get_base_layer()
        given = (base.weight, base.bias, self.lora_A[_ADAPTER].weight, self.lora_B[_ADAPTER].weight)
        made_NY: Tensor = _Fused.apply(x, None if seen is x else seen, *given, self.scaling[_ADAPTER])
        # What a function of one's own returns may not be changed in place where it is a view of something.
        return made_NY.reshape(*x.shape[:-1], -1)


def fuse(layer: nn.Module) -> None:
    """Lets a layer that peft has adapted compute its adapter within its products; other layers stay as they are."""
    if type(layer) is Linear:
        layer.__class__ = FusedLinear


def _fuses(layer: FusedLinear, x: Tensor) -> bool:
    base: Any = layer.get_base_layer()
    if type(base) is not nn.Linear or "forward" in base.__dict__ or layer.merged or layer.disable_adapters:
        return False
    if layer.active_adapters != [_ADAPTER] or layer.lora_variant or base.weight.requires_grad:
        return False
    if torch.is_autocast_enabled(x.device.type):
        return False
    weights = [base.weight, layer.lora_A[_ADAPTER].weight, layer.lora_B[_ADAPTER].weight]
    biased = layer.lora_B[_ADAPTER].bias is not None or (base.bias is not None and base.bias.requires_grad)
    return not biased and all(
        each.dtype == torch.float32 and each.device.type == "cpu" and not isinstance(each, DTensor)
        # ZeRO-3 gathers a weight when the module that holds it is called.
        and not hasattr(each, "ds_id")
        for each in (x, *weights)
    )  # fmt: skip


class _Fused(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, x: Tensor, dropped: Tensor | None, weight_YX: Tensor, bias_Y: Tensor | None, a_RX: Tensor,
        b_YR: Tensor, scale: float,
    ) -> Tensor:  # fmt: skip
        x_NX = x.reshape(-1, x.shape[-1])
        seen_NX = x_NX if dropped is None else dropped.reshape(-1, x.shape[-1])
        inner_NR = seen_NX @ a_RX.t()
        made_NY = x_NX @ weight_YX.t() if bias_Y is None else torch.addmm(bias_Y, x_NX, weight_YX.t())
        made_NY.addmm_(inner_NR, b_YR.t(), alpha=scale)
        ctx.save_for_backward(seen_NX, inner_NR, weight_YX, a_RX, b_YR)
        ctx.scale, ctx.drops, ctx.shape = scale, dropped is not None, x.shape
        return made_NY

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        seen_NX, inner_NR, weight_YX, a_RX, b_YR = ctx.saved_tensors
        gradient_NY = gradients[0]
        of_inner_NR = gradient_NY @ b_YR
        of_inner_NR *= ctx.scale
        of_a_RX = of_inner_NR.t() @ seen_NX
        of_b_YR = gradient_NY.t() @ inner_NR
        of_b_YR *= ctx.scale
        of_x, of_dropped = None, None
        if ctx.needs_input_grad[0]:
            of_x = gradient_NY @ weight_YX
            if not ctx.drops:
                of_x.addmm_(of_inner_NR, a_RX)
            of_x = of_x.reshape(ctx.shape)
        if ctx.drops and ctx.needs_input_grad[1]:
            of_dropped = (of_inner_NR @ a_RX).reshape(ctx.shape)
        return of_x, of_dropped, None, None, of_a_RX, of_b_YR, None
