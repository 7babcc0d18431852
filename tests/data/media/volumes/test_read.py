"""Files become volumes in Hounsfield units, or are refused with the file's name and the field."""

import gzip
import re
import shutil
import struct
from pathlib import Path

import nibabel
import numpy as np
import pydicom
import pytest
import SimpleITK
from pydicom.data import get_testdata_file
from pydicom.uid import (
    UID,
    GrayscaleSoftcopyPresentationStateStorage,
    MRImageStorage,
    RTStructureSetStorage,
    XRayRadiationDoseSRStorage,
)

from medtune.data.media.volumes.formats.abdomen_atlas import find_cases
from medtune.data.media.volumes.formats.nifti import check_nifti, read_nifti_mask, without_texts
from medtune.data.media.volumes.read import read_volume
from medtune.data.types import Volume
from tests.data.media.volumes.synthetic_volumes import LPS_2_2_5, SECRET, nifti, scan, series


def test_nifti_gives_hu_spacing_and_orientation(tmp_path: Path) -> None:
    volume = read_volume(nifti(tmp_path / "ct.nii.gz"))
    assert volume.hu_IJK.dtype == np.int16
    np.testing.assert_array_equal(volume.hu_IJK, scan())
    assert volume.spacing_mm == (2.0, 2.0, 5.0)
    assert volume.orientation == "LPS"


def test_turned_axes_keep_their_own_spacing(tmp_path: Path) -> None:
    affine = np.array([[0, 4.2, 0, 1], [0, 0, -3.9, 2], [-6.0, 0, 0, 3], [0, 0, 0, 1]])
    volume = read_volume(nifti(tmp_path / "ct.nii", affine=affine))
    assert volume.orientation == "IRP"
    assert volume.spacing_mm == pytest.approx((6.0, 4.2, 3.9), rel=1e-6)


def test_slope_and_intercept_are_applied_and_whole_numbers_stay_int16(tmp_path: Path) -> None:
    image = nibabel.Nifti1Image(scan(), LPS_2_2_5)
    image.header.set_slope_inter(1, -24)
    nibabel.save(image, tmp_path / "ct.nii.gz")
    volume = read_volume(tmp_path / "ct.nii.gz")
    assert volume.hu_IJK.dtype == np.int16
    fractions = scan().astype(np.float32) + np.float32(0.25)
    assert read_volume(nifti(tmp_path / "f.nii.gz", fractions)).hu_IJK.dtype == np.float32


def _with_header(path: Path, offset: int, form: str, *values: float) -> Path:
    raw = bytearray(path.read_bytes())
    struct.pack_into(f"<{form}", raw, offset, *values)
    path.write_bytes(bytes(raw))
    return path


@pytest.mark.parametrize(
    ("at", "form", "values", "message"),
    [
        (80, "3f", (0.0, 0.0, 0.0), r"ct\.nii: pixdim: no spacing"),
        (252, "2h", (0, 0), r"ct\.nii: qform_code and sform_code"),
        (80, "3f", (3.0, 2.0, 5.0), r"ct\.nii: pixdim says"),
    ],
)
def test_a_header_without_spacing_or_orientation_is_refused(
    at: int, form: str, values: tuple[float, ...], message: str, tmp_path: Path
) -> None:
    path = _with_header(nifti(tmp_path / "ct.nii"), at, form, *values)
    with pytest.raises(ValueError, match=message):
        read_volume(path)


def test_four_axes_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"ct\.nii\.gz: dim: 4 axes \(6, 5, 4, 2\)"):
        read_volume(nifti(tmp_path / "ct.nii.gz", np.stack([scan(), scan()], axis=-1)))


def test_sheared_affine_is_refused(tmp_path: Path) -> None:
    affine = LPS_2_2_5.copy()
    affine[1, 2] = 1.0
    path = tmp_path / "ct.nii.gz"
    image = nibabel.Nifti1Image(scan(), affine)
    image.set_sform(affine, code=1)
    nibabel.save(image, path)
    with pytest.raises(ValueError, match=r"ct\.nii\.gz: affine: sheared, axes 1 and 2 meet at"):
        read_volume(path)


