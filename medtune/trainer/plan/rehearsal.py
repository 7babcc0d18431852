"""Rehearses a pass of the real model without values, and counts the bytes that live when they are most.

A deep decoder is rehearsed with a few of its layers: what each further layer of a kind adds is what the last one added.
"""

from collections import Counter
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode

from medtune.models.contract import MediaBatch, Model
from medtune.models.transformers_vlm.visual_tokens import VisualTokens
from medtune.models.tuning.apply import recompute_activations
from medtune.models.tuning.plan import Precision
from medtune.models.tuning.quantize import is_quantized, precise
from medtune.trainer.losses import Loss, of_step
from medtune.trainer.plan.gathered import PassSize, rows_of
from medtune.trainer.plan.live_bytes import GRADIENTS, WEIGHTS, LiveBytes, without_values
from medtune.trainer.training.batches import MicroBatch

ENCODING, ALL = "encoding", "all"
"""The names of what is counted as products."""
WHOLE_UP_TO = 12
"""The number of layers up to which all of them are rehearsed."""


@dataclass(frozen=True, slots=True)
class Pass:
    """What a pass holds beside the weights and gradients, when all of it together is most."""

    bytes: Counter[str]  # Bytes by kind: activations, masks, logits, casts of weights.
    visual_tokens: int  # Tokens with which a media item stands in a row; 0 where no media were shown.
    products: Counter[str]  # Multiplications and additions, of encoding the media and of all.
    kept_bytes: int = 0  # Bytes that the model keeps of a media item.


class _Fake(FakeTensorMode):
    """Looks once for a GPU, and not whenever it is entered, which is before each operator of a rehearsal."""

    @cached_property
    def avoid_device_init(self) -> bool:
        return super().avoid_device_init


class Rehearsal:
    """A model whose passes can be rehearsed; its weights are given up.

    Args:
        model: The model with its adapters, in the types of the precision; parameters that learn require gradients.
        recompute: Whether the layers are computed again in the backward pass.
        cached_casts: Whether torch.autocast keeps its copies of weights until the pass ends.

    Attributes:
        model: The model, whose weights have no values any more.
    """

    def __init__(self, model: Model, *, precision: Precision, recompute: bool, cached_casts: bool) -> None:
        self._fake = _Fake(allow_non_fake_inputs=True)
        self._precise = precise(precision, torch.device("cpu"))
        self._cached_casts = cached_casts
        self._compute = torch.float32 if precision == "32-true" else torch.bfloat16
        output: Any = model.of_transformers.get_output_embeddings()
        self._vocabulary = int(output.weight.shape[0])
        self.model = model
        decoder: Any = model.of_transformers.get_decoder()
        self._decoder = decoder
        self._layers: list[nn.Module] = list(decoder.layers)
        self._lengths = _prefixes(self._kinds())
        # The layers behind these are never run.
        decoder.layers = nn.ModuleList(self._layers[: max(self._lengths)])
        _unpack_in_forward(model, self._fake, self._compute)
        without_values(model, self._fake)
        if recompute:
            recompute_activations(model)
        decoder.layers = nn.ModuleList(self._layers)

    def train(self, size: PassSize, media: MediaBatch | None, loss: Loss) -> Pass:
        """Returns what a training pass holds whose gradients are added to those that are there already."""
        return self._extended(size, media, loss)

    def read(self, size: PassSize, media: MediaBatch | None) -> Pass:
        """Returns what a pass of an evaluation holds."""
        return self._extended(size, media, None)

    def _extended(self, size: PassSize, media: MediaBatch | None, loss: Loss | None) -> Pass:
        kinds, lengths = self._kinds(), self._lengths
        runs = [self._run(size, media, loss, layers=length) for length in lengths]
        if len(runs) == 1:
            return runs[0]
        names = sorted(set(kinds))
        counted = np.array([[1, *(kinds[:length].count(name) for name in names)] for length in lengths], float)
        wanted = np.array([1, *(kinds.count(name) for name in names)], float)

        def extended(each: Callable[[Pass], Counter[str]]) -> Counter[str]:
            found: Counter[str] = Counter()
            for what in {name for run in runs for name in each(run)}:
                solved, *_ = np.linalg.lstsq(counted, np.array([each(run)[what] for run in runs], float), rcond=None)
                found[what] = max(0, round(float(wanted @ solved)))
            return found

        return Pass(extended(lambda run: run.bytes), runs[0].visual_tokens, extended(lambda run: run.products))

    def kept_bytes(self, media: MediaBatch) -> int:
        """Returns the bytes of what the model keeps of the first of some media items; 0 where it keeps nothing."""
        if not self.model.kept_parts:
            return 0
        with LiveBytes(self._fake, vocabulary=self._vocabulary), torch.no_grad(), self._precise():
            return sum(each.numel() * each.element_size() for each in self.model.made(media[:1])[0])

    def _kinds(self) -> list[str]:
        types = getattr(self.model.of_transformers.config.get_text_config(), "layer_types", None)
        names = [type(layer).__name__ for layer in self._layers]
        return names if types is None else [f"{name} {kind}" for name, kind in zip(names, types, strict=True)]

    def _run(self, size: PassSize, media: MediaBatch | None, loss: Loss | None, *, layers: int) -> Pass:
        model, learns = self.model, loss is not None
        self._decoder.layers = nn.ModuleList(self._layers[:layers])
        model.train(learns)
        live = LiveBytes(self._fake, vocabulary=self._vocabulary)
        held = [*model.parameters(), *model.buffers()]
        for tensor in held:
            live.hold(tensor, WEIGHTS)
        with self._fake:
            for parameter in model.parameters():
                if learns and parameter.requires_grad:
                    parameter.grad = torch.empty_like(parameter)
                    live.hold(parameter.grad, GRADIENTS)
        before, kept = Counter(live.now), torch.is_autocast_cache_enabled()
        live.forget_peak()
        torch.set_autocast_cache_enabled(self._cached_casts)
        try:
            with live:
                visual, encoding = self._passes(size, media, loss, live)
        finally:
            torch.set_autocast_cache_enabled(kept)
            self._decoder.layers = nn.ModuleList(self._layers)
            for parameter in model.parameters():
                parameter.grad = None
        more = Counter({what: live.most[what] - before[what] for what in live.most})
        return Pass(more, visual, Counter({ENCODING: round(encoding), ALL: round(live.products)}))

    def _passes(
        self, size: PassSize, media: MediaBatch | None, loss: Loss | None, live: LiveBytes
    ) -> tuple[int, float]:
        grad: AbstractContextManager[object] = torch.no_grad() if loss is None else nullcontext()
        with grad:
            with self._precise():
                encoded = None if media is None else self.model.encode(media)
                encoding = live.products
                visual = 0 if encoded is None else _visual_tokens(encoded)
                axes = (3,) if "mrope_section" in str(self.model.of_transformers.config) else ()
                rows = rows_of(size, visual_tokens=visual, axes=axes)
                if loss is None:
                    self.model(rows, encoded)
                    return visual, encoding
                number = size.rows
                batch = MicroBatch(0, rows, None, number * size.targets, number, number, number, size.media, ())
                lowered, _ = self.model(rows, encoded, partial(of_step, loss, batch))
            del encoded
            lowered.backward()
        return visual, encoding


