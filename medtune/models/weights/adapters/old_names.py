"""Gives the tensors of adapters that older versions of transformers wrote the names that the model has today.

Source: transformers 5.23.0, conversion_mapping.py, which renames a checkpoint's tensors when it is loaded; peft renames
an adapter's tensors for some of these models only.
"""

import re
from collections.abc import Iterator

from transformers import PreTrainedModel

from medtune.models.weights.adapters.write import PREFIX

_OLD_STARTS = (
    ("language_model.model.", "model.language_model."),
    ("language_model.lm_head.", "lm_head."),
    ("language_model.", "model.language_model."),
    ("vision_tower.", "model.vision_tower."),
    ("vision_model.", "model.vision_model."),
    ("multi_modal_projector.", "model.multi_modal_projector."),
    ("visual.", "model.visual."),
    ("model.vision_tower.vision_model.", "model.vision_tower."),
    ("vision_tower.vision_model.", "model.vision_tower."),
    ("model.", "model.language_model."),
)
"""Beginnings of names before transformers 4.52 and before 5, and what they are now."""
_BEHIND = re.compile(r"\.(lora_(A|B|embedding_A|embedding_B|magnitude_vector)|weight|bias)\b")


def present_name(whole: PreTrainedModel, name: str) -> str:
    """Returns the name that a tensor of an adapter has today; a name that fits no layer stays as it is.

    Args:
        whole: The model of transformers that the adapter belongs to.
        name: The tensor's name in the file.
    """
    plain = name.replace(".modules_to_save.", ".") if ".modules_to_save." in name else name
    local = plain.removeprefix(PREFIX)
    for candidate in _candidates(local):
        if _is_there(whole, candidate):
            return PREFIX + candidate
    return PREFIX + local


def _candidates(local: str) -> Iterator[str]:
    yield local
    for old, new in _OLD_STARTS:
        if local.startswith(old):
            yield new + local.removeprefix(old)


def _is_there(whole: PreTrainedModel, local: str) -> bool:
    owner = _BEHIND.split(local)[0]
    try:
        whole.get_submodule(owner)
    except AttributeError:
        # A parameter that belongs to a module directly, such as Gemma's projection.
        module, _, parameter = local.rpartition(".")
        return any(name == parameter for name, _ in _direct(whole, module))
    return True


def _direct(whole: PreTrainedModel, name: str) -> Iterator[tuple[str, object]]:
    try:
        yield from whole.get_submodule(name).named_parameters(recurse=False)
    except AttributeError:
        return
