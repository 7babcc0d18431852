"""Reads and writes NIfTI files: volumes in Hounsfield units and masks, with clear messages for broken headers."""

import gzip
import math
import re
import struct
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from medtune.data.media.stored_media import check_bytes
from medtune.data.media.volumes.formats.other_formats import other_format
from medtune.data.media.volumes.geometry import Geometry, Grid, compact_hu, geometry_of
from medtune.data.types import Volume

NIFTI_SUFFIXES = (".nii", ".nii.gz")
_MM_PER_UNIT = {0: 1.0, 1: 1000.0, 2: 1.0, 3: 0.001}
# nibabel and the decompressors raise any of these for a broken file.
_BROKEN = (OSError, EOFError, ValueError, struct.error, zlib.error, OverflowError)
_PIECE_BYTES = 1 << 20
_MAX_DISAGREEMENT = 1e-3
_ORDERS: tuple[Literal["little", "big"], ...] = ("little", "big")

_TEXTS: Mapping[int, tuple[slice, ...]] = {
    348: (slice(4, 14), slice(14, 32), slice(148, 228), slice(228, 252), slice(328, 344)),
    540: (slice(240, 320), slice(320, 344), slice(508, 524)),
}
"""The bytes of free text in a header of NIfTI-1 and NIfTI-2: data_type, db_name, descrip, aux_file and intent_name.

Source: nifti1.h and nifti2.h of the NIfTI data format working group.
"""
_PROGRAMS = re.compile(rb"(?:(?:FSL|ITK|SimpleITK|nibabel|NiBabel|FreeSurfer|SPM|r|v)?[\s\d._-]*)*", re.IGNORECASE)
_MOST_PACKED = 1032
"""No file of gzip is shorter by more. Source: zlib, `Maximum Compression Factor` of its technical details."""
_AGAIN = "Copy or download it again."


def read_nifti(path: Path) -> Volume:
    """Returns the volume in a NIfTI file (.nii or .nii.gz), with slope and intercept applied."""
    image, place = _open(path)
    stored = _voxels(path, image)
    hu_IJK = compact_hu(stored.reshape(stored.shape[:3]), where=f"{path}: voxel data")
    return Volume(hu_IJK, place.spacing_mm, place.orientation)


def check_nifti(path: Path) -> None:
    """Checks the header of a NIfTI file as `read_nifti` does, without reading the voxels."""
    _open(path)


def without_texts(path: Path) -> bytes | None:
    """Returns the content of a NIfTI file without its free texts and extensions; None where it has none.

    The name and version of a usual program are no such text, the file's name in a header of gzip is. The voxels and all
    other fields of the header stay. Of a file without texts only the beginning is read.
    """
    try:
        return _cleaned(path)
    except _BROKEN as error:
        raise ValueError(f"{path}: not a whole NIfTI file ({_why(error)}). {_AGAIN}") from error


def _cleaned(path: Path) -> bytes | None:
    with path.open("rb") as file:
        start = file.read(4)
    is_packed = start[:2] == b"\x1f\x8b"
    with gzip.open(path) if is_packed else path.open("rb") as unpacked:
        head = unpacked.read(max(_TEXTS))
        order = next((each for each in _ORDERS if int.from_bytes(head[:4], each) in _TEXTS), None)
        if order is None:
            return None
        size, form = int.from_bytes(head[:4], order), {"little": "<", "big": ">"}[order]
        at = ("f", 108) if size == 348 else ("q", 168)
        begins = int(struct.unpack_from(f"{form}{at[0]}", head, at[1])[0])
        head += unpacked.read(max(0, begins - len(head)))
        cleaned = bytearray(head)
        for place in _TEXTS[size]:
            text, _, behind = head[place].partition(b"\0")
            if behind.strip(b"\0") or not _PROGRAMS.fullmatch(text):
                cleaned[place] = bytes(place.stop - place.start)
        if begins > size:
            cleaned[size:begins] = bytes(begins - size)
        # Flags of gzip say that its header holds a file's name, a comment, or fields of its own.
        if cleaned == head and not (is_packed and start[3] & 0b11100):
            return None
        content = bytes(cleaned) + unpacked.read()
    return gzip.compress(content, compresslevel=1, mtime=0) if is_packed else content


