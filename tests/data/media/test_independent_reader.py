"""What an independent reader (SimpleITK) decodes is decoded alike, within 1 grey level, or refused with a reason.

Films of ../shared/real were compared with OpenCV by hand on 2026-11-30: all four and 514 pictures without a difference.
"""

from pathlib import Path

import numpy as np
import pydicom
import pytest
import SimpleITK
from numpy.typing import NDArray
from pydicom.dataset import FileDataset

from medtune.data.media.dicom import decode_cine
from medtune.data.media.images import decode_image
from medtune.data.media.volumes.read import read_volume
from tests.soak import in_suites

FILES = Path(pydicom.__file__).parent / "data" / "test_files"
NOT_BY_ITK = {
    "SC_rgb_rle_16bit.dcm": "ITK swaps the bytes of RLE",
    "SC_rgb_rle_16bit_2frame.dcm": "ITK swaps the bytes of RLE",
    "SC_rgb_rle_32bit.dcm": "ITK swaps the bytes of RLE",
    "SC_rgb_rle_32bit_2frame.dcm": "ITK swaps the bytes of RLE",
}
REFUSED = {
    "MR_truncated.dcm": "truncated or damaged",
    "badVR.dcm": "truncated or damaged",
    "SC_rgb_rle_2frame.dcm": "how fast its frames follow",
    "rtdose.dcm": "how fast its frames follow",
    "rtdose_expb.dcm": "how fast its frames follow",
    "rtdose_rle.dcm": "how fast its frames follow",
}
"""The only files of pydicom that ITK decodes, in whole or in part, and medtune refuses."""


OWN = sorted(FILES.rglob("*.dcm"))
DEAREST = ("SC_rgb_jpeg.dcm",)
"""ITK takes 1.4 GB and 7 s for it, because its header is not in the form that it names; others hold the same JPEG."""


def _by_itk(path: Path) -> NDArray[np.float64] | None:
    SimpleITK.ProcessObject.SetGlobalWarningDisplay(False)
    try:
        return np.asarray(np.squeeze(SimpleITK.GetArrayFromImage(SimpleITK.ReadImage(str(path)))), np.float64)
    except RuntimeError:
        return None


def _shown(values: NDArray[np.float64], dataset: FileDataset) -> NDArray[np.float64]:
    """Returns what a screen shows of ITK's rescaled values, 0 to 255; DICOM PS3.3 C.11.2.1.2.1."""
    if dataset.get("SamplesPerPixel", 1) == 3 or dataset.PhotometricInterpretation == "PALETTE COLOR":
        return np.asarray(values / 257 if values.max() > 255 else values)
    if dataset.get("WindowCenter") not in (None, ""):
        centre, width = (np.ravel(dataset[name].value).astype(float)[0] for name in ("WindowCenter", "WindowWidth"))
        return np.asarray(np.clip((values - (centre - 0.5)) / (width - 1) + 0.5, 0, 1) * 255)
    highest = 2.0 ** int(dataset.BitsStored) - 1
    if highest <= 255:
        return np.asarray(values / highest * 255 if values.max() <= highest else values)
    return np.asarray((values - values.min()) / np.ptp(values) * 255)


def _by_medtune(path: Path, *, is_cine: bool) -> NDArray[np.uint8]:
    return decode_cine(path).frames_THWC if is_cine else decode_image(path).pixels_HWC


@pytest.mark.parametrize(
    "path", in_suites(OWN, plain=[path for path in OWN if path.name not in DEAREST]), ids=lambda path: path.name
)
def test_pydicoms_own_files(path: Path) -> None:
    theirs = _by_itk(path)
    if theirs is None or path.name in NOT_BY_ITK:
        return
    is_cine = (theirs.ndim > 2 and theirs.shape[-1] != 3) or theirs.ndim == 4
    if path.name in REFUSED:
        with pytest.raises(ValueError, match=REFUSED[path.name]):
            _by_medtune(path, is_cine=is_cine)
        return
    dataset, mine = pydicom.dcmread(path), _by_medtune(path, is_cine=is_cine)
    theirs = theirs if theirs.shape == mine.shape else np.repeat(theirs[..., None], 3, axis=-1)
    assert np.abs(mine - _shown(theirs, dataset)).max() <= 1


@pytest.mark.soak
def test_all_real_pictures(shared_real: Path) -> None:
    paths = [path for path in sorted(shared_real.rglob("*")) if path.suffix in (".png", ".jpg")]
    assert len(paths) > 400
    coloured = []
    for path in paths:
        theirs, mine = _by_itk(path), decode_image(path).pixels_HWC.astype(np.float64)
        assert theirs is not None
        theirs = np.repeat(theirs[..., None], 3, axis=-1) if theirs.ndim == 2 else theirs[..., :3]
        apart = np.abs(mine - theirs)
        if path.suffix == ".jpg" and apart.max() > 1:
            # ITK repeats the colours of a JPEG that stores them at half size, where others interpolate: the grey is
            # alike, but where a colour is clipped.
            grey = np.rint(np.abs((mine - theirs) @ np.array([0.299, 0.587, 0.114])))
            assert np.quantile(grey, 0.99) <= 1, path
            coloured.append(path)
            continue
        assert apart.max() <= 1, path
    assert len(coloured) < 20


@pytest.mark.soak
def test_all_real_volumes_and_cines(shared_real: Path) -> None:
    paths = sorted(shared_real.rglob("*.nii.gz"))
    assert len(paths) > 100
    for path in paths:
        image, volume = SimpleITK.ReadImage(str(path)), read_volume(path)
        np.testing.assert_array_equal(volume.hu_IJK, SimpleITK.GetArrayFromImage(image).T, err_msg=str(path))
        assert volume.spacing_mm == pytest.approx(image.GetSpacing(), abs=1e-3)
    for path in shared_real.rglob("*.dcm"):
        np.testing.assert_array_equal(decode_cine(path).frames_THWC, _by_itk(path), err_msg=str(path))
