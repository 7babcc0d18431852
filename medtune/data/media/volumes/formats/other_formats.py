"""Says of files that hold volumes in another form what they are and how they become NIfTI.

Source: DICOM PS3.10 (DICOMDIR) and PS3.3 A.38 (enhanced CT); teem.sourceforge.net/nrrd; ITK's MetaIO.
"""

import warnings
from pathlib import Path

from medtune.data.media.dicom import is_dicom

DIRECTORY = "DICOMDIR"
TO_NIFTI = "dcm2niix -z y -o OUT FOLDER writes a NIfTI file for each series"
CD_EXPORT = (
    f"this is a CD export: {DIRECTORY} lists series whose files lie in the folders beside it. Give each series a "
    f"folder of its own and name that, or convert them: {TO_NIFTI}."
)
ENHANCED = f"several frames in one file, as in an enhanced CT. Convert it: {TO_NIFTI}, which can be named."
_CONVERT = (
    "pip install SimpleITK, then python -c \"import SimpleITK as s; s.WriteImage(s.ReadImage('OLD'), 'NEW.nii.gz')\""
)
_WITHOUT_PIXELS = (
    " SR Storage", "Report Storage", "Key Object Selection Document Storage", "Presentation State Storage",
    "Raw Data Storage", "PDF Storage", "CDA Storage", "Registration Storage", "RT Structure Set Storage",
    "RT Plan Storage", "RT Ion Plan Storage",
)  # fmt: skip
"""How the names of DICOM's classes end that hold no pictures. Source: DICOM PS3.4 B.5; UIDs of pydicom 3."""
_STARTS = ((b"NRRD", "NRRD"), (b"ObjectType", "MetaImage"), (b"NDims", "MetaImage"), (b"\x89HDF", "HDF5 (or MINC)"))


def other_format(path: Path) -> str | None:
    """Returns what a file is that is no NIfTI file, and the way on; None where it is of no form that is known here."""
    if not path.is_file():
        return None
    with path.open("rb") as file:
        start = file.read(16)
    for mark, name in _STARTS:
        if start.startswith(mark):
            return f"this is a file of {name}. Convert it to NIfTI: {_CONVERT}"
    if not is_dicom(path):
        return None
    if is_directory(path):
        return CD_EXPORT
    if number_of_frames(path) > 1:
        return ENHANCED
    return f"this is one DICOM file. Name the folder with all files of its series, or convert it: {TO_NIFTI}."


def is_directory(path: Path) -> bool:
    """Returns whether a DICOM file is the directory of a CD export, whatever its name."""
    from pydicom.uid import MediaStorageDirectoryStorage

    return _tag(path, "MediaStorageSOPClassUID", in_meta=True) == str(MediaStorageDirectoryStorage)


def holds_no_pixels(path: Path) -> bool:
    """Returns whether a DICOM file is of a class without pictures: a report, a list of objects, or a saved view."""
    from pydicom.uid import UID

    return UID(_tag(path, "MediaStorageSOPClassUID", in_meta=True)).name.endswith(_WITHOUT_PIXELS)


def holds_film(path: Path) -> bool:
    """Returns whether a DICOM file holds frames that follow on one another in time, and not the slices of a scan."""
    from pydicom.uid import UID

    return number_of_frames(path) > 1 and not UID(_tag(path, "MediaStorageSOPClassUID", in_meta=True)).name.startswith(
        "Enhanced"
    )


def number_of_frames(path: Path) -> int:
    """Returns the number of frames of a DICOM file; 1 where it does not say."""
    said = _tag(path, "NumberOfFrames")
    return int(said) if said.isdecimal() else 1


def _tag(path: Path, name: str, *, in_meta: bool = False) -> str:
    import pydicom

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        # Any of pydicom's many errors may quote the header; such a file is refused where it is read.
        try:
            dataset = pydicom.dcmread(path, stop_before_pixels=True, specific_tags=["NumberOfFrames"])
            return str((dataset.file_meta if in_meta else dataset).get(name) or "")
        except Exception:
            return ""
