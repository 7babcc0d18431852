"""A CT as axial pictures: which slices, which way up, and what each channel shows."""

from pathlib import Path

import numpy as np
import pytest

from medtune.data.media.volumes.axial_pictures import SLICE, SLICES, VIDEO, axial_pictures
from medtune.data.media.volumes.formats.nifti import write_nifti
from medtune.data.media.volumes.formats.stored_volume import STORED_SUFFIX, write_volume
from medtune.data.media.volumes.geometry import affine_of, reoriented
from medtune.data.media.volumes.read import load_volume, read_volume, volume_grid
from medtune.data.types import MediaRef, Size, Volume

ORIENTATIONS = ("LPS", "RAS", "LPI", "SAR", "PIR")


def scan(count: int = 4, *, width: int = 3, height: int = 2) -> Volume:
    """Every voxel has a value of its own; left, back and head are the larger ones. 1 HU apart around 0."""
    hu_IJK = np.arange(width * height * count, dtype=np.int16).reshape(count, height, width).transpose(2, 1, 0)
    return Volume(hu_IJK, (1.0, 1.0, 2.0), "LPS")


@pytest.mark.parametrize("orientation", ORIENTATIONS)
def test_slices_hang_alike_however_the_file_lies(orientation: str) -> None:
    """Row 0 is the front, column 0 the patient's right, slice 0 the foot: the blue window shows 0 to 80 HU."""
    frames_THWC = SLICES(reoriented(scan(), orientation)).frames_THWC
    expected = np.rint(np.arange(24).reshape(4, 2, 3) / 80 * 255)
    assert frames_THWC[..., 2].tolist() == expected.tolist()


def test_each_channel_has_its_window() -> None:
    hu = np.array([-2000, -1024, -135, 0, 40, 80, 215, 1024, 3000], dtype=np.int16)
    red, green, blue = SLICES(Volume(hu[:, None, None], (1.0, 1.0, 1.0), "LPS")).frames_THWC[0, 0].T
    assert red.tolist() == [0, 0, 111, 128, 132, 137, 154, 255, 255]
    assert green.tolist() == [0, 0, 0, 98, 128, 157, 255, 255, 255]
    assert blue.tolist() == [0, 0, 0, 0, 128, 255, 255, 255, 255]


def test_video_is_grey_in_a_window_of_400_around_50() -> None:
    hu = np.array([-500, -150, 50, 250, 900], dtype=np.int16)
    frame_HWC = VIDEO(Volume(hu[:, None, None], (1.0, 1.0, 1.0), "LPS")).frames_THWC[0]
    assert frame_HWC[0, :, 0].tolist() == [0, 0, 128, 255, 255]
    assert (frame_HWC == frame_HWC[..., :1]).all()


def _chosen(count: int, way: str) -> list[int]:
    # A scan whose slices show their number: 0 to 80 HU are told apart up to 255 steps.
    hu_IJK = np.broadcast_to(np.arange(count, dtype=np.int16), (1, 1, count))
    window = 80 if way == "slices" else 400
    shift = 0 if way == "slices" else -150
    pictures = (SLICES if way == "slices" else VIDEO)(Volume(hu_IJK + shift, (1.0, 1.0, 1.0), "LPS"))
    return [round(float(value) / 255 * window) for value in pictures.frames_THWC[:, 0, 0, 2]]


def test_medgemma_takes_85_slices_the_last_among_them() -> None:
    hu_IJK = np.broadcast_to(np.arange(300, dtype=np.int16) - 1000, (1, 1, 300))
    red = SLICES(Volume(hu_IJK, (1.0, 1.0, 1.0), "LPS")).frames_THWC[:, 0, 0, 0]
    taken = [round(i / 85 * 299) for i in range(1, 86)]
    assert red.tolist() == [int(np.rint((n - 1000 + 1024) / 2048 * 255)) for n in taken]
    assert (taken[0], taken[-1]) == (4, 299)


def test_deeptumorvqa_takes_150_frames_from_the_first_to_the_last() -> None:
    taken = _chosen(400, "video")
    assert len(taken) == 150
    assert taken[0] == 0
    assert taken[-1] in (398, 399)
    assert VIDEO(scan(200)).times_s[:3] == (0.0, 0.125, 0.25)


