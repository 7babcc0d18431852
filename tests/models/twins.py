"""The tiny twins of the zoo, each with a small media item to show it: an image, a clip or a volume."""

import itertools
import re
from collections.abc import Iterable
from contextlib import nullcontext
from copy import deepcopy
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest
import torch

from medtune.data import catalog
from medtune.data.types import Image, Size, Video
from medtune.models.answering import LocalAnswerer
from medtune.models.assemble import ZooEntry, any_entry, zoo_entry
from medtune.models.attention import END
from medtune.models.contract import Assembled
from medtune.models.sequence.builder import Sequence
from medtune.models.sequence.packing import PackedRows, Shown, pack
from medtune.models.sequence.tree import grow
from medtune.models.transformers_vlm.families import find_family
from tests.models.twin_facts import FACTS, Twin
from tests.soak import in_suites


def all_seen(rows: PackedRows) -> PackedRows:
    """Returns rows in which each token sees all tokens before it, those of other branches and trees as well."""
    columns_BCL = rows.columns_BCL.clone()
    columns_BCL[:, END] = columns_BCL.shape[2]
    return rows._replace(columns_BCL=columns_BCL, is_plain=False)


def leaking(rows: PackedRows, place: int) -> PackedRows:
    """Returns rows in which all later tokens see the token at a place, those of other branches as well."""
    columns_BCL = rows.columns_BCL.clone()
    columns_BCL[:, END, place] = columns_BCL.shape[2]
    return rows._replace(columns_BCL=columns_BCL, is_plain=False)


def moved(rows: PackedRows) -> PackedRows:
    """Returns rows in which each second token is one position further on, on every axis."""
    shift_L = torch.arange(rows.ids_BL.shape[1]) % 2
    return rows._replace(
        positions_BL=rows.positions_BL + (shift_L if rows.positions_BL.dim() == 2 else shift_L[:, None])
    )


_BRACES = re.compile(r"\{([^}]*)\}")
_ENTRIES = {name: any_entry(name) for name in catalog.names(catalog.MODELS)}
MODELS = {name: each for name, each in _ENTRIES.items() if isinstance(each, ZooEntry)}
TWINS = {name: FACTS[name] for name, each in MODELS.items() if each.twin}
EVERY_TWIN = tuple(TWINS)
ONE_OF_EACH_KIND = ("nano_pocket", "nano_m3d_phi3", "nano_mllama", "nano_qwen25vl")
each_twin = pytest.mark.parametrize("name", in_suites(EVERY_TWIN, plain=ONE_OF_EACH_KIND, slow=EVERY_TWIN))
"""All of them, of which `make test` takes one of each kind and `make test-slow` the others."""
kinds_then_all = pytest.mark.parametrize("name", in_suites(EVERY_TWIN, plain=ONE_OF_EACH_KIND))
"""One of each kind, and in the soak all: for what holds of a number format or a field, whatever the model."""
OF_TRANSFORMERS = tuple(name for name in TWINS if MODELS[name].family is not None)
OF_THREE_MODULES = tuple(name for name in TWINS if MODELS[name].family is None)
OF_VOLUMES = tuple(name for name, each in TWINS.items() if each.volume is not None)
OF_IMAGES = tuple(name for name, each in TWINS.items() if each.volume is None and not each.video)


def _takes_videos(name: str, twin: Twin) -> bool:
    family = MODELS[name].family
    return twin.video or (family is not None and find_family(family).video is not None)


OF_VIDEOS = tuple(name for name, each in TWINS.items() if _takes_videos(name, each))


def shares_rows(name: str) -> bool:
    """Returns whether several sequences of a twin may stand in one row, which no twin is built for."""
    family = MODELS[name].family
    return family is None or find_family(family).wiring.plain_because is None


@cache
def _assembled(name: str) -> Assembled:
    return zoo_entry(name).assemble(0)


def fresh(name: str) -> Assembled:
    """Returns a twin for a test that changes it: a copy of one that is assembled once."""
    return replace(_assembled(name), model=deepcopy(_assembled(name).model))


