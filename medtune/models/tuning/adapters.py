"""Adds low-rank adapters to the layers that a recipe's targets name, and says which of the targets fit none."""

import re
from collections import Counter
from collections.abc import Sequence
from typing import Any

import torch
from torch import nn
from transformers import PreTrainedModel

from medtune.models.contract import Model, part_parameters, root_of
from medtune.models.tuning.plan import Lora, PartName
from medtune.models.tuning.quantize import float32_adapters, is_lora, is_quantized, linear_names, logical_size

_NAMED = 4


def inject_lora(model: Model, part: PartName, lora: Lora) -> None:
    from peft import LoraConfig, inject_adapter_in_model

    adapted = False
    for root in model.part_roots[part]:
        names = linear_names(model, part, root)
        chosen = [name for name in names if lora.targets is None or re.fullmatch(lora.targets, name)]
        if not chosen:
            continue
        # Without values, the rows of a weight in 4 bits have no lengths that peft could measure.
        first: Any = model.get_submodule(f"{root}.{chosen[0]}")
        counted_only = first.weight.is_meta and is_quantized(first.weight)
        config = LoraConfig(
            r=lora.r,
            lora_alpha=lora.alpha,
            lora_dropout=lora.dropout,
            target_modules="|".join(re.escape(name) for name in chosen),
            use_rslora=lora.rslora,
            use_dora=lora.dora and not counted_only,
            # The weights that pissa and eva begin with are computed once for a run, by `starting_weights`.
            init_lora_weights="gaussian" if lora.init == "gaussian" else True,
        )
        with float32_adapters(model.get_submodule(f"{root}.{name}") for name in chosen):
            # Adapters of weights without values need none drawn: 0.5 of the 1.1 CPU s that 7B parameters took.
            inject_adapter_in_model(config, model.get_submodule(root), low_cpu_mem_usage=first.weight.is_meta)
        if lora.dora and counted_only:
            _add_lengths(model, [f"{root}.{name}" for name in chosen])
        adapted = True
    if not adapted:
        able = [name for root in model.part_roots[part] for name in linear_names(model, part, root)]
        raise ValueError(
            f"model.tuning.{part}.lora.targets: {lora.targets!r} fits no module of the part; "
            + (
                f"what can be adapted is for instance {able[:4]}"
                if able
                else "it has none that LoRA could adapt; use full"
            )
        )


def _add_lengths(model: Model, names: Sequence[str]) -> None:
    from peft.tuners.lora.dora import DoraLinearLayer

    for name in names:
        layer = model.get_submodule(name)
        assert is_lora(layer)
        lengths = DoraLinearLayer(fan_in_fan_out=False)
        lengths.weight = nn.Parameter(torch.empty(layer.out_features, device="meta"))
        layer.lora_magnitude_vector["default"] = lengths


def target_notes(model: Model, part: PartName, lora: Lora) -> list[str]:
    """Returns what the targets fit beside the layers that are adapted; refuses one that fits only other layers.

    Each alternative of the pattern is looked at by itself. Other layers are those with a matrix of their own, such as
    an output layer, an embedding or a router.
    """
    if lora.targets is None:
        return []
    able = {name for root in model.part_roots[part] for name in linear_names(model, part, root)}
    roots = [(root, module) for root in model.part_roots[part] for module in [model.get_submodule(root)]]
    others = {
        name
        for root, module in roots
        for name, each in module.named_modules()
        if name not in able
        and root_of(f"{root}.{name}", model.part_roots) == (part, root)
        and any(len(getattr(p, "ds_shape", p.shape)) > 1 for p in each.parameters(recurse=False))
    }
    field, notes = f"model.tuning.{part}.lora.targets", []
    for said, pattern in alternatives(lora.targets):
        fits, beside = ([name for name in names if re.fullmatch(pattern, name)] for names in (able, sorted(others)))
        named = ", ".join(beside[:_NAMED]) + (", ..." if len(beside) > _NAMED else "")
        if beside and not fits:
            raise ValueError(
                f"{field}: {said!r} names {named}, which exists and cannot be adapted (no linear layer inside the "
                f"part: an output layer, embedding, router or the like). Leave it out, or train its weights whole: "
                f"model.tuning.{part}.parameters={re.escape(beside[0])}.weight"
            )
        if beside:
            notes.append(f"{field}: {said!r} also fits {named}, which cannot be adapted and stays as it is")
        elif not fits:
            notes.append(f"{field}: {said!r} fits no layer of the part and adapts nothing")
    return notes


MENTIONED = 0.1
"""The share of a part's weights from which on it is said that they lie in no layer that LoRA could adapt."""


def unadapted_notes(model: Model, part: PartName) -> list[str]:
    """Returns a sentence on the matrices of an adapted part that are no layers for LoRA, such as fused experts.

    Embeddings and output layers, which LoRA leaves alone by custom, and matrices that learn by themselves are left out.
    """
    able = {f"{root}.{name}" for root in model.part_roots[part] for name in linear_names(model, part, root)}
    modules = dict(model.named_modules())
    outputs = [m.get_output_embeddings() for m in modules.values() if isinstance(m, PreTrainedModel)]
    whole, left = 0, Counter[str]()
    for name, parameter in part_parameters(model, part):
        owner = name.rpartition(".")[0]
        if ".lora_" in name:
            continue
        whole += logical_size(parameter)
        layer = modules[owner]
        alone = isinstance(layer, nn.Embedding) or any(layer is output for output in outputs)
        if owner not in able and not alone and not parameter.requires_grad:
            left[re.sub(r"\.\d+(?=\.)", ".*", name)] += logical_size(parameter)
    if left.total() < MENTIONED * whole:
        return []
    named = ", ".join(f"{name} ({size / whole:.1%})" for name, size in left.most_common(_NAMED))
    return [
        f"model.tuning.{part}: {left.total() / whole:.1%} of the part's weights do not learn, because they lie in no "
        f"linear layer that LoRA could adapt: {named}; model.tuning.{part}.parameters trains them whole"
    ]


def alternatives(pattern: str) -> list[tuple[str, str]]:
    r"""Returns each alternative of a regular expression, with the expression in which it stands alone.

    >>> alternatives("(q|k)_proj|lm_head")
    [('q', '(q)_proj'), ('k', '(k)_proj'), ('lm_head', 'lm_head')]
    """
    depth, place, bars, groups = 0, 0, [-1], [0]
    while place < len(pattern):
        letter = pattern[place]
        if letter == "\\":
            place += 1
        elif letter == "[":
            # A bracket that comes first is a letter of the class.
            ends = re.compile(r"\^?\]?(?:\\.|[^\]\\])*").match(pattern, place + 1)
            place = ends.end() if ends else place
        elif letter == "|" and depth == 0:
            bars.append(place)
        elif letter in "()":
            depth += 1 if letter == "(" else -1
            if depth == (letter == "("):
                groups.append(place)
        place += 1
    if len(bars) > 1:
        pieces = [pattern[start + 1 : end] for start, end in zip(bars, [*bars[1:], len(pattern)], strict=True)]
        return [each for piece in pieces for each in alternatives(piece)]
    found = []
    for start, end in zip(groups[1::2], groups[2::2], strict=False):
        opening = re.match(r"\((?:\?:|\?P<\w+>|(?!\?))", pattern[start:])
        if opening is None:
            # What looks ahead or behind names no layer.
            continue
        first = start + opening.end()
        inner = alternatives(pattern[first:end])
        if len(inner) > 1:
            found += [(said, pattern[:first] + alone + pattern[end:]) for said, alone in inner]
    return found or [(pattern, pattern)]
