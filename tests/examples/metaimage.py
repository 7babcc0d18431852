"""Writes MetaImage files (.mha) for the examples of public sets."""

import zlib
from pathlib import Path

import numpy as np
from numpy.typing import NDArray


def write_metaimage(path: Path, stored: NDArray[np.uint8]) -> None:
    """Writes an array as a compressed MetaImage file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    tags = {
        "ObjectType": "Image",
        "NDims": stored.ndim,
        "BinaryData": True,
        "BinaryDataByteOrderMSB": False,
        "CompressedData": True,
        "DimSize": " ".join(map(str, stored.shape[::-1])),
        "ElementType": "MET_UCHAR",
        "ElementDataFile": "LOCAL",
    }
    header = "".join(f"{name} = {value}\n" for name, value in tags.items())
    path.write_bytes(header.encode("ascii") + zlib.compress(stored.tobytes()))
