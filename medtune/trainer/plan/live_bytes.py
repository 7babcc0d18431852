"""Counts the bytes of the tensors that live in a pass without values.

Weights are fake tensors (torch's FakeTensorMode): every operator of the real code runs for its shapes alone, so that
what autograd keeps, what casts copy and what is freed is that of the real pass, however large the model is. Tensors
without a fake one among the arguments, such as ids and masks, are computed for real, because code reads their values.
"""

import weakref
from collections import Counter
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.flop_counter import flop_registry

WEIGHTS, GRADIENTS, CASTS = "weights", "gradients", "casts of weights"
MASKS, LOGITS, ACTIVATIONS = "masks", "logits", "activations"


class LiveBytes(TorchDispatchMode):
    """Follows every tensor that is made while the mode is on, until it is freed.

    Args:
        vocabulary: Number of tokens that the output layer knows, by which logits are told from other tensors.

    Attributes:
        now: Bytes that live now, by kind.
        most: Bytes that lived, by kind, when all of them together were most.
        products: Multiplications and additions of products and convolutions so far.
    """

    def __init__(self, fake: FakeTensorMode, *, vocabulary: int) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.fake = fake
        self.now: Counter[str] = Counter()
        self.most: Counter[str] = Counter()
        self.products = 0.0
        self._vocabulary = vocabulary
        self._known: dict[int, tuple[str, Any]] = {}

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        # Otherwise torch's compiler, which is not used, would be imported.
        return False

    def hold(self, tensor: Tensor, kind: str) -> None:
        self._follow(tensor, kind)

    def named(self, tensor: Tensor, kind: str) -> None:
        """Gives a tensor that is counted already another kind."""
        key = id(tensor.untyped_storage())
        if key in self._known:
            before, reference = self._known[key]
            size = tensor.untyped_storage().nbytes()
            self.now[before] -= size
            self.now[kind] += size
            self._known[key] = (kind, reference)

    def forget_peak(self) -> None:
        """Begins to look for the largest sum anew."""
        self.most = Counter(self.now)

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        """Runs an operator, for its shapes alone where an argument has no values, and counts what it returns."""
        keywords = dict(kwargs or {})
        given = [each for each in tree_leaves((args, keywords)) if isinstance(each, Tensor)]
        if any(isinstance(each, FakeTensor) for each in given):
            with self.fake:
                made = func(*args, **keywords)
        else:
            made = func(*args, **keywords)
        if (count := flop_registry.get(getattr(func, "_overloadpacket", None))) is not None:
            self.products += count(*args, **keywords, out_val=made)
        for tensor in tree_leaves(made):
            if isinstance(tensor, Tensor):
                self._follow(tensor, self._kind(func, tensor, given))
        return made

    def _kind(self, func: Any, made: Tensor, given: list[Tensor]) -> str:
        if func is torch.ops.aten._to_copy.default and self._is_weight(given[0]):
            return CASTS
        if made.dim() >= 2 and made.shape[-1] == self._vocabulary:
            return LOGITS
        if made.dim() >= 3 and made.shape[-1] == made.shape[-2] and not isinstance(made, FakeTensor):
            return MASKS
        return ACTIVATIONS

    def _is_weight(self, tensor: Tensor) -> bool:
        return self._known.get(id(tensor.untyped_storage()), ("", None))[0] == WEIGHTS

    def _follow(self, tensor: Tensor, kind: str) -> None:
        storage = tensor.untyped_storage()
        key, size = id(storage), storage.nbytes()
        if key in self._known or size == 0:
            return
        self._known[key] = (kind, weakref.ref(storage, lambda _: self._freed(key, size)))
        self.now[kind] += size
        if self.now.total() > self.most.total():
            self.most = Counter(self.now)

    def _freed(self, key: int, size: int) -> None:
        kind, _ = self._known.pop(key)
        self.now[kind] -= size


def without_values(model: nn.Module, fake: FakeTensorMode) -> None:
    """Gives every parameter and buffer a fake tensor of its type and shape, in place; tied ones stay tied."""
    made: dict[int, Tensor] = {}

    def faked(tensor: Tensor) -> Tensor:
        if id(tensor) not in made:
            with fake:
                empty = torch.empty(tensor.shape, dtype=tensor.dtype, device="cpu")
            made[id(tensor)] = (
                nn.Parameter(empty, requires_grad=tensor.requires_grad) if isinstance(tensor, nn.Parameter) else empty
            )
        return made[id(tensor)]

    for module in model.modules():
        for name, parameter in module._parameters.items():
            if parameter is not None:
                module._parameters[name] = faked(parameter)  # type: ignore[assignment]
        for name, buffer in module._buffers.items():
            if buffer is not None:
                module._buffers[name] = faked(buffer)
