"""Compares the media that a model learnt from with those that it is asked about, across prepared folders."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from medtune.data.prepared.lookalikes import Look, Lookalike, nearest_lookalikes
from medtune.data.prepared.read import Prepared
from medtune.data.types import Split


@dataclass(frozen=True, slots=True)
class ShownMedia:
    """What the media of some splits show, as text and numbers that a checkpoint can keep.

    Attributes:
        contents: The digests of what is decoded: of pixels, voxels or frames.
        looks: The look of each of them that has one, by digest.
    """

    contents: Collection[str]
    looks: Mapping[str, Look]


class SharedMedia(NamedTuple):
    """What evaluated media share with learnt ones.

    Attributes:
        same: The digests of the media that were learnt as well, in any file format.
        alike: The other evaluated media that look like learnt ones, each with the nearest of them, by digest.
    """

    same: frozenset[str]
    alike: tuple[Lookalike, ...]


def shown_media(prepared: Prepared, splits: Collection[Split]) -> ShownMedia:
    """Returns what the media of some splits of a prepared folder show."""
    files = {ref.path.name for split in splits for group in prepared.groups(split) for ref in group.media}
    looks = {prepared.contents[file]: look for file, look in prepared.looks.items() if file in files}
    return ShownMedia(frozenset(prepared.contents[file] for file in files), looks)


def shared_content(learnt: ShownMedia, evaluated: ShownMedia) -> SharedMedia:
    """Returns the evaluated media that were learnt too: what is the same once decoded, and what looks like it."""
    same = frozenset(learnt.contents) & frozenset(evaluated.contents)
    others = {digest: look for digest, look in evaluated.looks.items() if digest not in same}
    return SharedMedia(same, tuple(nearest_lookalikes(others, learnt.looks)))
