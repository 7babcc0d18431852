"""Small scans on disk for tests."""

from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from pydicom.dataset import FileDataset, FileMetaDataset
from pydicom.uid import CTImageStorage, ExplicitVRLittleEndian, generate_uid

from medtune.data.media.volumes.formats.nifti import write_nifti

SECRET = "Secret^Patient"
LPS_2_2_5 = np.diag([-2.0, -2.0, 5.0, 1.0])


def scan(shape: tuple[int, int, int] = (6, 5, 4), seed: int = 0) -> NDArray[np.int16]:
    """Random Hounsfield units."""
    return np.random.default_rng(seed).integers(-1024, 3071, shape).astype(np.int16)


def nifti(path: Path, hu: NDArray[np.generic] | None = None, affine: NDArray[np.float64] = LPS_2_2_5) -> Path:
    """Writes a NIfTI file and returns its path."""
    write_nifti(path, scan() if hu is None else hu, affine)
    return path


def series(
    folder: Path,
    hu_IJK: NDArray[np.int16],
    *,
    spacing: tuple[float, float, float] = (0.8, 0.7, 2.5),
    left_out: tuple[int, ...] = (),
    reverse: bool = False,
    tilt_mm: float = 0.0,
) -> Path:
    """Writes an axial CT series: i to the left, j to the back, k to the head; files in no order of place."""
    folder.mkdir(parents=True)
    uid = generate_uid()
    for k in range(hu_IJK.shape[2]):
        if k in left_out:
            continue
        meta = FileMetaDataset()
        meta.MediaStorageSOPClassUID = CTImageStorage
        meta.MediaStorageSOPInstanceUID = generate_uid()
        meta.TransferSyntaxUID = ExplicitVRLittleEndian
        dataset = FileDataset("", {}, file_meta=meta, preamble=b"\0" * 128)
        dataset.PatientName = dataset.PatientID = SECRET
        dataset.SeriesInstanceUID = uid
        dataset.Rows, dataset.Columns = hu_IJK.shape[1], hu_IJK.shape[0]
        dataset.SamplesPerPixel = 1
        dataset.PhotometricInterpretation = "MONOCHROME2"
        dataset.BitsAllocated = dataset.BitsStored = 16
        dataset.HighBit, dataset.PixelRepresentation = 15, 0
        dataset.PixelSpacing = [spacing[1], spacing[0]]
        dataset.ImageOrientationPatient = [1, 0, 0, 0, 1, 0]
        dataset.ImagePositionPatient = [-10.0, -20.0 + tilt_mm * k, 30.0 + spacing[2] * k]
        dataset.RescaleSlope, dataset.RescaleIntercept = 1, -1024
        dataset.PixelData = (hu_IJK[:, :, k].T.astype(np.int32) + 1024).astype(np.uint16).tobytes()
        place = hu_IJK.shape[2] - k if reverse else k
        dataset.save_as(folder / f"{place:03d}.dcm", enforce_file_format=True)
    return folder
