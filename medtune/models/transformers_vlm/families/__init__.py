"""Families of transformers' vision-language models. Each is a function, by whose name a zoo entry refers to it.

Where it is `family` in a module of its own, the module's name is the family's.
"""

from collections.abc import Callable
from typing import cast

from medtune.data import catalog
from medtune.models.transformers_vlm.family import Family


def find_family(name: str) -> Family:
    """Returns the family of that name."""
    return cast("Callable[[], Family]", catalog.load(catalog.FAMILIES, name))()