@pytest.mark.parametrize("count", [1, 85])
def test_a_short_scan_gives_each_slice_once(count: int) -> None:
    assert len(SLICES(scan(count)).frames_THWC) == count
    assert _chosen(min(count, 81), "slices") == list(range(min(count, 81)))


def test_fewer_are_taken_where_the_recipe_says_so() -> None:
    assert len(axial_pictures("slices", at_most=7)(scan(90)).frames_THWC) == 7
    assert len(axial_pictures("video", at_most=1)(scan(90)).frames_THWC) == 1
    assert axial_pictures("slices", at_most=None) == SLICES


@pytest.mark.parametrize("orientation", ORIENTATIONS)
@pytest.mark.parametrize("suffix", [".nii.gz", STORED_SUFFIX])
def test_shape_is_known_before_the_voxels_are_read(orientation: str, suffix: str, tmp_path: Path) -> None:
    volume, path = reoriented(scan(90), orientation), tmp_path / f"scan{suffix}"
    if suffix == STORED_SUFFIX:
        write_volume(path, volume)
    else:
        write_nifti(path, volume.hu_IJK, affine_of(volume))
    video, known = SLICES(read_volume(path)), SLICES.frames(MediaRef(path, kind="volume"))
    assert known.size == Size(3, 2)
    assert known.times_s == video.times_s
    assert video.frames_THWC.shape == (85, 2, 3, 3)
    assert volume_grid(path).orientation == orientation


def test_a_single_slice_is_the_middle_one_in_the_videos_window_however_many_may_be_sent() -> None:
    whole = scan(101, width=1, height=1)
    (one_HWC,) = axial_pictures("slice", at_most=16)(whole).frames_THWC
    every_THWC = axial_pictures("video", at_most=101)(whole).frames_THWC
    # One HU is less than one step of grey, so that two neighbours look alike.
    assert [number for number, frame_HWC in enumerate(every_THWC) if (frame_HWC == one_HWC).all()] == [50, 51]
    assert axial_pictures("slice", at_most=None) == SLICE


def test_a_damaged_file_has_no_shape(tmp_path: Path) -> None:
    path = tmp_path / f"scan{STORED_SUFFIX}"
    path.write_bytes(b"no")
    with pytest.raises(ValueError, match="damaged"):
        SLICES.frames(MediaRef(path, kind="volume"))
    with pytest.raises(FileNotFoundError, match="there is no such volume"):
        SLICES.frames(MediaRef(tmp_path / f"other{STORED_SUFFIX}", kind="volume"))


def test_on_a_real_ct_the_liver_is_on_the_left_and_the_spine_below(shared_real: Path) -> None:
    folder = shared_real / "ct_trunk"
    organs = ("liver", "vertebrae_L5", "vertebrae_T12")
    masks = tuple((organ, folder / "segmentations" / f"{organ}.nii.gz") for organ in organs)
    volume = load_volume(MediaRef(folder / "ct.nii.gz", kind="volume", masks=masks), organs)
    video = SLICES(volume)
    assert SLICES.frames(MediaRef(folder / "ct.nii.gz", kind="volume")) == (Size(122, 101), video.times_s)
    assert video.frames_THWC.shape == (85, 101, 122, 3)
    slices_of = {}
    for organ, mask in volume.masks_IJK.items():
        shown = SLICES(Volume(np.where(mask, 1000, -1000).astype(np.int16), volume.spacing_mm, volume.orientation))
        slices_of[organ] = shown.frames_THWC[..., 1] > 0
    places = {organ: np.argwhere(inside).mean(axis=0) for organ, inside in slices_of.items()}
    assert places["liver"][2] < 55
    assert places["vertebrae_L5"][1] > 55
    # Liver is 44 HU on average: green (-135 to 215) shows it at 130 of 255.
    liver = video.frames_THWC[..., 1][slices_of["liver"]]
    assert 110 < liver.mean() < 150
    assert places["vertebrae_L5"][0] < places["vertebrae_T12"][0], "foot first"
