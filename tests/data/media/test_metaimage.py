"""MetaImage files are read as SimpleITK, an independent reader, reads them, or refused with their name."""

import re
from pathlib import Path

import numpy as np
import pytest
import SimpleITK

from medtune.data.media.metaimage import read_metaimage


@pytest.mark.parametrize("kind", ["u1", "i1", "u2", "i2", "u4", "i4", "u8", "i8"])
@pytest.mark.parametrize("name", ["image.mha", "image.mhd"])
@pytest.mark.parametrize("is_compressed", [False, True])
def test_values_are_those_of_another_reader(kind: str, name: str, is_compressed: bool, tmp_path: Path) -> None:
    stored = np.random.default_rng(0).integers(0, 128, (3, 4, 5)).astype(kind)
    path = tmp_path / name
    SimpleITK.WriteImage(SimpleITK.GetImageFromArray(stored), str(path), useCompression=is_compressed)
    theirs = SimpleITK.GetArrayFromImage(SimpleITK.ReadImage(str(path)))
    np.testing.assert_array_equal(read_metaimage(path), theirs)


def test_colours_flat_pictures_and_big_endian_values(tmp_path: Path) -> None:
    for stored, is_vector in ((np.arange(60, dtype="u1").reshape(4, 5, 3), True), (np.eye(4, dtype="u1"), False)):
        path = tmp_path / "image.mha"
        SimpleITK.WriteImage(SimpleITK.GetImageFromArray(stored, isVector=is_vector), str(path))
        np.testing.assert_array_equal(read_metaimage(path), stored)
    header = (
        "NDims = 2\nDimSize = 3 2\nElementType = MET_SHORT\nBinaryDataByteOrderMSB = True\nElementDataFile = LOCAL\n"
    )
    path.write_bytes(header.encode() + np.arange(6, dtype=">i2").tobytes())
    np.testing.assert_array_equal(read_metaimage(path), SimpleITK.GetArrayFromImage(SimpleITK.ReadImage(str(path))))


@pytest.mark.parametrize("is_compressed", [False, True])
def test_a_cut_or_odd_file_is_named(tmp_path: Path, is_compressed: bool) -> None:
    path = tmp_path / "image.mha"
    SimpleITK.WriteImage(SimpleITK.GetImageFromArray(np.eye(40, dtype="u1")), str(path), useCompression=is_compressed)
    whole = path.read_bytes()
    changed = (whole[: len(whole) // 2], whole[:-9], b"", whole.replace(b"MET_UCHAR", b"MET_FLOAT"),
               whole.replace(b"40 40", b"40 -4"), whole.replace(b"40 40", b"99999 99999"), b"NDims = \xff\n" + whole,
               whole.replace(b"LOCAL", b"gone.raw"))  # fmt: skip
    for content in changed:
        path.write_bytes(content)
        with pytest.raises(ValueError, match=re.escape(f"{path}: no readable MetaImage")):
            read_metaimage(path)
    path.write_bytes(whole.replace(b"MET_UCHAR", b"MET_CHAR ").replace(b"\1", b"\xff") if not is_compressed else whole)
    if not is_compressed:
        with pytest.raises(ValueError, match="wanted whole numbers from 0 to 255"):
            read_metaimage(path)
