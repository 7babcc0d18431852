"""Adds low-rank adapters to the layers that a recipe's targets name, and says which of the targets fit none."""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import accumulate, pairwise
from typing import Any

import torch
from torch import nn
from transformers import PreTrainedModel

from medtune.models.contract import Model, parameters_of_parts, root_of
from medtune.models.placing import is_on_the_host
from medtune.models.tuning.name_pattern import fits
from medtune.models.tuning.plan import Lora, PartName
from medtune.models.tuning.quantize import (
    adapted_modules,
    adapted_weight,
    adapts_stack,
    float32_adapters,
    is_lora,
    is_quantized,
    is_stack,
    linear_names,
    logical_size,
    stack_names,
)

_NAMED = 4
MERGED_BYTES = 2**30
"""The size of the weights, at most, that are held twice while a model answers (our own choice)."""
MENTIONED = 0.1
"""The share of a part's weights from which on it is said that they lie in no layer that LoRA could adapt."""
_LETTER = re.compile(r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|.", re.DOTALL)
"""A letter of a regular expression: escaped, a class of letters (in which a bracket may come first), or itself."""
_GROUP = re.compile(r"\((?:\?:|\?P<\w+>|(?!\?))")
"""The beginning of a group that takes letters; what looks ahead or behind names no layer."""


def inject_lora(model: Model, part: PartName, lora: Lora) -> None:
    from peft import LoraConfig, inject_adapter_in_model

    from medtune.models.tuning.fused_lora import fuse

    adapted = False
    for root in model.part_roots[part]:
        names = linear_names(model, part, root)
        chosen = [name for name in names if is_target(lora, part, name)]
        stacks = chosen_stacks(model, part, root, lora)
        if not (chosen or stacks):
            continue
        if stacks:
            _refuse_for_stacks(part, lora, stacks)
        # Without values, the rows of a weight in 4 bits have no lengths that peft could measure.
        weights: list[Any] = [model.get_submodule(f"{root}.{name}").weight for name in chosen[:1]]
        counted_only = any(weight.is_meta and is_quantized(weight) for weight in weights)
        config = LoraConfig(
            r=lora.r,
            lora_alpha=lora.alpha,
            lora_dropout=lora.dropout,
            target_modules="|".join(re.escape(name) for name in chosen) or [],
            target_parameters=stacks or None,
            use_rslora=lora.rslora,
            use_dora=lora.dora and not counted_only,
            # The weights that pissa begins with are computed once for a run, by `starting_weights`.
            init_lora_weights="gaussian" if lora.init == "gaussian" else True,
        )
        with float32_adapters(model.get_submodule(f"{root}.{name}") for name in chosen):
            # Adapters without values are given none first: drawing them takes half the time of a plan.
            without_values = not stacks and any(weight.is_meta for weight in weights)
            inject_adapter_in_model(config, model.get_submodule(root), low_cpu_mem_usage=without_values)
        for _, layer in adapted_modules(model.get_submodule(root)):
            fuse(layer)
            if adapts_stack(layer):
                # peft has drawn these in the type of the stack, whatever `compute_dtype` says.
                layer.lora_A.float(), layer.lora_B.float()
                layer.reset_lora_parameters("default", config.init_lora_weights)
        if lora.dora and counted_only:
            _add_lengths(model, [f"{root}.{name}" for name in chosen])
        adapted = True
    if not adapted:
        able = [name for root in model.part_roots[part] for name in _able(model, part, root)]
        raise ValueError(
            f"model.tuning.{part}.lora.targets: {lora.targets!r} fits no module of the part; "
            + (
                f"what can be adapted is for instance {able[:4]}"
                if able
                else "it has none that LoRA could adapt; use full"
            )
        )


def chosen_stacks(model: Model, part: PartName, root: str, lora: Lora) -> list[str]:
    """Returns the names of the stacks of matrices under a root that are adapted: those that the targets name."""
    if lora.targets is None:
        return []
    return [name for name in stack_names(model, part, root) if is_target(lora, part, name)]


def is_target(lora: Lora, part: PartName, name: str) -> bool:
    """Returns whether the targets, if there are any, name a layer or a stack by its name inside the part."""
    return lora.targets is None or fits(lora.targets, name, field=f"model.tuning.{part}.lora.targets")


def _refuse_for_stacks(part: PartName, lora: Lora, stacks: Sequence[str]) -> None:
    refused = {"dora": lora.dora, "dropout": lora.dropout > 0, "init": lora.init == "pissa"}
    if wrong := [name for name, is_set in refused.items() if is_set]:
        field = f"model.tuning.{part}.lora"
        raise ValueError(
            f"{field}.targets names {stacks[0]}, a stack of matrices that lies in no layer, and {field}.{wrong[0]} is "
            f"{getattr(lora, wrong[0])}, which peft has for layers alone. Leave {wrong[0]} out, or take targets that "
            rf"name no stack, such as {field}.targets='(?!.*\.experts\.).*'"
        )


def _able(model: Model, part: PartName, root: str) -> list[str]:
    return [*linear_names(model, part, root), *stack_names(model, part, root)]


@contextmanager
def merged(model: nn.Module) -> Iterator[None]:
    """Adds LoRA to the weights that it adapts while a model answers, so that a layer costs one product and not three.

    Only weights in float32 in the host's memory, where nothing changes but rounding, and of very many the first that
    have MERGED_BYTES together. Afterwards they are what they were, bit by bit.
    """
    layers = [layer for _, layer in adapted_modules(model) if _merges(layer)]
    own = [layer.get_base_layer().weight.data for layer in layers]
    fitting = sum(held <= MERGED_BYTES for held in accumulate(weight.nbytes for weight in own))
    layers, own = layers[:fitting], own[:fitting]
    try:
        for layer, weight in zip(layers, own, strict=True):
            layer.get_base_layer().weight.data = weight.clone()
            layer.merge()
        yield
    finally:
        for layer, weight in zip(layers, own, strict=True):
            layer.get_base_layer().weight.data = weight
            layer.merged_adapters.clear()


def _merges(layer: Any) -> bool:
    from medtune.models.tuning.fused_lora import FusedLinear

    if type(layer) is not FusedLinear or type(layer.get_base_layer()) is not nn.Linear or layer.lora_variant:
        return False
    exact = all(is_on_the_host(each) and each.dtype == torch.float32 for each in layer.parameters())
    return exact and not layer.get_base_layer().weight.requires_grad and not (layer.disable_adapters or layer.merged)


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
    able = {name for root in model.part_roots[part] for name in _able(model, part, root)}
    roots = [(root, module) for root in model.part_roots[part] for module in [model.get_submodule(root)]]
    others = {
        name
        for root, module in roots
        for name, each in module.named_modules()
        if name
        and name not in able
        and root_of(f"{root}.{name}", model.part_roots) == (part, root)
        and any(len(getattr(p, "ds_shape", p.shape)) > 1 for p in each.parameters(recurse=False))
    }
    stacks = {name.rpartition(".")[0]: name for root, _ in roots for name in stack_names(model, part, root)}
    field, notes = f"model.tuning.{part}.lora.targets", []
    for said, pattern in alternatives(lora.targets):
        fitting = [name for name in able if fits(pattern, name, field=field)]
        beside = [name for name in sorted(others) if fits(pattern, name, field=field)]
        if beside and not fitting and beside[0] in stacks:
            raise ValueError(
                f"{field}: {said!r} names {beside[0]}, which holds stacks of matrices; name these, for instance "
                f"{re.escape(stacks[beside[0]])}"
            )
        beside = [name for name in beside if name not in stacks]
        named = ", ".join(beside[:_NAMED]) + (", ..." if len(beside) > _NAMED else "")
        if beside and not fitting:
            raise ValueError(
                f"{field}: {said!r} names {named}, which exists and cannot be adapted (no linear layer inside the "
                f"part: an output layer, embedding, router or the like). Leave it out, or train its weights whole: "
                f"model.tuning.{part}.parameters={re.escape(beside[0])}.weight"
            )
        if beside:
            notes.append(f"{field}: {said!r} also fits {named}, which cannot be adapted and stays as it is")
        elif not fitting:
            notes.append(f"{field}: {said!r} fits no layer of the part and adapts nothing")
    return notes


def unadapted_notes(model: Model, part: PartName) -> list[str]:
    """Returns a sentence on the matrices of an adapted part that are no layers for LoRA, such as fused experts.

    Embeddings and output layers, which LoRA leaves alone by custom, and matrices that learn by themselves are left out.
    """
    able = {f"{root}.{name}" for root in model.part_roots[part] for name in linear_names(model, part, root)}
    adapted = {id(adapted_weight(layer)) for _, layer in adapted_modules(model)}
    modules = dict(model.named_modules())
    outputs = [m.get_output_embeddings() for m in modules.values() if isinstance(m, PreTrainedModel)]
    whole, left, stacks = 0, Counter[str](), 0
    for name, parameter in parameters_of_parts(model)[part]:
        owner = name.rpartition(".")[0]
        if ".lora_" in name:
            continue
        whole += logical_size(parameter)
        layer = modules[owner]
        alone = isinstance(layer, nn.Embedding) or any(layer is output for output in outputs)
        if owner not in able and not alone and not parameter.requires_grad and id(parameter) not in adapted:
            left[re.sub(r"\.\d+(?=\.)", ".*", name.replace(".base_layer", ""))] += logical_size(parameter)
            stacks += is_stack(parameter)
    if left.total() < MENTIONED * whole:
        return []
    named = ", ".join(f"{name} ({size / whole:.1%})" for name, size in left.most_common(_NAMED))
    adapts = (
        f"model.tuning.{part}.lora.targets adapts stacks that it names ('.*' all, and all layers); " if stacks else ""
    )
    return [
        f"model.tuning.{part}: {left.total() / whole:.1%} of the part's weights do not learn, because they lie in no "
        f"linear layer that LoRA adapts: {named}; {adapts}model.tuning.{part}.parameters trains them whole"
    ]


def alternatives(pattern: str) -> list[tuple[str, str]]:
    r"""Returns each alternative of a regular expression, with the expression in which it stands alone.

    >>> alternatives("(q|k)_proj|lm_head")
    [('q', '(q)_proj'), ('k', '(k)_proj'), ('lm_head', 'lm_head')]
    """
    outermost = [*_outermost(pattern)]
    bars = [place for place, letter in outermost if letter == "|"]
    if bars:
        pieces = [pattern[start + 1 : end] for start, end in pairwise([-1, *bars, len(pattern)])]
        return [each for piece in pieces for each in alternatives(piece)]
    found = []
    for (opening, _), (end, _) in zip(outermost[::2], outermost[1::2], strict=False):
        if (group := _GROUP.match(pattern, opening)) is None:
            continue
        first = group.end()
        inner = alternatives(pattern[first:end])
        if len(inner) > 1:
            found += [(said, pattern[:first] + alone + pattern[end:]) for said, alone in inner]
    return found or [(pattern, pattern)]


def _outermost(pattern: str) -> Iterator[tuple[int, str]]:
    """Yields the bars and round brackets of a regular expression that stand inside no bracket, with their places."""
    depth = 0
    for letter in _LETTER.finditer(pattern):
        depth -= letter[0] == ")"
        if letter[0] in ("|", "(", ")") and depth == 0:
            yield letter.start(), letter[0]
        depth += letter[0] == "("
