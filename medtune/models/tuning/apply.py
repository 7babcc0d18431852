"""Applies a tuning plan to a model: freezes, adapts or trains each part, and checks which parts get gradients."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.distributed.tensor import DTensor

from medtune.models.contract import PARTS, Model, parameters_of_parts, root_of
from medtune.models.sharding.unread import weights_stay_unread
from medtune.models.tuning.adapters import inject_lora, target_notes, unadapted_notes
from medtune.models.tuning.name_pattern import fits
from medtune.models.tuning.plan import Mode, PartName, PartTuning, Tuning
from medtune.models.tuning.quantize import is_quantized, logical_size, stored_bytes, widen_learning

ADAPTER = ".lora_"
"""A piece of text that the names of all adapters' parameters contain, and no others."""
B, LENGTHS = ".lora_B.", ".lora_magnitude_vector."
"""The same for the second matrix of each adapter, and for the lengths that DoRA learns."""


@dataclass(frozen=True, slots=True)
class PartRow:
    part: str
    mode: Mode
    lr: float | None  # Peak learning rate; None where the part is frozen.
    parameters: int  # Number of parameters of the part, without adapters.
    trainable: int  # Number of parameters that learn, adapters included.
    adapters: int
    adapted_modules: int
    quantized: int  # Number of parameters that are held in 4 bits.
    # Number type of the parameters that do not learn, that of most of them where they differ, e.g. "bfloat16"; None
    # where all learn.
    stored: str | None
    learns: str | None  # Number type of the parameters that learn; None where none does.
    stored_bytes: float  # Bytes of all parameters, adapters included.


def apply_tuning(model: Model, tuning: Tuning, *, seed: int) -> tuple[PartRow, ...]:
    """Freezes, adapts or frees each part in place and returns the table of parts."""
    adapt(model, [tuning], seed=seed)
    return set_learning(model, tuning)


def adapt(model: Model, tunings: Sequence[Tuning], *, seed: int) -> tuple[str, ...]:
    """Adds the adapters of all tunings to the model, in place; parameters that any tuning trains require gradients.

    These parameters are then stored in float32, whatever type the model's weights have; weights that stay in their
    files get that type when they are read. The random weights of the adapters are drawn from `seed`, so that a recipe
    starts from the same weights on all ranks.

    Returns:
        Sentences about LoRA targets that fit nothing, layers that cannot be adapted, and matrices that do not learn.
    """
    torch.manual_seed(seed)
    notes: list[str] = []
    for part in PARTS:
        parts = [tuning.parts()[part] for tuning in tunings]
        # What a stage may change: how fast an adapter learns.
        wanted = {replace(how.lora, lr_ratio=1.0) for how in parts if how.mode == "lora"}
        if len(wanted) > 1:
            raise ValueError(
                f"train.stages: two stages give model.tuning.{part}.lora different values; an adapter keeps its shape"
            )
        for lora in wanted:
            notes += target_notes(model, part, lora)
            inject_lora(model, part, lora)
    learning = [_learning(model, tuning) for tuning in tunings]
    for name, parameter in model.named_parameters():
        parameter.requires_grad_(any(name in each for each in learning))
    if not weights_stay_unread():
        widen_learning(model)
    for part in PARTS:
        if any(tuning.parts()[part].mode == "lora" for tuning in tunings):
            notes += unadapted_notes(model, part)
    return tuple(notes)


def set_learning(
    model: Model, tuning: Tuning, *, types: Mapping[str, torch.dtype] | None = None
) -> tuple[PartRow, ...]:
    """Makes only the parameters of a tuning trainable, in place, and returns the table of parts.

    Args:
        types: The type that each parameter will be stored in, for a model whose weights are still in their files; None
            for a model that has its weights.
    """
    learning = _learning(model, tuning)
    for name, parameter in model.named_parameters():
        parameter.requires_grad_(name in learning)
    own = parameters_of_parts(model)
    table = [_row(own[part], part, how, types or {}) for part, how in tuning.parts().items()]
    if not any(row.trainable for row in table):
        raise ValueError(
            "model.tuning: every part is frozen, so nothing would learn; set a part's mode to lora or full"
        )
    return tuple(table)


def _row(
    own: Sequence[tuple[str, nn.Parameter]], part: PartName, how: PartTuning, types: Mapping[str, torch.dtype]
) -> PartRow:
    learning = [(name, p) for name, p in own if p.requires_grad]
    adapters = _size(p for name, p in learning if ADAPTER in name)
    return PartRow(
        part=part,
        mode=how.mode,
        lr=None if how.mode == "frozen" else how.lr,
        parameters=_size(p for name, p in own if ADAPTER not in name),
        trainable=_size(p for _, p in learning),
        adapters=adapters,
        adapted_modules=sum(name.endswith(".lora_A.default.weight") for name, _ in learning),
        quantized=_size(p for _, p in own if is_quantized(p)),
        stored=_type_of(((n, p) for n, p in own if not p.requires_grad and not is_quantized(p)), types),
        learns=_type_of(learning, types),
        stored_bytes=sum(p.numel() * types[n].itemsize if n in types else stored_bytes(p) for n, p in own),
    )


