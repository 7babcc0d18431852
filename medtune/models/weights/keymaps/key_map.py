"""A key map: which tensors of a published file become which weights, and what the file may hold besides.

A silent partial load is the commonest failure that users of these models report, so a name without a rule, a weight
without a tensor and a shape that differs are all refused, with their names.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor, nn

_SHOWN = 20


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule for the tensors whose whole name matches a pattern.

    Attributes:
        pattern: A regular expression for the whole name.
        targets: Templates for `re.Match.expand`. Several share the tensor, cut along its first axis in equal parts.
        part: Tensors of several rules that meet in one target are joined along the first axis in this order.
    """

    pattern: str
    targets: tuple[str, ...]
    part: int = 0


@dataclass(frozen=True, slots=True)
class KeyMap:
    """The rules by which one kind of published file is read.

    Attributes:
        checkpoint: The file in words, for messages.
        rules: The first that matches a name decides.
        left_out: Names (patterns) that the file may hold and that are not loaded: the written allow-list.
        zeros: Names (patterns) that are not loaded because they are always zero; anything else in them is refused.
    """

    checkpoint: str
    rules: tuple[Rule, ...]
    left_out: tuple[str, ...] = ()
    zeros: tuple[str, ...] = ()


def rename(prefix: str, target: str) -> Rule:
    """Returns the rule that puts `target` in the place of a literal prefix."""
    return Rule(re.escape(prefix) + r"(.+)", (target + r"\1",))


def translate(tensors: Mapping[str, Tensor], key_map: KeyMap, *, where: str) -> dict[str, Tensor]:
    """Returns the tensors under our names, cut and joined as the rules say.

    Raises:
        ValueError: The file holds a name that no rule and no allow-list knows, or a tensor that should be zero is not.
    """
    parts: dict[str, dict[int, Tensor]] = {}
    unknown = []
    for name, tensor in tensors.items():
        if _matches(name, key_map.left_out):
            continue
        if _matches(name, key_map.zeros):
            if bool(tensor.count_nonzero()):
                raise ValueError(f"{where}: {name} holds values where {key_map.checkpoint} has zeros; another release?")
            continue
        rule, match = next(((r, m) for r in key_map.rules if (m := re.fullmatch(r.pattern, name))), (None, None))
        if rule is None or match is None:
            unknown.append(name)
            continue
        pieces = (tensor,) if len(rule.targets) == 1 else tensor.chunk(len(rule.targets))
        for target, piece in zip(rule.targets, pieces, strict=True):
            parts.setdefault(match.expand(target), {})[rule.part] = piece
    if unknown:
        raise ValueError(f"{where}: not {key_map.checkpoint}; {_listed('not known', unknown)}")
    return {
        target: next(iter(by_part.values())) if len(by_part) == 1 else torch.cat([by_part[i] for i in sorted(by_part)])
        for target, by_part in parts.items()
    }


def load_published(module: nn.Module, tensors: Mapping[str, Tensor], key_map: KeyMap, *, where: str) -> None:
    """Fills all weights and buffers of `module` from a published file's tensors; a skeleton takes them as they are.

    Raises:
        ValueError: A name of the file is not known, a weight is missing in the file, or a shape differs; nothing is
            loaded then.
    """
    found = translate(tensors, key_map, where=where)
    own = module.state_dict()
    if own.keys() != found.keys():
        missing, surplus = own.keys() - found.keys(), found.keys() - own.keys()
        said = [_listed(word, names) for word, names in (("missing", missing), ("left over", surplus)) if names]
        raise ValueError(f"{where}: does not fit as {key_map.checkpoint}; {'; '.join(said)}")
    for name, tensor in found.items():
        if tensor.shape != own[name].shape:
            raise ValueError(
                f"{where}: {name} is {tuple(tensor.shape)} in the file and {tuple(own[name].shape)} in the model"
            )
    module.load_state_dict(found, assign=any(tensor.is_meta for tensor in own.values()))


def _matches(name: str, patterns: Iterable[str]) -> bool:
    return any(re.fullmatch(pattern, name) for pattern in patterns)


def _listed(word: str, names: Iterable[str]) -> str:
    ordered = sorted(names)
    more = f", and {len(ordered) - _SHOWN} more" if len(ordered) > _SHOWN else ""
    return f"{len(ordered)} {word}: {', '.join(ordered[:_SHOWN])}{more}"
