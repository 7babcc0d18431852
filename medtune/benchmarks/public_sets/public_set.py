"""A public image set: the facts that its files state about each image, in the set's own words."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import NamedTuple, cast

from medtune.data import catalog
from medtune.data.media.images import Size
from medtune.data.raw.row_errors import Reject
from medtune.data.types import Box, Split


class Marked(NamedTuple):
    """A structure that a box holds, by the set's own label."""

    label: str
    box: Box


@dataclass(frozen=True, slots=True)
class Frame:
    """One image.

    Attributes:
        name: A name that is unique in the set.
        patient: The patient, or what stands for one; None where the release does not tell, so that the image stands
            alone.
        labels: The content of the image, by kind: plane, orientation, view, landmarks, diagnosis.
        boxes: Outer boxes of marked structures.
        values: Measured values, by name with unit, e.g. {"hc_mm": 175.2}.
        facets: Facts that scores may be broken down by and no question asks for, e.g. {"scanner": "Voluson E6"}.
        split: The set's own split; None where it has none.
    """

    name: str
    path: Path
    patient: str | None
    size: Size
    labels: Mapping[str, str] = field(default_factory=dict)
    boxes: tuple[Marked, ...] = ()
    values: Mapping[str, float] = field(default_factory=dict)
    facets: Mapping[str, str] = field(default_factory=dict)
    split: Split | None = None


class SetTable(NamedTuple):
    """All images of a set.

    Attributes:
        notes: Statements of what was left out on purpose, with counts and without file names.
        rejects: Images that could not be read, by places in the set's folder; a film that would have given several
            counts like the average one.
    """

    frames: tuple[Frame, ...]
    notes: tuple[str, ...] = ()
    rejects: tuple[Reject, ...] = ()


@dataclass(frozen=True, slots=True)
class PublicSet:
    """One set.

    Attributes:
        patient_unit: The unit that stands for a patient, in words.
        read: (folder of the set, scratch) -> table. Frames of films that hold several are written into `scratch`.
        write_example: Writes a small synthetic tree in the set's own layout, for tests.
    """

    title: str
    licence: str
    url: str
    patient_unit: str
    is_phantom: bool
    read: Callable[[Path, Path], SetTable]
    write_example: Callable[[Path], None]


def public_set(name: str) -> PublicSet:
    """Returns the set of that name.

    Raises:
        ValueError: There is none; the message offers the nearest name.
    """
    build = cast("Callable[[], PublicSet]", catalog.load(catalog.PUBLIC_SETS, name))
    return build()


def read_set(name: str, folder: Path, scratch: Path) -> SetTable:
    """Returns what a set's folder holds; the set's frames go into a new folder of its name in `scratch`.

    Rejects name their place in the folder that holds the set's folder under its name.

    Raises:
        FileNotFoundError: A folder or table of the set is missing.
        ValueError: A table is not as documented, or there is nothing.
    """
    own = scratch / name
    own.mkdir()
    table = public_set(name).read(folder, own)
    if not table.frames and not table.rejects:
        raise ValueError(f"{folder}: wanted the images of {name}, the folder is empty. Copy the release into it.")
    rejects = tuple(replace(reject, file=f"{name}/{reject.file}".rstrip("/")) for reject in table.rejects)
    return table._replace(rejects=rejects)


def sub_folders(root: Path, names: Iterable[str]) -> dict[str, Path]:
    """Returns the folders of sets that lie in `root` under the sets' names, by name, in the order of `names`.

    Raises:
        ValueError: There is none, or something else lies there.
    """
    known = list(names)
    found = {name: root / name for name in known if (root / name).is_dir()}
    odd = sorted(path.name for path in root.iterdir() if path.name not in found and not path.name.startswith("."))
    if odd or not found:
        got = f"got {odd[0]!r}.{catalog.nearest(odd[0], known)}" if odd else "there is none."
        raise ValueError(f"{root}: wanted one folder per set, named {', '.join(known)} (links will do), {got}")
    return found