@cache
def twin(name: str) -> Assembled:
    """Returns the twin in evaluation mode, for tests that do not change it."""
    assembled = fresh(name)
    assembled.model.eval()
    return assembled


def cpu_answerer(assembled: Assembled, *, max_new_tokens: int, batch_tokens: int = 4096, **how: Any) -> LocalAnswerer:
    limits: dict[str, Any] = {"batch_tokens": batch_tokens, "max_new_tokens": max_new_tokens, **how}
    return LocalAnswerer(assembled, device=torch.device("cpu"), precise=nullcontext, **limits)


def in_type(name: str, dtype: torch.dtype) -> Assembled:
    """Returns the twin with weights as from a file in that type, as released 3D models take them over."""
    assembled = replace(twin(name), model=deepcopy(twin(name).model))
    own = assembled.model.state_dict()
    read = {key: (t.to(dtype) if t.is_floating_point() else t).clone() for key, t in own.items()}
    assembled.model.load_state_dict(read, assign=True)
    return assembled


def picture(seed: int = 0, *, width: int = 90, height: int = 60) -> Image:
    return Image(np.random.default_rng(seed).integers(0, 255, (height, width, 3), dtype=np.uint8))


def size_of(image: Image) -> Size:
    return Size(image.pixels_HWC.shape[1], image.pixels_HWC.shape[0])


def seen(assembled: Assembled, name: str, *seeds: int) -> Any:
    """Returns encoded media items, one for each seed."""
    return assembled.model.encode(shown(assembled, name, *seeds))


def shown(assembled: Assembled, name: str, *seeds: int) -> Any:
    """Returns a batch of prepared media items, one for each seed."""
    if (shape := TWINS[name].volume) is not None:
        # Where the tower takes other sizes, the volume is smaller than the model's own.
        noise = [torch.rand(shape, generator=torch.Generator().manual_seed(seed)) for seed in seeds]
        return torch.stack(noise)
    if TWINS[name].video:
        return assembled.transform.stack([assembled.transform(_clip(assembled, seed)) for seed in seeds])
    return assembled.transform.stack([assembled.transform(picture(seed)) for seed in seeds])


def _clip(assembled: Assembled, seed: int) -> Video:
    count = assembled.transform.sampling.at_most if assembled.transform.sampling else 1
    frames = [picture(1000 * seed + number).pixels_HWC for number in range(count)]
    return Video(np.stack(frames), tuple(map(float, range(count))))


def layout(assembled: Assembled, name: str, answer: str | None = "head", question: str = "Plane?") -> Sequence:
    """Returns the sequence of a question about one of these media items."""
    shape = size_of(picture()) if name in OF_IMAGES else None
    return assembled.template.layout(question, answer, shapes=[shape])


def logprobs(assembled: Assembled, name: str, *, seed: int = 0, question: str = "Plane?") -> torch.Tensor:
    """Returns the log-probabilities of an answer about the media item of that seed."""
    rows = row_each(assembled, [layout(assembled, name, question=question)], [0])
    device = next(assembled.model.parameters()).device
    read: torch.Tensor = assembled.model(rows.to(device), seen(assembled, name, seed)).logprobs_T
    return read


def row_each(assembled: Assembled, layouts: list[Sequence], media: list[int | None]) -> PackedRows:
    """Returns a row for each sequence, in their order."""
    trees = [Shown(grow([each], [n]), item) for n, (each, item) in enumerate(zip(layouts, media, strict=True))]
    return pack([[tree] for tree in trees], pad_id=assembled.template.pad_id)


def expanded(names: Iterable[str]) -> set[str]:
    """Returns the names with every `{a,b}` replaced by each of its members.

    >>> sorted(expanded(["mlp.{up,down}_proj"]))
    ['mlp.down_proj', 'mlp.up_proj']
    """
    found: set[str] = set()
    for name in names:
        fixed = _BRACES.split(name)
        choices = [part.split(",") if number % 2 else [part] for number, part in enumerate(fixed)]
        found |= {"".join(chosen) for chosen in itertools.product(*choices)}
    return found
