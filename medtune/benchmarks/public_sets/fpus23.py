"""FPUS23: a fetal phantom in four poses, with boxes around its parts, and frames of three standard planes.

Layout; each of the two parts, poses and planes, may be missing:

    Dataset/four_poses/<stream>/frame_<6 digits>.png        frames of the phantom in four poses
    Dataset/annos/annotation/<stream>/annotations.xml       pose and boxes of these frames, as CVAT 1.1 writes them; or
    annotation/<stream>/annotations.xml                     the same files as they lie in the authors' repository
    Dataset_Plane/{AC_PLANE,BPD_PLANE,FL_PLANE,NO_PLANE}/*.png      frames of standard planes

Source: Prabakaran et al., FPUS23, IEEE Access 2023, arXiv 2303.07852; github.com/bharathprabakaran/FPUS23.
"""

import math
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from medtune.benchmarks.public_sets import Frame, Marked, PublicSet, SetTable
from medtune.data.media.images import image_size
from medtune.data.raw.folder import visible_entries
from medtune.data.raw.source import Place, read_rows, repeat_rejects
from medtune.data.types import Box, Size

POSES = ("hdvb", "hdvf", "huvb", "huvf")
PLANES = ("AC_PLANE", "BPD_PLANE", "FL_PLANE", "NO_PLANE")
PLANE_FOLDER = "Dataset_Plane"
PARTS = ("abdomen", "arm", "head", "legs")
_ANNOTATIONS = ("Dataset/annos/annotation", "Dataset/boxes/annotation", "annotation")


def public_set() -> PublicSet:
    return PublicSet(
        title="FPUS23, a fetal phantom",
        licence="MIT",
        url="https://github.com/bharathprabakaran/FPUS23",
        patient_unit="a stream (one sweep over the phantom in one pose); the frames of Dataset_Plane name no "
        "stream, so that all are test",
        stands_for_patient="sweep",
        is_phantom=True,
        read=_read,
    )


def _read(folder: Path, scratch: Path) -> SetTable:
    """Returns the frames that the streams' XML files list, and the frames of standard planes.

    615 frames of the release are tagged with the same pose twice; this counts as one tag. A frame with two different
    poses is rejected, and so is a frame that is missing or does not have the documented format, without affecting other
    frames. A broken XML file counts as many times as a file lists frames on average.
    """
    streams = [path for place in _ANNOTATIONS for path in sorted((folder / place).glob("*/annotations.xml"))]
    planes = folder / PLANE_FOLDER
    if not streams and not planes.is_dir():
        raise FileNotFoundError(
            f"{folder}: wanted FPUS23's annotations ({', '.join(_ANNOTATIONS)}) or {PLANE_FOLDER}/."
        )
    names = [path.parent.name for path in streams]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise ValueError(f"{folder}: the stream {twice[0]} is annotated in two places. Keep one of them.")
    files, lost = read_rows(enumerate(streams, start=1), lambda each: _stream(folder, *each))
    images = [image for of_file in files for image in of_file]
    seen: set[Path] = set()
    frames, rejects = read_rows(images, lambda image: _frame(image, seen))
    lost = repeat_rejects(lost, made=len(images), of=len(files))
    of_planes, broken = read_rows(_plane_files(planes), lambda each: _plane_frame(*each))
    return SetTable((*frames, *of_planes), rejects=(*lost, *rejects, *broken))


class _Image(NamedTuple):
    place: Place
    path: Path
    element: ET.Element


def _stream(folder: Path, number: int, annotations: Path) -> list[_Image]:
    """Returns the images of a stream, sorted by name.

    Rejects name the stream by its number: a stream stands for a patient, whose name must not appear in a list of
    rejects.
    """
    file = str(annotations.parent.parent.relative_to(folder) / f"[{number}]" / annotations.name)
    try:
        elements = ET.parse(annotations).getroot().findall("image")
    except ET.ParseError as error:
        said = f"broken XML ({error}). Take the file from the release again."
        raise Place(file, 1).error(said, media=annotations) from error
    frames = folder / "Dataset" / "four_poses" / annotations.parent.name
    images = [
        _Image(Place(file, place), frames / element.get("name", ""), element)
        for place, element in enumerate(elements, start=1)
    ]
    return sorted(images, key=lambda image: image.path.name)


def _frame(image: _Image, seen: set[Path]) -> Frame:
    place, path, element = image
    if not path.is_file():
        raise place.error("there is no such frame. Unpack Dataset/four_poses of the release.", media=path)
    if path in seen:
        raise place.error("this frame was listed before.", media=path)
    with place.reject_broken(path):
        size = image_size(path)
    stated = (element.get("width"), element.get("height"))
    if stated != (str(size.width), str(size.height)):
        said = f"the frame is {size.width} x {size.height}, the file says {' x '.join(map(str, stated))}."
        raise place.error(said, media=path)
    labels = {"orientation": _pose(element, place), **_part_seen(element)}
    boxes = tuple(_box(box, size, place) for box in element.findall("box"))
    stream = path.parent.name
    seen.add(path)
    return Frame(f"{stream} {path.stem}", path, stream, size, labels, boxes)


def _attribute(image: ET.Element, tag: str, name: str) -> set[str]:
    found = image.iterfind(f"tag[@label='{tag}']/attribute[@name='{name}']")
    return {(attribute.text or "").strip() for attribute in found}


def _pose(image: ET.Element, place: Place) -> str:
    poses = _attribute(image, "Orientation", "Pose")
    if len(poses) != 1 or not poses <= set(POSES):
        said = f"wanted one of {', '.join(POSES)}, got {', '.join(map(repr, sorted(poses))) or 'none'}."
        raise place.error(said, field="Pose")
    return poses.pop()


def _part_seen(image: ET.Element) -> dict[str, str]:
    planes = _attribute(image, "diagnostic_plane", "plane")
    return {"plane": planes.pop()} if len(planes) == 1 else {}


def _box(box: ET.Element, size: Size, place: Place) -> Marked:
    label = box.get("label", "")
    if label not in PARTS:
        raise place.error(f"wanted a box of {', '.join(PARTS)}, got {label!r}.", field="box")
    try:
        x0, y0, x1, y1 = (float(box.attrib[side]) for side in ("xtl", "ytl", "xbr", "ybr"))
        # CVAT states corners as fractions of pixels. A pixel that the box touches belongs to it.
        low, high = (max(int(x0), 0), max(int(y0), 0)), (math.ceil(x1), math.ceil(y1))
    except (KeyError, ValueError, OverflowError):
        raise place.error(f"the box of {label!r} needs the numbers xtl, ytl, xbr and ybr.", field="box") from None
    whole = Box(*low, min(high[0], size.width), min(high[1], size.height))
    if whole.x0 >= whole.x1 or whole.y0 >= whole.y1:
        raise place.error(f"the box of {label!r} is empty or lies outside the frame.", field="box")
    return Marked(label, whole)


def _plane_files(planes: Path) -> Iterator[tuple[str, Path, Place]]:
    if not planes.is_dir():
        return
    for plane in PLANES:
        folder = planes / plane
        if not folder.is_dir():
            raise FileNotFoundError(f"{folder}: this folder of {PLANE_FOLDER} is missing. Unpack it from the release.")
        for number, path in enumerate(visible_entries(folder), start=1):
            yield plane, path, Place(f"{PLANE_FOLDER}/{plane}", number)


def _plane_frame(plane: str, path: Path, place: Place) -> Frame:
    name = f"{plane} {path.stem}"
    with place.reject_broken(path):
        return Frame(name, path, None, image_size(path), {"plane": plane})
