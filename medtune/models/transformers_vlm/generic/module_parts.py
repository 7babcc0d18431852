"""Finds the vision tower, the projector and the language model in the module tree of any model of transformers."""

from collections.abc import Iterator, Mapping

from torch import nn
from transformers import PreTrainedModel

from medtune.models.contract import PARTS, root_of
from medtune.models.tuning.plan import PartName

_SEEING, _HEARING = ("vision", "visual", "image"), ("audio", "speech")
_WRITING = ("text", "language", "llm", "decoder")


def find_parts(whole: PreTrainedModel) -> dict[PartName, tuple[str, ...]]:
    """Returns the names of each part's modules and parameters.

    The language model is the decoder with the input embeddings and the output layer. The vision tower is each module
    that transformers built from the configuration of a tower for images (or sounds, which no question shows). The
    projector is the rest of the model. If nothing is left, it is those children of the tower that come after the
    tower's layers and end in the width of the language model, such as the mergers of the Qwen family.
    """
    language = _language(whole)
    vision = [name for name in _towers(whole) if not _within(name, language)]
    projector = _rest(whole, (*language, *vision))
    if not projector:
        projector = [name for tower in vision for name in _mergers(whole, tower)]
    roots: dict[PartName, tuple[str, ...]] = {
        "vision": tuple(vision),
        "projector": tuple(projector),
        "language": tuple(language),
    }
    held = {part for part in PARTS if roots[part]}
    if len(held) == len(PARTS):
        held = {root_of(name, roots)[0] for name, _ in whole.named_parameters()}
    if lacking := [part for part in PARTS if part not in held]:
        raise ValueError(
            f"no {lacking[0]} was found in {type(whole).__name__}: {described(roots)}. The top of its modules:\n"
            f"{_top_of_tree(whole)}\nmedtune needs a vision tower, a projector and a language model that are modules "
            "of their own; such a model needs a family of its own (CONTRIBUTING.md, `Add a family`)"
        )
    return roots


def described(roots: Mapping[PartName, tuple[str, ...]]) -> str:
    """Returns the parts with their modules as one line of text."""
    return "; ".join(f"{part}: {', '.join(roots[part]) or 'nothing'}" for part in PARTS)


def _language(whole: PreTrainedModel) -> list[str]:
    names = {id(module): name for name, module in whole.named_modules() if name}
    configs = _sub_configs(whole, _WRITING)
    decoder = whole.get_decoder()
    if id(decoder) not in names or any(name.startswith(f"{names[id(decoder)]}.") for name in _towers(whole)):
        # The module that `get_decoder` names holds the tower as well. The decoder is then the model that was built from
        # the configuration of the text.
        found = _built_from(whole, configs)
    else:
        found = [names[id(decoder)]]
    if not found:
        # Embeddings alone are no language model: its layers could be anywhere, even among the tower's.
        return []
    for module in (whole.get_input_embeddings(), whole.get_output_embeddings()):
        name = names.get(id(module))
        if name is not None and not _within(name, found):
            found.append(name)
    return found


def _towers(whole: PreTrainedModel) -> list[str]:
    found = _built_from(whole, _sub_configs(whole, (*_SEEING, *_HEARING)))
    tower = whole.get_encoder(modality="image")
    name = next((name for name, module in whole.named_modules() if name and module is tower), None)
    if name is not None and tower is not whole.get_decoder() and not _within(name, found):
        found = [name, *(each for each in found if not each.startswith(f"{name}."))]
    return found


def _sub_configs(whole: PreTrainedModel, words: tuple[str, ...]) -> list[object]:
    keys = [key for key in vars(whole.config) if key.endswith("_config") and any(word in key for word in words)]
    return [getattr(whole.config, key) for key in keys if getattr(whole.config, key) is not None]


def _built_from(whole: PreTrainedModel, configs: list[object]) -> list[str]:
    kinds = {type(config) for config in configs} - {type(whole.config), dict}
    found: list[str] = []
    for name, module in whole.named_modules():
        if name and isinstance(module, PreTrainedModel) and type(module.config) in kinds and not _within(name, found):
            found.append(name)
    return found


def _rest(whole: PreTrainedModel, taken: tuple[str, ...]) -> list[str]:
    found: dict[str, None] = {}
    for name, _ in whole.named_parameters():
        if _within(name, taken):
            continue
        path = name.split(".")
        prefixes = [".".join(path[:length]) for length in range(1, len(path) + 1)]
        # A module that holds a taken root is no candidate, as the taken root would lie inside it.
        found[next(each for each in prefixes if not any(_within(root, [each]) for root in taken))] = None
    return list(found)


def _mergers(whole: PreTrainedModel, tower: str) -> Iterator[str]:
    width = whole.config.get_text_config().hidden_size
    children = list(whole.get_submodule(tower).named_children())
    stacks = [number for number, (_, child) in enumerate(children) if isinstance(child, nn.ModuleList)]
    for name, child in children[stacks[0] + 1 if stacks else len(children) :]:
        linear = [module for module in child.modules() if isinstance(module, nn.Linear)]
        if linear and linear[-1].out_features == width:
            yield f"{tower}.{name}"


def _within(name: str, roots: list[str] | tuple[str, ...]) -> bool:
    return any(name == root or name.startswith(f"{root}.") for root in roots)


def _top_of_tree(whole: PreTrainedModel) -> str:
    named = [(name, module) for name, module in whole.named_modules() if name and name.count(".") <= 2]
    return "\n".join(f"    {name}: {type(module).__name__}" for name, module in named if not name[-1].isdigit())
