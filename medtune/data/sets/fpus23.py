"""FPUS23: a fetal phantom in four poses, with boxes around its parts, and frames of three standard planes.

Layout: the release's Dataset/four_poses/<stream>/frame_<6 digits>.png with CVAT 1.1 files
Dataset/annos/annotation/<stream>/annotations.xml or, as in the repository, annotation/<stream>/annotations.xml; and
Dataset_Plane/{AC_PLANE,BPD_PLANE,FL_PLANE,NO_PLANE}/*.png. Either part may be missing.

Source: Prabakaran et al., FPUS23, IEEE Access 2023, arXiv 2303.07852; github.com/bharathprabakaran/FPUS23.
"""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import PIL.Image

from medtune.data.images import Size, image_size
from medtune.data.public_set import Frame, Marked, PublicSet, SetTable
from medtune.data.raw_folder import visible
from medtune.data.types import Box

POSES = ("hdvb", "hdvf", "huvb", "huvf")
PLANES = ("AC_PLANE", "BPD_PLANE", "FL_PLANE", "NO_PLANE")
PARTS = ("abdomen", "arm", "head", "legs")
_ANNOTATIONS = ("Dataset/annos/annotation", "Dataset/boxes/annotation", "annotation")


def public_set() -> PublicSet:
    """Returns the set."""
    return PublicSet(
        title="FPUS23, a fetal phantom",
        licence="MIT",
        url="https://github.com/bharathprabakaran/FPUS23",
        patient_unit="a stream (one sweep over the phantom in one pose); the frames of Dataset_Plane name no "
        "stream, so that each stands for one patient",
        is_phantom=True,
        read=_read,
        write_example=_write_example,
    )


def _read(folder: Path, scratch: Path) -> SetTable:
    """Returns the frames that a stream's XML file lists, and those of the planes.

    615 frames of the release carry their pose twice, which counts once; a frame with two poses is an error.

    Raises:
        FileNotFoundError: A listed frame is missing, or there is neither part.
        ValueError: An XML file is broken, or a pose or box is not as documented.
    """
    streams = [path for place in _ANNOTATIONS for path in sorted((folder / place).glob("*/annotations.xml"))]
    planes = folder / "Dataset_Plane"
    if not streams and not planes.is_dir():
        raise FileNotFoundError(f"{folder}: wanted FPUS23's annotations ({', '.join(_ANNOTATIONS)}) or Dataset_Plane/.")
    names = [path.parent.name for path in streams]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise ValueError(f"{folder}: the stream {twice[0]} is annotated in two places. Keep one of them.")
    frames = [frame for path in streams for frame in _stream(folder, path)]
    return SetTable((*frames, *_plane_frames(planes)))


def _stream(folder: Path, annotations: Path) -> Iterator[Frame]:
    stream = annotations.parent.name
    try:
        images = ET.parse(annotations).getroot().findall("image")
    except ET.ParseError as error:
        raise ValueError(f"{annotations}: broken XML ({error}). Take the file from the release again.") from error
    for image in sorted(images, key=lambda image: image.get("name", "")):
        where = f"{annotations}, image {image.get('name')!r}"
        path = folder / "Dataset" / "four_poses" / stream / image.get("name", "")
        if not path.is_file():
            raise FileNotFoundError(f"{where}: there is no frame {path}. Unpack Dataset/four_poses of the release.")
        size = image_size(path)
        stated = (image.get("width"), image.get("height"))
        if stated != (str(size.width), str(size.height)):
            raise ValueError(
                f"{where}: the frame is {size.width} x {size.height}, the file says {' x '.join(map(str, stated))}."
            )
        yield Frame(
            name=f"{stream} {path.stem}",
            path=path,
            patient=stream,
            size=size,
            labels={"orientation": _pose(image, where), **_part_seen(image)},
            boxes=tuple(Marked(*_box(box, size, where)) for box in image.findall("box")),
        )


