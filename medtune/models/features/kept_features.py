"""Keeps what frozen modules made of media items, so that an epoch, a phase or a condition need not make it again.

An entry is named by a hash of the weights, the type that is computed in, and the prepared item: the pixels as the
transform left them. Another weight, transform or pixel is thus another entry, and nothing has to be thrown away.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence

import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensor
from torch.distributed.fsdp import FSDPModule
from torch.distributed.tensor import DTensor

from medtune.models.features.feature_files import FeatureFiles
from medtune.models.placing import placed
from medtune.models.tuning.plan import PartName

MOST_BYTES = 2 * 2**30
"""The features that a process keeps in the host's memory where no recipe says how much (our own choice)."""

_DROPPED = ("p", "drop_prob", "dropout", "attention_dropout", "dropout_p")
"""The attributes in which modules of torch, timm and transformers hold the share that they drop."""

Kept = tuple[Tensor, ...]
"""What is kept of one media item."""


class KeptFeatures:
    """The features of media items, in the host's memory and in files. Models of one run share them.

    Attributes:
        files: The files where each is looked for that is not in memory, and kept beside it; None has none.
        most_bytes: The bytes that are kept at most; 0 keeps nothing.
        in_training: Whether training steps read and keep features: only where the same pixels come again.
    """

    def __init__(self, most_bytes: float = MOST_BYTES, files: FeatureFiles | None = None) -> None:
        self.most_bytes = most_bytes
        self.files = files
        self.in_training = False
        self.held_bytes = 0
        self._entries: dict[bytes, Kept] = {}
        self._stays: set[bytes] | None = None

    def begin_answers(self) -> None:
        """Lets what was used last stay: items are asked for in one order, again and again."""
        self.in_training, self._stays = False, None

    def begin_training(self, *, comes_again: bool) -> None:
        """Lets what is used from now on stay until the next phase begins.

        Epochs come in ever new orders. If they are larger than the memory, what was used last is of no more use than
        anything else, and an entry that makes room for the next one would be gone before it is asked for.

        Args:
            comes_again: Whether training, or another run that has the same files, sees the same pixels again.
        """
        self.in_training, self._stays = comes_again, set()

    def __len__(self) -> int:
        return len(self._entries)

    def clear(self) -> None:
        self._entries.clear()
        self.held_bytes = 0

    def read(
        self, keys: Sequence[bytes], make: Callable[[int], Kept], *, device: torch.device, outlives: bool
    ) -> list[Kept]:
        """Returns the features of each item.

        Each is made alone, so that it is the same to the bit whatever stands beside it, and whatever is kept already:
        a resumed run learns as one that was never stopped.

        Args:
            keys: The name of each item's entry (`named`).
            make: Function of the number of an item that makes its features.
            device: The device on which they are made.
            outlives: Whether another run may ask for them, so that they are worth a file: weights that learn are gone
                with the next step.
        """
        files = self.files if outlives else None
        found: dict[bytes, Kept] = {}
        for place, key in enumerate(keys):
            if key not in found:
                known = self._entries.get(key) or (files and files.read(key, device))
                found[key] = known or make(place)
                self._keep(key, found[key])
                if files is not None and known is None:
                    files.write(key, found[key])
        return [found[key] for key in keys]

    def _keep(self, key: bytes, kept: Kept) -> None:
        if key in self._entries:
            # What was seen last stands behind, and the rest goes first.
            self._entries[key] = self._entries.pop(key)
        else:
            size = _bytes_of(kept)
            while self.held_bytes + size > self.most_bytes and self._makes_room():
                pass
            if self.held_bytes + size > self.most_bytes:
                return
            # A view would hold on to what was made together with it.
            self._entries[key] = tuple(_on_the_host(each) for each in kept)
            self.held_bytes += size
        if self._stays is not None:
            self._stays.add(key)

    def _makes_room(self) -> bool:
        first = next(iter(self._entries), None)
        # What stays was used last, and so stands behind what may go.
        if first is None or (self._stays is not None and first in self._stays):
            return False
        self.held_bytes -= _bytes_of(self._entries.pop(first))
        return True


class WeightsDigest:
    """The hash of weights, which is computed anew only where one of them has changed."""

    def __init__(self) -> None:
        self._state: tuple[object, ...] = ()
        self._digest = b""

    def of(self, weights: Sequence[tuple[str, Tensor]]) -> bytes:
        """Returns the hash of names, types and values, and of the type that `torch.autocast` computes in."""
        kind = weights[0][1].device.type
        computed_in = torch.get_autocast_dtype(kind) if torch.is_autocast_enabled(kind) else None
        state = (computed_in, *((each.data_ptr(), each._version) for _, each in weights))
        if state != self._state:
            digest = hashlib.sha1(str(computed_in).encode())
            for name, each in weights:
                digest.update(f"{name} {each.dtype} {tuple(each.shape)}".encode())
                digest.update(_seen(each))
            self._state, self._digest = state, digest.digest()
        return self._digest


def named(weights: bytes, item: Tensor | Mapping[str, Tensor]) -> bytes:
    """Returns the name of an item's entry.

    Args:
        weights: The hash of the weights.
        item: The prepared item: the tower's input, or its arguments by name.
    """
    digest = hashlib.sha1(weights)
    for name, each in (("", item),) if isinstance(item, Tensor) else item.items():
        digest.update(f"{name} {each.dtype} {tuple(each.shape)}".encode())
        digest.update(_seen(each))
    return digest.digest()


def can_keep(weights: Iterable[Tensor], kept: KeptFeatures, model: nn.Module) -> bool:
    """Returns whether features that these weights of a model make may be kept, and used in place of making them."""
    whole, learn, training = False, False, model.training
    for each in weights:
        # A divided weight is not whole on any rank, and a weight in a plan has no values.
        if isinstance(each, DTensor | FakeTensor) or hasattr(each, "ds_id") or each.device.type == "meta":
            return False
        whole, learn = True, learn or each.requires_grad
    # Within a pass, FSDP has gathered what belongs to no unit.
    if not whole or not (kept.most_bytes or kept.files) or isinstance(model, FSDPModule):
        return False
    if learn:
        # Strategies change the weights that learn in ways that no version counts.
        return not (torch.is_grad_enabled() or training or torch.distributed.is_initialized())
    return not training or (kept.in_training and not drops(model))


def drops(model: nn.Module) -> bool:
    """Returns whether what would be kept draws other numbers in each training step: dropout, or layers left out."""
    parts: Sequence[PartName] = getattr(model, "kept_parts", ())
    roots = [root for part in parts for root in getattr(model, "part_roots", {})[part]]
    modules = (each for name, each in model.named_modules() if any(f"{name}.".startswith(f"{root}.") for root in roots))
    return any(
        isinstance(share := getattr(module, name, None), float) and share > 0 for module in modules for name in _DROPPED
    )


def on_device(kept: Kept, device: torch.device) -> Kept:
    return tuple(placed(each, device) for each in kept)


def _on_the_host(tensor: Tensor) -> Tensor:
    if tensor.device.type == "cpu":
        return tensor.detach().clone()
    # Nothing waits for the copy. It comes back on the same queue, behind this one.
    host = torch.empty(tensor.shape, dtype=tensor.dtype, pin_memory=True)
    return host.copy_(tensor.detach(), non_blocking=True)


def _bytes_of(kept: Kept) -> int:
    return sum(each.numel() * each.element_size() for each in kept)


def _seen(tensor: Tensor) -> memoryview:
    return tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().data
