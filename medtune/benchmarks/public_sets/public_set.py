"""The types that describe a public image set and its images, and functions that find and read a set by its name.

A set's labels stay in the set's own words here; each benchmark translates them into its own terms.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import NamedTuple, cast

from medtune.data import catalog
from medtune.data.media.images import Size
from medtune.data.raw.row_errors import Reject
from medtune.data.types import Box, Split


class Marked(NamedTuple):
    """A structure that is marked in an image.

    Attributes:
        label: The set's own label of the structure.
        box: The smallest box around the structure, in pixels.
    """

    label: str
    box: Box


@dataclass(frozen=True, slots=True)
class Frame:
    """One image of a set, with everything that the set's files state about it.

    Attributes:
        name: A name that is unique in the set.
        path: The image file.
        patient: An identifier of the patient, or of the unit that stands for a patient (a film or a study); None if
            the release does not state it. The image then counts as a patient of its own.
        size: Width and height of the image in pixels.
        labels: The set's own labels by their kind: plane, orientation, view, landmarks or diagnosis.
        boxes: The marked structures, each with the smallest box around it; empty if none is marked.
        values: Measured values by name; the name ends with the unit, e.g. {"hc_mm": 175.2}.
        facets: Facts by which scores may be broken down but about which no question asks, e.g.
            {"scanner": "Voluson E6"}.
        split: The split that the set's authors gave the image; None if they published no split.
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
    """All images that were read from a set's folder.

    Attributes:
        frames: The images that could be read.
        notes: Sentences for the manifest that say which images were left out on purpose and how many, without file
            names.
        rejects: The images that could not be read, with their places relative to the set's folder. A broken file
            that would have given several images counts as many times as such a file gives images on average.
    """

    frames: tuple[Frame, ...]
    notes: tuple[str, ...] = ()
    rejects: tuple[Reject, ...] = ()


@dataclass(frozen=True, slots=True)
class PublicSet:
    """One public image set and the functions that read it.

    Attributes:
        title: The set's title for people.
        licence: The licence under which the set was published.
        url: The address from which the set can be downloaded.
        patient_unit: The unit that stands for a patient, in words.
        stands_for_patient: What `Frame.patient` names, as a noun: "patient", or what stands for one, e.g. "film".
        is_phantom: Whether the images show a phantom instead of patients.
        read: Takes the set's folder and an empty scratch folder, and returns the table of images. Frames that are
            extracted from files with several frames are written as images into the scratch folder.
    """

    title: str
    licence: str
    url: str
    patient_unit: str
    stands_for_patient: str
    is_phantom: bool
    read: Callable[[Path, Path], SetTable]


def public_set(name: str) -> PublicSet:
    build = cast("Callable[[], PublicSet]", catalog.load(catalog.PUBLIC_SETS, name))
    return build()


def read_set(name: str, folder: Path, scratch: Path) -> SetTable:
    """Returns the table of images that a set's folder holds.

    Args:
        name: The set's name, for example "hc18".
        folder: The folder with the set's release.
        scratch: An existing folder. A new folder with the set's name is made in it for extracted frames.

    Returns:
        The table. The places of its rejects begin with the set's name, as if `folder` had that name.
    """
    own = scratch / name
    own.mkdir()
    table = public_set(name).read(folder, own)
    if not table.frames and not table.rejects:
        raise ValueError(f"{folder}: wanted the images of {name}, the folder is empty. Copy the release into it.")
    rejects = tuple(replace(reject, file=f"{name}/{reject.file}".rstrip("/")) for reject in table.rejects)
    return table._replace(rejects=rejects)


def sub_folders(root: Path, names: Iterable[str]) -> dict[str, Path]:
    """Returns the set folders in `root` by set name, in the order of `names`; each folder is named like its set."""
    known = list(names)
    found = {name: root / name for name in known if (root / name).is_dir()}
    odd = sorted(path.name for path in root.iterdir() if path.name not in found and not path.name.startswith("."))
    if odd or not found:
        got = f"got {odd[0]!r}.{catalog.nearest(odd[0], known)}" if odd else "there is none."
        raise ValueError(f"{root}: wanted one folder per set, named {', '.join(known)} (links will do), {got}")
    return found