def test_truncated_and_foreign_files_are_refused(tmp_path: Path) -> None:
    whole = nifti(tmp_path / "ct.nii.gz").read_bytes()
    for name, content in {
        "half.nii.gz": whole[: len(whole) // 2],
        "empty.nii.gz": b"",
        "text.nii.gz": b"not a scan",
        "zeros.nii.gz": gzip.compress(bytes(400)),
        "short.nii": gzip.decompress(whole)[:380],
    }.items():
        path = tmp_path / name
        path.write_bytes(content)
        with pytest.raises(ValueError, match=name.replace(".", r"\.")):
            read_volume(path)


@pytest.mark.parametrize("place", [-1, -6, 5000])
def test_a_gzip_with_another_checksum_or_a_missing_end_is_refused(tmp_path: Path, place: int) -> None:
    whole = nifti(tmp_path / "ct.nii.gz", scan((30, 20, 10)))
    content = bytearray(whole.read_bytes())
    content[place] ^= 0xFF
    (tmp_path / "turned.nii.gz").write_bytes(content)
    (tmp_path / "short.nii.gz").write_bytes(whole.read_bytes()[: place if place < 0 else -place])
    for name in ("turned", "short"):
        with pytest.raises(ValueError, match=rf"{name}\.nii\.gz: the voxels cannot be read .*(checksum|truncated)"):
            read_volume(tmp_path / f"{name}.nii.gz")
    with gzip.open(whole) as file:
        packed = gzip.compress(file.read(148) + b"Secret^Patient".ljust(80, b"\0") + file.read()[80:], mtime=0)
    (tmp_path / "text.nii.gz").write_bytes(packed[:-5] + b"\0" + packed[-4:])
    with pytest.raises(ValueError, match=r"not a whole NIfTI file .*checksum"):
        without_texts(tmp_path / "text.nii.gz")


@pytest.mark.parametrize("modality", ["MR", "PT", "US", "RTDOSE"])
def test_a_series_of_another_modality_is_not_read_as_hu(tmp_path: Path, modality: str) -> None:
    folder = series(tmp_path / "series", scan())
    for path in folder.iterdir():
        dataset = pydicom.dcmread(path)
        dataset.Modality = modality
        del dataset.RescaleSlope
        dataset.save_as(path)
    with pytest.raises(ValueError, match=rf"Modality \(0008,0060\): {modality}, wanted CT: .*Hounsfield"):
        read_volume(folder)


def test_a_series_of_the_class_of_mr_is_not_read_as_hu(tmp_path: Path) -> None:
    folder = series(tmp_path / "series", scan())
    for path in folder.iterdir():
        dataset = pydicom.dcmread(path)
        dataset.file_meta.MediaStorageSOPClassUID = MRImageStorage
        dataset.save_as(path)
    with pytest.raises(ValueError, match="of another kind, wanted CT"):
        read_volume(folder)


def test_not_a_number_is_refused(tmp_path: Path) -> None:
    hu = scan().astype(np.float32)
    hu[0, 0, 0] = np.nan
    with pytest.raises(ValueError, match=r"ct\.nii\.gz: voxel data: voxels that are not finite"):
        read_volume(nifti(tmp_path / "ct.nii.gz", hu))


def test_other_paths_are_refused(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        read_volume(tmp_path / "none.nii.gz")
    (tmp_path / "ct.mha").write_bytes(b"x")
    with pytest.raises(ValueError, match=r"ct\.mha: wanted \.nii"):
        read_volume(tmp_path / "ct.mha")


@pytest.mark.parametrize("reverse", [False, True])
def test_series_gives_the_volume_whatever_the_files_are_called(tmp_path: Path, reverse: bool) -> None:
    hu = scan()
    volume = read_volume(series(tmp_path / "s", hu, reverse=reverse))
    np.testing.assert_array_equal(volume.hu_IJK, hu)
    assert volume.hu_IJK.dtype == np.int16
    assert volume.spacing_mm == pytest.approx((0.8, 0.7, 2.5))
    assert volume.orientation == "LPS"


def test_series_and_nifti_of_one_scan_are_the_same_volume(tmp_path: Path) -> None:
    hu = scan()
    read = read_volume(series(tmp_path / "s", hu))
    written = read_volume(nifti(tmp_path / "ct.nii.gz", hu, np.diag([-0.8, -0.7, 2.5, 1.0])))
    np.testing.assert_array_equal(read.hu_IJK, written.hu_IJK)
    assert read.orientation == written.orientation
    assert read.spacing_mm == pytest.approx(written.spacing_mm)


def test_missing_slices_are_refused(tmp_path: Path) -> None:
    folder = series(tmp_path / "s", scan((6, 5, 9)), left_out=(4, 5))
    with pytest.raises(ValueError, match=r"ImagePositionPatient: 2 slices missing between 003\.dcm and 006\.dcm"):
        read_volume(folder)


def test_an_empty_last_slice_is_not_left_out_in_silence(tmp_path: Path) -> None:
    folder = series(tmp_path / "s", scan((6, 5, 4)))
    (folder / "003.dcm").write_bytes(b"")
    with pytest.raises(ValueError, match=r"003\.dcm: this slice of the series is empty, damaged, or no DICOM file"):
        read_volume(folder)


@pytest.mark.parametrize(
    "gaps_mm", [(5, 5, 5, 5, 5, 1, 1), (1, 1, 1, 5, 5, 5), (4, 1, 7, 4, 1, 7), (1, 1, 1, 1, 5, 5), (2, 2, 1, 2, 2)]
)
def test_slices_that_are_not_evenly_spaced_are_refused(gaps_mm: tuple[int, ...], tmp_path: Path) -> None:
    folder = series(tmp_path / "s", scan((6, 5, len(gaps_mm) + 1)))
    for path, place in zip(sorted(folder.iterdir(), key=_place), np.cumsum([0, *gaps_mm]), strict=True):
        dataset = pydicom.dcmread(path)
        dataset.ImagePositionPatient[2] = float(place)
        dataset.save_as(path)
    match = rf"ImagePositionPatient: the slices are not evenly spaced: {min(gaps_mm)}\.00 mm between .*dcm2niix"
    with pytest.raises(ValueError, match=match):
        read_volume(folder)


def _place(path: Path) -> float:
    return float(pydicom.dcmread(path).ImagePositionPatient[2])


@pytest.mark.parametrize(
    "kind", [XRayRadiationDoseSRStorage, GrayscaleSoftcopyPresentationStateStorage, RTStructureSetStorage]
)
def test_a_report_beside_the_slices_is_no_slice(kind: UID, tmp_path: Path) -> None:
    folder = series(tmp_path / "s", scan())
    beside = pydicom.dcmread(folder / "002.dcm")
    del beside.PixelData
    beside.file_meta.MediaStorageSOPClassUID, beside.SeriesInstanceUID = kind, "1.2.3"
    beside.save_as(folder / "report.dcm")
    np.testing.assert_array_equal(read_volume(folder).hu_IJK, scan())


def test_tilted_gantry_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"ImagePositionPatient: sheared"):
        read_volume(series(tmp_path / "s", scan(), tilt_mm=0.5))


@pytest.mark.parametrize("field", ["PixelSpacing", "ImagePositionPatient", "RescaleIntercept", "PixelData"])
def test_missing_field_is_named_and_the_patient_is_not(tmp_path: Path, field: str) -> None:
    folder = series(tmp_path / "s", scan())
    dataset = pydicom.dcmread(folder / "002.dcm")
    del dataset[field]
    dataset.save_as(folder / "002.dcm")
    with pytest.raises(ValueError, match=rf"002\.dcm: {field}") as caught:
        read_volume(folder)
    assert SECRET not in str(caught.value)


def test_two_series_doubled_slices_and_empty_folders_are_refused(tmp_path: Path) -> None:
    folder = series(tmp_path / "s", scan())
    for file in series(tmp_path / "other", scan(seed=1)).iterdir():
        file.rename(folder / f"b{file.name}")
    with pytest.raises(ValueError, match="SeriesInstanceUID: 2 series"):
        read_volume(folder)
    twice = series(tmp_path / "twice", scan())
    (twice / "again.dcm").write_bytes((twice / "001.dcm").read_bytes())
    with pytest.raises(ValueError, match="two slices at one place"):
        read_volume(twice)
    (tmp_path / "nothing").mkdir()
    with pytest.raises(ValueError, match="no DICOM file"):
        read_volume(tmp_path / "nothing")


def test_truncated_slice_is_refused(tmp_path: Path) -> None:
    folder = series(tmp_path / "s", scan((32, 32, 3)))
    path = folder / "001.dcm"
    path.write_bytes(path.read_bytes()[:-900])
    with pytest.raises(ValueError, match=r"001\.dcm"):
        read_volume(folder)


def test_abdomen_atlas_folders_give_scans_and_masks_on_their_grid(tmp_path: Path) -> None:
    for name in ("BDMAP_2", "BDMAP_1"):
        (tmp_path / name / "segmentations").mkdir(parents=True)
        nifti(tmp_path / name / "ct.nii.gz")
    mask = np.zeros((6, 5, 4), np.uint8)
    mask[2, 3, 1] = 1
    nifti(tmp_path / "BDMAP_1" / "segmentations" / "liver.nii.gz", mask)
    found = find_cases(tmp_path)
    assert list(found) == ["BDMAP_1", "BDMAP_2"]
    case = found["BDMAP_1"]
    assert list(case.masks) == ["liver"]
    volume = read_volume(case.scan)
    assert np.argwhere(read_nifti_mask(case.masks["liver"], volume)).tolist() == [[2, 3, 1]]
    other = nifti(tmp_path / "other.nii.gz", mask, np.diag([2.0, -2.0, 5.0, 1.0]))
    with pytest.raises(ValueError, match=r"other\.nii\.gz: a mask of .* RPS"):
        read_nifti_mask(other, volume)


def test_real_scan_has_every_mask_on_its_grid(shared_real: Path) -> None:
    case = find_cases(shared_real)["ct_trunk"]
    volume = read_volume(case.scan)
    assert isinstance(volume, Volume)
    assert volume.hu_IJK.dtype == np.int16
    assert volume.orientation == "RAS"
    assert volume.spacing_mm == pytest.approx((3.0, 3.0, 3.0))
    assert float(np.percentile(volume.hu_IJK, 5)) == pytest.approx(-1000, abs=50)
    liver = read_nifti_mask(case.masks["liver"], volume)
    assert 30 < float(np.median(volume.hu_IJK[liver])) < 200


def test_volumes_of_other_forms_are_named_with_the_way_to_convert_them(tmp_path: Path) -> None:
    image = SimpleITK.GetImageFromArray(scan())
    (whole := series(tmp_path / "series", scan()) / "000.dcm").rename(single := tmp_path / "single.dcm")
    enhanced = pydicom.dcmread(single)
    enhanced.NumberOfFrames = 2
    enhanced.PixelData *= 2
    enhanced.save_as(tmp_path / "enhanced.dcm")
    directory = get_testdata_file("DICOMDIR", download=False)
    shutil.copy(str(directory), tmp_path / "DICOMDIR")
    for name, said in (
        ("ct.nrrd", "a file of NRRD. Convert it to NIfTI: pip install SimpleITK, then python -c"),
        ("ct.mha", "a file of MetaImage. Convert it to NIfTI: pip install SimpleITK, then python -c"),
        ("enhanced.dcm", "several frames in one file, as in an enhanced CT. Convert it: dcm2niix"),
        ("single.dcm", "one DICOM file. Name the folder with all files of its series"),
        ("DICOMDIR", "a CD export: DICOMDIR lists series"),
    ):
        if name.startswith("ct."):
            SimpleITK.WriteImage(image, str(tmp_path / name))
        for read in (read_volume, check_nifti):
            with pytest.raises(ValueError, match=re.escape(said)) as refused:
                read(tmp_path / name)
            assert "opy" not in str(refused.value)
    assert not whole.exists()


def test_the_command_that_converts_a_volume_does(tmp_path: Path) -> None:
    SimpleITK.WriteImage(SimpleITK.GetImageFromArray(scan()), str(tmp_path / "OLD.nrrd"))
    with pytest.raises(ValueError, match="Convert") as refused:
        read_volume(tmp_path / "OLD.nrrd")
    code = str(refused.value).partition('-c "')[2].rstrip('"').replace("OLD", "OLD.nrrd")
    exec(code.replace("'OLD", f"'{tmp_path}/OLD").replace("'NEW", f"'{tmp_path}/NEW"))
    np.testing.assert_array_equal(read_volume(tmp_path / "NEW.nii.gz").hu_IJK, scan().transpose(2, 1, 0))


def test_a_cd_export_is_read_where_its_files_are_one_series_and_else_explained(tmp_path: Path) -> None:
    directory = str(get_testdata_file("DICOMDIR", download=False))
    folder = series(tmp_path / "series", scan())
    shutil.copy(directory, folder / "DICOMDIR")
    np.testing.assert_array_equal(read_volume(folder).hu_IJK, scan())
    (tmp_path / "cd").mkdir()
    shutil.copy(directory, tmp_path / "cd" / "DICOMDIR")
    with pytest.raises(ValueError, match="this is a CD export: DICOMDIR lists series"):
        read_volume(tmp_path / "cd")


def test_enhanced_files_of_a_folder_are_named(tmp_path: Path) -> None:
    folder = series(tmp_path / "series", scan())
    for path in folder.iterdir():
        dataset = pydicom.dcmread(path)
        dataset.NumberOfFrames = 2
        dataset.save_as(path)
    with pytest.raises(ValueError, match=r"several frames in one file, as in an enhanced CT\. Convert it: dcm2niix"):
        read_volume(folder)
