"""Families of transformers' vision-language models. Each is a function, by whose name a zoo entry refers to it.

Where it is `family` in a module of its own, the module's name is the family's.
"""

import inspect
from collections.abc import Iterator
from typing import cast

from transformers import CONFIG_MAPPING, MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING, PreTrainedModel

from medtune.data import catalog
from medtune.models.transformers_vlm.family import Family


def find_family(name: str) -> Family:
    return catalog.made(catalog.FAMILIES, name, Family)


def arguments_not_given(family: Family) -> Iterator[tuple[str, list[str]]]:
    """Yields each model class that asks for more to encode an image than the family's pixels, and what it asks for."""
    known = [CONFIG_MAPPING[model_type] for model_type in family.model_types if model_type in CONFIG_MAPPING]
    for config in (config for config in known if config in MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING):
        model = cast("type[PreTrainedModel]", MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING[config])
        encode = getattr(model, "get_image_features", lambda: None)
        asked = [each for each in inspect.signature(encode).parameters.values() if each.default is each.empty]
        needed = [each.name for each in asked if each.kind is each.POSITIONAL_OR_KEYWORD and each.name != "self"]
        if lacking := [name for name in needed if name not in family.pixels]:
            yield model.__name__, lacking