def nifti_grid(path: Path) -> Grid:
    """Returns the grid that the header of a NIfTI file states, without reading the voxels."""
    image, place = _open(path)
    i, j, k = (int(length) for length in image.shape[:3])
    return Grid((i, j, k), place.spacing_mm, place.orientation)


def read_nifti_mask(path: Path, volume: Volume) -> NDArray[np.bool_]:
    """Returns the mask in a NIfTI file on a volume's grid, True where the file is not zero."""
    check_bytes(path)
    mask = read_nifti(path)
    if mask.hu_IJK.shape != volume.hu_IJK.shape or mask.orientation != volume.orientation:
        raise ValueError(
            f"{path}: a mask of {mask.hu_IJK.shape} {mask.orientation} for a scan of {volume.hu_IJK.shape} "
            f"{volume.orientation}. Resample it to the scan's grid."
        )
    if not np.allclose(mask.spacing_mm, volume.spacing_mm, rtol=_MAX_DISAGREEMENT):
        raise ValueError(f"{path}: spacing {mask.spacing_mm} for a scan of {volume.spacing_mm} mm. Resample it first.")
    return np.asarray(mask.hu_IJK != 0)


def nifti_affine(path: Path) -> NDArray[np.float64]:
    """Returns the (4, 4) matrix from a NIfTI file's voxels to mm to the patient's right, front and head."""
    image, place = _open(path)
    # A header may state its lengths in metres or micrometres.
    unit = place.spacing_mm[0] / float(np.linalg.norm(image.affine[:3, 0]))
    return np.asarray(np.diag([unit, unit, unit, 1.0]) @ image.affine, np.float64)


def read_nifti_labels(path: Path) -> NDArray[Any]:
    """Returns the values of a mask or label map as the file stores them, (i, j, k)."""
    image, _ = _open(path)
    return np.asarray(_voxels(path, image)).reshape(image.shape[:3])


def _voxels(path: Path, image: Any) -> NDArray[Any]:
    try:
        if path.suffix != ".gz":
            return np.asanyarray(image.dataobj)
        with gzip.open(path) as file:
            stored: NDArray[Any] = np.asanyarray(type(image).from_stream(file).dataobj)
            # The checksum stands behind the last byte, and is compared when that is read.
            while file.read(_PIECE_BYTES):
                pass
            return stored
    except _BROKEN as error:
        raise ValueError(f"{path}: the voxels cannot be read ({_why(error)}). {_AGAIN}") from error


def _why(error: BaseException) -> str:
    is_damaged = isinstance(error, gzip.BadGzipFile | zlib.error)
    return f"{type(error).__name__}: {'damaged, its checksum is another' if is_damaged else 'truncated?'}"


def write_nifti(path: Path, values_IJK: NDArray[np.generic], affine: NDArray[np.float64]) -> None:
    """Writes a NIfTI file with qform and sform in mm, without slope or intercept; .gz is compressed fast but little."""
    import nibabel

    image = nibabel.Nifti1Image(values_IJK, affine)
    image.header.set_xyzt_units("mm")
    image.set_qform(affine, code=1)
    image.set_sform(affine, code=1)
    content = image.to_bytes()
    # Compressing in one piece takes a third of nibabel's time; without a time stamp equal values give equal bytes.
    path.write_bytes(gzip.compress(content, compresslevel=1, mtime=0) if path.suffix == ".gz" else content)


