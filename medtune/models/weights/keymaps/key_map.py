"""Translates the tensors of a published file into medtune's weights by rules, and loads them into a model.

The failure that users of these models report most often is that a part of the weights is silently not loaded. A name
without a rule, a weight without a tensor and a differing shape are therefore errors, which list the names.
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
    """A rule for the tensors whose names match a pattern.

    Attributes:
        pattern: Regular expression that the whole name has to match.
        targets: Names of the weights here, as templates for `re.Match.expand`. With several targets, the tensor is cut
            along its first axis into equal parts, one for each.
        part: Place of this tensor where the tensors of several rules are joined along the first axis into one target.
    """

    pattern: str
    targets: tuple[str, ...]
    part: int = 0


@dataclass(frozen=True, slots=True)
class KeyMap:
    """The rules by which one kind of published file is read.

    Attributes:
        checkpoint: Name of the file in words, for messages.
        rules: The rules; the first that matches a name is applied.
        left_out: Patterns of the names that the file may hold and that are not loaded.
        zeros: Patterns of the names of tensors that are not loaded because they hold only zeros; other values in them
            are an error.
    """

    checkpoint: str
    rules: tuple[Rule, ...]
    left_out: tuple[str, ...] = ()
    zeros: tuple[str, ...] = ()


def rename(prefix: str, target: str) -> Rule:
    """Returns the rule that replaces a literal prefix of a name by `target`."""
    return Rule(re.escape(prefix) + r"(.+)", (target + r"\1",))


def translate(tensors: Mapping[str, Tensor], key_map: KeyMap, *, where: str) -> dict[str, Tensor]:
    """Returns the tensors under medtune's names, cut and joined by the rules.

    Args:
        tensors: The tensors under their published names.
        key_map: The rules.
        where: The file, for messages.

    Raises:
        ValueError: The key map does not know a name, or a tensor that should be zero is not.
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
    """Fills all weights and buffers of a module from the tensors of a published file.

    A module without weights (on the meta device) takes over the tensors themselves, with their dtype.

    Args:
        module: The module that is filled.
        tensors: The tensors under their published names.
        key_map: The rules.
        where: The file, for messages.

    Raises:
        ValueError: A name of the file is not known, the file lacks a weight, or a shape differs. Nothing is loaded
            then.
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
