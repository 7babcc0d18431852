"""Counts exactly what a device and its host hold in a stage of training, and the tensors of a pass without values.

Weights are fake tensors (torch's FakeTensorMode): every operator of the real code runs for its shapes alone, so that
what autograd keeps, what casts copy and what is freed is that of the real pass, however large the model is. Tensors
without a fake one among the arguments, such as ids and masks, are computed for real, because code reads their values.
"""

import weakref
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.flop_counter import flop_registry

from medtune.models.tuning.apply import PartRow
from medtune.trainer.plan.gathered import Divided, gathered, gathered_to_answer
from medtune.trainer.recipe.schema import TrainBlock

WIDE_BYTES = 4
"""Bytes of a float32, in which weights that learn, their gradients and AdamW's moments are held."""
MOMENTS_BYTES = {"adamw": 8, "adamw_8bit": 2}
"""Bytes of the two moments of a weight that learns."""
BUCKET_ELEMENTS = 200_000_000
"""The gradients that DeepSpeed sends at once; the buffer has this size whatever learns.

Source: the default of lightning 2.6.6 for `reduce_bucket_size`.
"""

WEIGHTS, GRADIENTS, CASTS = "weights", "gradients", "casts of weights"
MASKS, LOGITS, ACTIVATIONS = "masks", "logits", "activations"


@dataclass(frozen=True, slots=True)
class Held:
    """Bytes that are held in a stage of training."""

    weights: float
    masters: float  # Copies of the weights that learn, which DeepSpeed's optimizer updates, on a device.
    gradients: float
    moments: float  # AdamW's two moments on a device.
    average: float
    start: float  # A copy of what learns as the stage began, on a device.
    buffers: float  # Buffers in which gradients are collected before they are sent, on a device.
    # Most bytes of whole weights, and of their gradients, that a device holds at once of what is divided.
    gathered: float
    sent: float  # Copies that are made while gradients are sent, on a device.
    # Whether gradients are sent while there still are activations; otherwise all are sent at the end of the backward
    # pass.
    sends_in_between: bool
    # Whether the buffers take memory only as gradients fill them, when activations are given up.
    buffers_fill_late: bool
    host: float  # Bytes of weights, masters, gradients and moments that a process keeps in the host's memory.


def held(
    train: TrainBlock, rows: Sequence[PartRow], divided: Divided, *, is_gpu: bool, keeps_start: bool = False
) -> Held:
    """Returns what a device holds during a stage.

    Args:
        is_gpu: Whether a device has memory of its own. A CPU is its own host, gives memory to the filled part of a
            buffer alone, and runs ZeRO-3 with the settings of `AutocastDeepSpeedStrategy` for tests.
        keeps_start: Whether what learns is also kept as it was at the beginning of the stage.

    Source: Rajbhandari et al. 2020, arXiv 1910.02054: stage 1 divides the optimizer's state, stage 2 also the
    gradients, stage 3 also the weights. Before stage 3, DeepSpeed's optimizer updates a copy of the device's share of
    the weights (`single_partition_of_fp32_groups` of deepspeed 0.19.8); with offload stage 3 has one as well.
    """
    share, stage = train.world_size, train.zero_stage
    fsdp, learning = train.strategy == "fsdp", sum(row.trainable for row in rows)
    weights = sum(row.stored_bytes for row in rows) / (share if train.divides_weights else 1)
    part = WIDE_BYTES * learning / share
    masters = part if stage in (1, 2) or (stage == 3 and train.offloads) else 0.0
    gradients = part if stage >= 2 or fsdp else WIDE_BYTES * learning
    moments = MOMENTS_BYTES[train.optimizer] * learning / (share if stage >= 1 or fsdp else 1)
    copy = WIDE_BYTES * learning / (share if train.divides_weights else 1)
    average = copy if train.ema_decay is not None else 0.0
    # Stages 1 and 2 fill one buffer while the other one is sent.
    buckets = BUCKET_ELEMENTS * {0: 0, 1: 2, 2: 2, 3: 1}[stage]
    buffers = WIDE_BYTES * (buckets if is_gpu else min(buckets, learning))
    offloaded = train.offloads and is_gpu
    on_host = 0.0
    if train.offloads:
        # Stage 2 keeps the weights that it sends back beside the masters, stage 3 collects gradients in a buffer first.
        gradients = 2 * part if stage == 3 else gradients
        masters = 2 * part if stage == 2 else masters
        on_host = masters + gradients + moments + (weights if stage == 3 else 0.0)
    return Held(
        weights=0.0 if offloaded and stage == 3 else weights,
        masters=0.0 if offloaded else masters,
        gradients=0.0 if offloaded else gradients,
        moments=0.0 if offloaded else moments,
        average=average,
        start=copy if keeps_start else 0.0,
        buffers=float(buffers),
        gathered=gathered(train, divided, is_gpu=is_gpu),
        sent=float(WIDE_BYTES * min(BUCKET_ELEMENTS, learning) * _copies_sent(stage, is_gpu=is_gpu)),
        sends_in_between=learning > BUCKET_ELEMENTS,
        # Stage 3 keeps its buffer from step to step.
        buffers_fill_late=not is_gpu and stage in (1, 2) and learning <= BUCKET_ELEMENTS,
        host=on_host if offloaded else 0.0,
    )


def after_step(train: TrainBlock, kept: Held, divided: Divided) -> Held:
    """Returns what a device holds between two steps, when questions are answered.

    DeepSpeed's stages 1 and 2 let go of gradients and buffers after a step. Divided weights are gathered as in a
    training, but without gradients and without gathering ahead.
    """
    lets_go = train.zero_stage in (1, 2)
    divides = train.divides_weights and train.world_size > 1
    return replace(
        kept,
        gradients=0.0 if lets_go and not train.offloads else kept.gradients,
        buffers=0.0 if lets_go else kept.buffers,
        gathered=gathered_to_answer(divided, train.strategy) if divides else 0.0,
        sent=0.0,
    )


def _copies_sent(stage: int, *, is_gpu: bool) -> int:
    """Returns how many copies of a filled buffer of gradients are made while it is sent.

    Source: `_flatten` in `average_tensor` of stage 2, and `reduce_scatter_coalesced` of stage 3 of deepspeed 0.19.8;
    gloo makes one more for a reduce-scatter.
    """
    if stage < 2:
        return 0
    return 1 if stage == 2 or is_gpu else 2


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