def _attribute(image: ET.Element, tag: str, name: str) -> set[str]:
    found = image.iterfind(f"tag[@label='{tag}']/attribute[@name='{name}']")
    return {(attribute.text or "").strip() for attribute in found}


def _pose(image: ET.Element, where: str) -> str:
    poses = _attribute(image, "Orientation", "Pose")
    if len(poses) != 1 or not poses <= set(POSES):
        raise ValueError(f"{where}: wanted one Pose of {', '.join(POSES)}, got {', '.join(sorted(poses)) or 'none'}.")
    return poses.pop()


def _part_seen(image: ET.Element) -> dict[str, str]:
    """Returns the standard plane that a frame is tagged with: the abdominal one in 106 frames, none elsewhere."""
    planes = _attribute(image, "diagnostic_plane", "plane")
    return {"plane": planes.pop()} if len(planes) == 1 else {}


def _box(box: ET.Element, size: Size, where: str) -> Marked:
    label = box.get("label", "")
    if label not in PARTS:
        raise ValueError(f"{where}: wanted a box of {', '.join(PARTS)}, got {label!r}.")
    try:
        x0, y0, x1, y1 = (float(box.attrib[side]) for side in ("xtl", "ytl", "xbr", "ybr"))
    except (KeyError, ValueError):
        raise ValueError(f"{where}: the box of {label!r} needs the numbers xtl, ytl, xbr and ybr.") from None
    # CVAT draws between pixels: the pixels that a box touches are in it.
    whole = Box(max(int(x0), 0), max(int(y0), 0), min(int(np.ceil(x1)), size.width), min(int(np.ceil(y1)), size.height))
    if whole.x0 >= whole.x1 or whole.y0 >= whole.y1:
        raise ValueError(f"{where}: the box of {label!r} is empty or lies outside the frame.")
    return Marked(label, whole)


def _plane_frames(planes: Path) -> Iterator[Frame]:
    if not planes.is_dir():
        return
    for plane in PLANES:
        folder = planes / plane
        if not folder.is_dir():
            raise FileNotFoundError(f"{folder}: this folder of Dataset_Plane is missing. Unpack it from the release.")
        for path in visible(folder):
            name = f"{plane} {path.stem}"
            yield Frame(name, path, name, image_size(path), {"plane": plane})


def _write_example(folder: Path) -> None:
    """Writes eight streams of three frames, two of each pose, and four frames of each plane, as released."""
    rng = np.random.default_rng(23)

    def write(path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        PIL.Image.fromarray(rng.integers(20, 120, (39, 68), dtype=np.uint8)).save(path)

    for number, pose in enumerate(POSES * 2):
        stream = f"stream_{pose}_around{PARTS[number % 4]}_{'hv'[number // 4]}"
        images = []
        for frame in range(3):
            write(folder / "Dataset" / "four_poses" / stream / f"frame_{frame:06d}.png")
            tag = f'<tag label="Orientation"><attribute name="Pose">{pose}</attribute></tag>'
            part = PARTS[(number + frame) % 4]
            box = f'<box label="{part}" xtl="{4 + frame}.40" ytl="5.10" xbr="{30 + 4 * frame}.30" ybr="24.90"></box>'
            # The release has frames whose pose is tagged twice.
            tags = tag * (2 if frame == 1 else 1)
            images.append(
                f'<image id="{frame}" name="frame_{frame:06d}.png" width="68" height="39">{box}{tags}</image>'
            )
        xml = folder / "Dataset" / "annos" / "annotation" / stream / "annotations.xml"
        xml.parent.mkdir(parents=True, exist_ok=True)
        xml.write_text(f"<annotations><version>1.1</version>{''.join(reversed(images))}</annotations>", "utf-8")
    for plane in PLANES:
        for number in range(4):
            write(folder / "Dataset_Plane" / plane / f"{plane.lower()}_{number}.png")