def _visual_tokens(encoded: Any) -> int:
    if isinstance(encoded, VisualTokens):
        return len(encoded.tokens[0])
    return int(encoded.shape[1]) if isinstance(encoded, Tensor) else 1


def _prefixes(kinds: list[str]) -> list[int]:
    """Returns the numbers of first layers to rehearse, which tell the share of each kind of layer apart.

    >>> _prefixes(["a"] * 40), _prefixes((["a"] * 3 + ["b"]) * 10), _prefixes(["a"] * 3)
    ([2, 3], [5, 6, 8], [3])
    """
    if len(kinds) <= WHOLE_UP_TO:
        return [len(kinds)]
    names = sorted(set(kinds))
    # Each kind occurs at least once, in more than one layer.
    first = max(2, max(kinds.index(name) for name in names) + 2)
    chosen, rows = [first], [[1, *(kinds[:first].count(name) for name in names)]]
    for length in range(first + 1, len(kinds) + 1):
        row = [1, *(kinds[:length].count(name) for name in names)]
        if np.linalg.matrix_rank(np.array([*rows, row])) > len(rows):
            chosen.append(length)
            rows.append(row)
        if len(chosen) == len(names) + 1:
            return chosen
    return [len(kinds)]


class _Unpacked(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, inputs: Tensor, packed: Tensor, width: int) -> Tensor:
        ctx.shape, ctx.packed = (width, inputs.shape[-1]), packed
        return inputs @ _weight(packed, ctx.shape, inputs.dtype).t()

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None]:
        return gradient @ _weight(ctx.packed, ctx.shape, gradient.dtype), None, None


def _weight(packed: Tensor, shape: tuple[int, int], dtype: torch.dtype) -> Tensor:
    return packed.new_empty(shape, dtype=dtype)


def _unpack_in_forward(model: Model, fake: FakeTensorMode, compute: torch.dtype) -> None:
    for module in model.modules():
        weight = module._parameters.get("weight")
        if weight is not None and is_quantized(weight):
            width = int(weight.shape[0])
            module._parameters["weight"] = nn.Parameter(
                torch.empty(weight.numel() // 2, dtype=torch.uint8, device="meta"), requires_grad=False
            )
            module.forward = _forward(module, width, compute)


def _forward(module: nn.Module, width: int, compute: torch.dtype) -> Any:
    def forward(inputs: Tensor) -> Tensor:
        packed = module._parameters["weight"]
        assert packed is not None
        made: Tensor = _Unpacked.apply(inputs.to(compute), packed, width)
        bias = module._parameters.get("bias")
        return made if bias is None else made + bias.to(made.dtype)

    return forward
