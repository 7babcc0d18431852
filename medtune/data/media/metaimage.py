"""Reads MetaImage files (.mha, or .mhd with a file beside it) of grey values and marks.

Source: ITK's MetaIO, the format's tags (ObjectType, NDims, DimSize, ElementType, CompressedData, ElementDataFile).
"""

import math
import zlib
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

_HEADER_BYTES = 2**16
_LOCAL = "LOCAL"
_MOST_VALUES = 2**31
_TYPES: Mapping[str, str] = {
    "MET_UCHAR": "u1", "MET_CHAR": "i1", "MET_USHORT": "u2", "MET_SHORT": "i2", "MET_UINT": "u4", "MET_INT": "i4",
    "MET_ULONG": "u4", "MET_LONG": "i4", "MET_ULONG_LONG": "u8", "MET_LONG_LONG": "i8",
}  # fmt: skip


def read_metaimage(path: Path) -> NDArray[np.uint8]:
    """Returns the numbers in a MetaImage file, slowest axis first: (H, W), (frames, H, W) or (H, W, channels)."""
    if not path.is_file():
        raise FileNotFoundError(f"{path}: there is no such file. Copy it from the release.")
    try:
        stored = _read(path)
    except (OSError, ValueError, KeyError, zlib.error) as error:
        raise ValueError(f"{path}: no readable MetaImage (truncated?). Copy or download it again.") from error
    if stored.min() < 0 or stored.max() > 255:
        raise ValueError(f"{path}: wanted whole numbers from 0 to 255, got {stored.dtype} up to {stored.max()}.")
    return stored.astype(np.uint8)


def _read(path: Path) -> NDArray[np.generic]:
    with path.open("rb") as file:
        header, size = _header(file.read(_HEADER_BYTES))
    shape = [int(length) for length in header["DimSize"].split()][::-1]
    if int(header.get("ElementNumberOfChannels", "1")) > 1:
        shape.append(int(header["ElementNumberOfChannels"]))
    if min(shape) < 1 or math.prod(shape) > _MOST_VALUES:
        raise ValueError("DimSize")
    is_big = _is_true(header, "BinaryDataByteOrderMSB") or _is_true(header, "ElementByteOrderMSB")
    kind = np.dtype((">" if is_big else "<") + _TYPES[header["ElementType"]])
    num_bytes = math.prod(shape) * kind.itemsize
    name = header["ElementDataFile"]
    # Only a file beside the header: a name could lead anywhere.
    content = path.read_bytes()[size:] if name == _LOCAL else (path.parent / Path(name).name).read_bytes()
    if _is_true(header, "CompressedData"):
        content = zlib.decompressobj().decompress(content, num_bytes)
    # Behind a skipped header of its own, -1 stands for "the values end the file".
    skipped = int(header.get("HeaderSize", "0"))
    content = content[len(content) - num_bytes :] if skipped == -1 else content[skipped:]
    return np.frombuffer(content[:num_bytes], kind).reshape(shape)


def _header(start: bytes) -> tuple[Mapping[str, str], int]:
    """Returns the tags in front of the values, the last of which is ElementDataFile, and how many bytes they take."""
    found, size = dict[str, str](), 0
    for line in start.splitlines(keepends=True):
        size += len(line)
        tag, _, value = line.decode("ascii").partition("=")
        found[tag.strip()] = value.strip()
        if tag.strip() == "ElementDataFile":
            return found, size
    raise KeyError("ElementDataFile")


def _is_true(header: Mapping[str, str], tag: str) -> bool:
    return header.get(tag, "False").lower() in ("true", "1")