def _type_of(parameters: Iterable[tuple[str, Tensor]], types: Mapping[str, torch.dtype]) -> str | None:
    sizes: Counter[str] = Counter()
    for name, parameter in parameters:
        sizes[str(types.get(name, parameter.dtype)).removeprefix("torch.")] += logical_size(parameter)
    return max(sizes, key=sizes.__getitem__, default=None)


def _learning(model: Model, tuning: Tuning) -> set[str]:
    found: set[str] = set()
    own, roots = parameters_of_parts(model), model.part_roots
    for part, how in tuning.parts().items():
        named = {name: _local_name(roots, name) for name, _ in own[part]}
        pattern = how.parameters if how.mode in ("part", "lora") else None
        whole = {
            name
            for name, local in named.items()
            if pattern is not None and fits(pattern, local, field=f"model.tuning.{part}.parameters")
        }
        if pattern is not None and not whole:
            raise ValueError(
                f"model.tuning.{part}.parameters: {pattern!r} fits no parameter of the part; there are for instance "
                f"{list(named.values())[:4]}"
            )
        if how.mode == "lora":
            whole |= {name for name in named if ADAPTER in name}
        elif how.mode == "full":
            whole = {name for name in named if ADAPTER not in name}
        found |= whole
    if held := [name for part in own.values() for name, p in part if name in found and is_quantized(p)]:
        raise ValueError(
            f"model.tuning: {held[0]} is to learn, but model.language_bits holds it in 4 bits; use lora or leave it "
            "frozen"
        )
    return found


def _local_name(roots: Mapping[PartName, tuple[str, ...]], name: str) -> str:
    _, root = root_of(name, roots)
    inside = name.removeprefix(root).removeprefix(".").replace(".base_layer", "")
    return inside if "." in inside else f"{root.rpartition('.')[2]}.{inside}".rstrip(".")


def _size(parameters: Iterable[Tensor]) -> int:
    return sum(logical_size(parameter) for parameter in parameters)


class GradientAudit:
    """Checks in one backward pass that every part that should learn receives a gradient, and that no other part does.

    It uses hooks on the parameters, because ZeRO removes `.grad` before it could be read. FSDP2 computes with other
    tensors than the parameters, and leaves their gradients in `.grad` until the optimizer has made its step.
    """

    def __init__(self, model: Model, tuning: Tuning) -> None:
        self._model = model
        self._tuning = tuning
        self._reached: set[str] = set()
        self._handles = [
            parameter.register_hook(self._watch(name))
            for name, own in parameters_of_parts(model).items()
            for _, parameter in own
            if parameter.requires_grad
        ]

    def _watch(self, part: str) -> Any:
        def hook(gradient: Tensor) -> None:
            if part not in self._reached and bool(gradient.ne(0).any()):
                self._reached.add(part)

        return hook

    def look(self) -> None:
        """Looks at the gradients of divided parameters; call it before each step of the optimizer."""
        for part, own in parameters_of_parts(self._model).items():
            for _, parameter in own:
                if part not in self._reached and isinstance(parameter.grad, DTensor):
                    self._watch(part)(parameter.grad.to_local())

    def reached(self) -> dict[str, bool]:
        """Returns for each part whether it has got a gradient other than zero on this device so far."""
        return {name: name in self._reached for name in PARTS}

    def judge(self, reached: Mapping[str, bool]) -> None:
        """Removes the hooks and checks which parts got gradients.

        Args:
            reached: For each part, whether it got a gradient on any device; a device that had no share of the step
                has seen none.
        """
        for handle in self._handles:
            handle.remove()
        own = parameters_of_parts(self._model)
        for name, how in self._tuning.parts().items():
            parameters = [p for _, p in own[name]]
            if how.mode == "frozen":
                if any(p.requires_grad or p.grad is not None for p in parameters):
                    raise ValueError(f"after the first step the frozen part {name!r} has a gradient")
            elif not reached[name]:
                raise ValueError(
                    f"after the first step the part {name!r} ({how.mode}) has no gradient: it would not learn. "
                    "Is it part of the forward pass, and do the targets of its LoRA lie on the data's way?"
                )


def recompute_activations(model: Model) -> None:
    """Makes the layers of a transformers model keep only their inputs during training, in place.

    The gradients do not change. medtune's own towers are left as they are, because most are frozen and keep no
    activations anyway. Frozen towers and layers of transformers keep none either.

    Source: Chen et al. 2016, arXiv 1604.06174.
    """
    language = model.of_transformers
    language.activation_checkpointing_enable({"use_reentrant": False})
    # transformers lets the outputs of embeddings require gradients, which only reentrant checkpointing needs. A frozen
    # tower would keep the activations of all its layers for a backward pass that nobody wants.
    language.disable_input_require_grads()