def _open(path: Path) -> tuple[Any, Geometry]:
    import nibabel
    from nibabel.filebasedimages import ImageFileError
    from nibabel.spatialimages import HeaderDataError

    if not path.is_file():
        raise FileNotFoundError(f"{path}: there is no such NIfTI file. Check the path.")
    if (other := other_format(path)) is not None:
        raise ValueError(f"{path}: {other}")
    try:
        image = nibabel.load(path)
        if not isinstance(image, nibabel.Nifti1Pair):
            raise ValueError(
                f"{path}: a {type(image).__name__.removesuffix('Image')} file, which has no grid of voxels as a NIfTI "
                "volume has (CIFTI holds values on surfaces). Export the volume as NIfTI."
            )
        # nibabel replaces a spacing of zero by one millimetre when it loads, so that the stored header is read as well.
        with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
            stored = type(image.header).from_fileobj(file, check=False)
    except (ImageFileError, HeaderDataError, AttributeError, *_BROKEN) as error:
        if str(path) in str(error) and isinstance(error, ValueError):
            raise
        raise ValueError(f"{path}: not a whole NIfTI file ({type(error).__name__}). {_AGAIN}") from error
    shape = image.shape
    if len(shape) < 3 or any(length != 1 for length in shape[3:]):
        raise ValueError(f"{path}: dim: {len(shape)} axes {shape}, wanted one 3D volume. Export the one that you need.")
    _refuse_voxels(path, image, stored)
    spacing = np.abs(np.asarray(stored["pixdim"][1:4], dtype=np.float64))
    if not np.isfinite(spacing).all() or spacing.min() <= 0:
        raise ValueError(f"{path}: pixdim: no spacing {tuple(spacing)}. Write the voxel size in mm into the header.")
    if not (int(stored["qform_code"]) > 0 or int(stored["sform_code"]) > 0):
        raise ValueError(
            f"{path}: qform_code and sform_code: both 0, so that left and right are not known. Convert the scan again "
            "from its DICOM series."
        )
    unit = _MM_PER_UNIT.get(int(stored["xyzt_units"]) & 0x07, 1.0)
    place = geometry_of(image.affine[:3, :3] * unit, where=f"{path}: affine")
    if not np.allclose(place.spacing_mm, spacing * unit, rtol=_MAX_DISAGREEMENT):
        raise ValueError(
            f"{path}: pixdim says {tuple(np.round(spacing * unit, 4))} mm and the affine "
            f"{tuple(np.round(place.spacing_mm, 4))} mm. Correct the one that is wrong."
        )
    # The header holds 32-bit floats. The shortest decimal that gives the same float is the spacing that was written:
    # 8.1, not 8.100000381. Sizes after resampling are rounded down, so that this can decide about a voxel.
    i, j, k = (float(str(np.float32(length))) * unit for length in spacing)
    return image, Geometry((i, j, k), place.orientation)


def _refuse_voxels(path: Path, image: Any, stored: Any) -> None:
    """Refuses a header whose voxels are no numbers, or cannot be in the file, before any memory is taken for them."""
    if min(image.shape) < 1:
        raise ValueError(f"{path}: dim: {image.shape}, an axis without voxels. {_AGAIN}")
    kind = image.get_data_dtype()
    if kind.kind not in "iuf":
        what = "colours (RGB)" if kind.fields else "complex numbers" if kind.kind == "c" else str(kind)
        raise ValueError(f"{path}: datatype: its voxels are {what}, wanted one number each. Export the scan itself.")
    if np.isinf(stored["scl_slope"]) or np.isinf(stored["scl_inter"]):
        raise ValueError(f"{path}: scl_slope or scl_inter is infinite. Convert the scan again.")
    wanted, held = math.prod(image.shape) * kind.itemsize, path.stat().st_size
    if wanted > held * (_MOST_PACKED if path.suffix == ".gz" else 1):
        raise ValueError(
            f"{path}: truncated? dim: {image.shape} needs {wanted:,} bytes, more than can be in the file. {_AGAIN}"
        )
