"""Carries a tuning plan out: freezes, adapts or frees each group, and watches that just those learn."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from peft import LoraConfig, inject_adapter_in_model
from torch import Tensor, nn
from transformers import PreTrainedModel

from medtune.models.contract import GROUPS, group_parameters, root_of
from medtune.models.transformers_vlm.model import TransformersVlm
from medtune.models.tuning_plan import GroupName, Lora, Mode, Tuning
from medtune.models.vlm import VisionLanguageModel

Tunable = VisionLanguageModel | TransformersVlm


@dataclass(frozen=True, slots=True)
class GroupRow:
    """One line of the table of trainable groups."""

    group: str
    mode: Mode
    lr: float | None
    parameters: int
    trainable: int
    adapted_modules: int


def apply_tuning(model: Tunable, tuning: Tuning, *, seed: int) -> tuple[GroupRow, ...]:
    """Freezes, adapts or frees each group in place and returns the table of groups.

    The adapters' random half is drawn from `seed`, so that the same recipe starts from the same weights on any rank.

    Raises:
        ValueError: LoRA targets match no module, or nothing at all would learn.
    """
    torch.manual_seed(seed)
    plan = tuning.groups()
    totals = {name: _size(p for _, p in group_parameters(model, name)) for name in plan}
    adapted = {name: _inject_lora(model, name, how.lora) if how.mode == "lora" else 0 for name, how in plan.items()}
    table = []
    for name, how in plan.items():
        own = group_parameters(model, name)
        for full_name, parameter in own:
            parameter.requires_grad_(how.mode == "full" or (how.mode == "lora" and ".lora_" in full_name))
        trainable = _size(p for _, p in own if p.requires_grad)
        lr = None if how.mode == "frozen" else how.lr
        table.append(GroupRow(name, how.mode, lr, totals[name], trainable, adapted[name]))
    if not any(row.trainable for row in table):
        raise ValueError(
            "model.tuning: every group is frozen, so nothing would learn; set a group's mode to lora or full"
        )
    return tuple(table)


def _size(parameters: Iterable[Tensor]) -> int:
    # Under ZeRO-3 a parameter's own numel is that of its local shard.
    return sum(int(getattr(p, "ds_numel", p.numel())) for p in parameters)


def _inject_lora(model: Tunable, group: GroupName, lora: Lora) -> int:
    """Adapts the group's modules that the targets name; a target never reaches into another group."""
    adapted = 0
    for root in model.group_roots[group]:
        names = _linear_names(model, group, root)
        chosen = [name for name in names if lora.targets is None or re.fullmatch(lora.targets, name)]
        if not chosen:
            continue
        config = LoraConfig(
            r=lora.r,
            lora_alpha=lora.alpha,
            lora_dropout=lora.dropout,
            target_modules="|".join(re.escape(name) for name in chosen),
        )
        inject_adapter_in_model(config, model.get_submodule(root))
        adapted += len(chosen)
    if not adapted:
        able = [name for root in model.group_roots[group] for name in _linear_names(model, group, root)]
        raise ValueError(
            f"model.tuning.{group}.lora.targets: {lora.targets!r} fits no module of the group; "
            + (
                f"what can be adapted is for instance {able[:4]}"
                if able
                else "it has none that LoRA could adapt; use full"
            )
        )
    return adapted


def _linear_names(model: Tunable, group: GroupName, root: str) -> list[str]:
    """Returns the modules under a root that belong to its group and can be adapted, named from the root on."""
    roots, modules = model.group_roots, dict(model.named_modules())
    outputs = {id(m.get_output_embeddings()) for m in modules.values() if isinstance(m, PreTrainedModel)}
    return [
        name.removeprefix(f"{root}.")
        for name, module in modules.items()
        if name.startswith(f"{root}.")
        and root_of(name, roots) == (group, root)
        and id(module) not in outputs
        and (isinstance(module, nn.Linear) or (isinstance(module, nn.Conv2d) and module.kernel_size == (1, 1)))
    ]


def parameter_groups(model: Tunable, tuning: Tuning, *, weight_decay: float) -> list[dict[str, Any]]:
    """Returns AdamW's parameter groups: per model group, matrices with weight decay and vectors without."""
    groups: list[dict[str, Any]] = []
    for name, how in tuning.groups().items():
        learning = [p for _, p in group_parameters(model, name) if p.requires_grad]
        for suffix, decay, chosen in (
            ("", weight_decay, [p for p in learning if _axes(p) > 1]),
            ("_vectors", 0.0, [p for p in learning if _axes(p) <= 1]),
        ):
            if chosen:
                groups.append({"name": name + suffix, "params": chosen, "lr": how.lr, "weight_decay": decay})
    return groups


def _axes(parameter: Tensor) -> int:
    return len(getattr(parameter, "ds_shape", parameter.shape))


class GradientAudit:
    """Watches one backward pass: every group that should learn must receive a gradient, no other may.

    Works by hooks on the parameters, since sharded strategies drop `.grad` before anyone could look.
    """

    def __init__(self, model: Tunable, tuning: Tuning) -> None:
        self._model = model
        self._tuning = tuning
        self._reached: set[str] = set()
        self._handles = [
            parameter.register_hook(self._watch(name))
            for name in GROUPS
            for _, parameter in group_parameters(model, name)
            if parameter.requires_grad
        ]

    def _watch(self, group: str) -> Any:
        def hook(gradient: Tensor) -> None:
            if group not in self._reached and bool(gradient.ne(0).any()):
                self._reached.add(group)

        return hook

    def reached(self) -> dict[str, bool]:
        """Removes the hooks and returns which groups got a gradient on this device."""
        for handle in self._handles:
            handle.remove()
        return {name: name in self._reached for name in GROUPS}

    def judge(self, reached: Mapping[str, bool]) -> None:
        """Judges what was seen on any device: one that had no share of the step saw nothing.

        Raises:
            ValueError: A trainable group got no gradient, or a frozen one has one.
        """
        for name, how in self._tuning.groups().items():
            parameters = [p for _, p in group_parameters(self._model, name)]
            if how.mode == "frozen":
                if any(p.requires_grad or p.grad is not None for p in parameters):
                    raise ValueError(f"after the first step the frozen group {name!r} has a gradient")
            elif not reached[name]:
                raise ValueError(
                    f"after the first step the group {name!r} ({how.mode}) has no gradient: it would not learn. "
                    "Is it part of the forward pass, and do the targets of its LoRA lie on the data's way?"
                )
