"""Changed volumes: sides follow the scan's own orientation, masks follow the voxels, and nothing else changes."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy import ndimage

from medtune.data.media.augment import (
    ALL_CHANGES,
    CHANGES,
    Change,
    augment_media,
    changes_allowed_by_all,
    group_by_allowed_changes,
)
from medtune.data.media.images import RED, draw_box
from medtune.data.media.volumes.augment import augment_volume, mirrored, moved, regreyed
from medtune.data.media.volumes.formats.abdomen_atlas import find_cases
from medtune.data.media.volumes.geometry import reoriented
from medtune.data.media.volumes.read import load_volume
from medtune.data.types import Box, Image, MediaGroup, MediaRef, Question, Video, Volume

ORIENTATIONS = ("LPS", "RAS", "PIL", "SRA")


def body() -> Volume:
    """A scan with a liver to the patient's right, and a bright lesion in it, LPS."""
    hu_IJK = np.full((40, 36, 24), -1024, np.int16)
    hu_IJK[4:36, 4:32] = 0
    liver_IJK, lesion_IJK = np.zeros(hu_IJK.shape, np.bool_), np.zeros(hu_IJK.shape, np.bool_)
    liver_IJK[6:18, 8:26, 6:20] = True
    lesion_IJK[8:13, 12:18, 9:15] = True
    hu_IJK[liver_IJK] = 60
    hu_IJK[lesion_IJK] = 160
    masks = {"kidney_left": np.roll(lesion_IJK, 18, axis=0), "kidney_right": lesion_IJK, "liver": liver_IJK}
    return Volume(hu_IJK, (0.8, 0.8, 2.5), "LPS", masks, ("kidney_left",))


def one(volume: Volume, changes: set[Change], place: int) -> Volume:
    found = augment_media(volume, changes, rng=np.random.default_rng([5, place]))
    assert isinstance(found, Volume)
    return found


def same(one_volume: Volume, other: Volume) -> bool:
    return (
        np.array_equal(one_volume.hu_IJK, other.hu_IJK)
        and one_volume.masks_IJK.keys() == other.masks_IJK.keys()
        and all(np.array_equal(mask, other.masks_IJK[organ]) for organ, mask in one_volume.masks_IJK.items())
        and replace(one_volume, hu_IJK=other.hu_IJK, masks_IJK={}) == replace(other, masks_IJK={})
    )


@pytest.mark.parametrize("orientation", ORIENTATIONS)
def test_a_mirror_swaps_the_patients_sides_however_the_scan_is_stored(orientation: str) -> None:
    upright = body()
    stored = mirrored(reoriented(upright, orientation))
    assert stored.orientation == orientation
    seen = reoriented(stored, "LPS")
    assert np.array_equal(seen.hu_IJK, upright.hu_IJK[::-1])
    assert np.array_equal(seen.masks_IJK["kidney_left"], upright.masks_IJK["kidney_right"][::-1])
    assert np.array_equal(seen.masks_IJK["kidney_right"], upright.masks_IJK["kidney_left"][::-1])
    assert np.array_equal(seen.masks_IJK["liver"], upright.masks_IJK["liver"][::-1])
    assert seen.target == ("kidney_right",)


@pytest.mark.parametrize("orientation", ORIENTATIONS)
def test_a_mirror_in_a_mirror_is_the_patient(orientation: str) -> None:
    stored = reoriented(body(), orientation)
    assert same(mirrored(mirrored(stored)), stored)


def test_a_volume_is_mirrored_half_of_the_time() -> None:
    volume = body()
    seen = [one(volume, {"mirror"}, place) for place in range(40)]
    flips = [same(each, mirrored(volume)) for each in seen]
    assert 10 <= sum(flips) <= 30
    assert all(flipped or same(each, volume) for each, flipped in zip(seen, flips, strict=True))


@pytest.mark.parametrize("kind", [np.int16, np.float32])
def test_grid_spacing_and_type_stay_and_the_same_numbers_give_the_same_volume(kind: type[np.generic]) -> None:
    volume = replace(body(), hu_IJK=body().hu_IJK.astype(kind))
    for place in range(4):
        found = one(volume, set(CHANGES), place)
        assert found.hu_IJK.dtype == np.dtype(kind)
        assert found.hu_IJK.shape == volume.hu_IJK.shape
        assert (found.spacing_mm, found.orientation) == (volume.spacing_mm, "LPS")
        assert all(m.dtype == np.bool_ and m.shape == volume.hu_IJK.shape for m in found.masks_IJK.values())
        assert same(found, one(volume, set(CHANGES), place))
        assert not same(found, volume)


def test_a_moved_lesion_stays_under_its_mask_and_in_the_scan() -> None:
    volume = body()
    centres = set()
    for place in range(20):
        found = one(volume, {"move"}, place)
        mask_IJK = found.masks_IJK["kidney_right"]
        bright_IJK = found.hu_IJK > 110
        of_mask, of_voxels = (np.array(ndimage.center_of_mass(each)) for each in (mask_IJK, bright_IJK))
        assert np.abs(of_mask - of_voxels).max() < 0.5
        assert found.hu_IJK[mask_IJK].mean() == pytest.approx(160, abs=20)
        share = mask_IJK.sum() / volume.masks_IJK["kidney_right"].sum()
        assert 0.5 < share <= 1
        centres.add(tuple(of_mask.round(1)))
    assert len(centres) > 10


def test_a_patient_at_the_end_of_the_room_that_is_left_loses_nothing() -> None:
    hu_IJK = np.zeros((20, 20, 20), np.int16)
    volume = Volume(hu_IJK, (1.0, 1.0, 1.0), "LPS", {"liver": np.ones(hu_IJK.shape, np.bool_)})
    for place, box in ((0.0, slice(0, 18)), (1.0, slice(2, 20))):
        found = moved(volume, scale=0.9, place=(place,) * 3)
        mask_IJK = found.masks_IJK["liver"]
        assert mask_IJK[box, box, box].all()
        assert mask_IJK.sum() == 18**3
        assert (found.hu_IJK[mask_IJK] == 0).all()
    padded = moved(replace(volume, hu_IJK=hu_IJK - 1024), scale=0.9, place=(0.0,) * 3)
    assert padded.hu_IJK[-1].max() == -1000


def test_grey_keeps_air_the_order_of_tissues_and_stays_within_its_limits() -> None:
    steps = np.arange(-1100, 3071, dtype=np.int16)
    volume = Volume(steps[None, None], (1.0, 1.0, 1.0), "LPS")
    livers = set()
    for place in range(30):
        hu = one(volume, {"grey"}, place).hu_IJK.ravel().astype(int)
        assert (np.diff(hu) >= 0).all()
        assert np.array_equal(hu[steps <= -1000], steps[steps <= -1000])
        soft = (steps >= -160) & (steps <= 240)
        assert np.abs(hu[soft] - steps[soft]).max() <= 31
        livers.add(int(hu[steps == 60][0]))
    assert len(livers) > 10
    assert all(47 <= liver <= 73 for liver in livers)
    floats = regreyed(replace(volume, hu_IJK=volume.hu_IJK.astype(np.float32)), contrast=1.1, shift_hu=-7)
    whole = regreyed(volume, contrast=1.1, shift_hu=-7)
    assert np.abs(floats.hu_IJK - whole.hu_IJK).max() <= 0.5


def test_one_change_more_does_not_alter_the_others() -> None:
    volume = body()
    for place in range(6):
        moves, both = one(volume, {"move"}, place), one(volume, {"move", "mirror"}, place)
        assert moves.hu_IJK.min() == -1024
        flipped = not same(one(volume, {"mirror"}, place), volume)
        if not flipped:
            assert same(both, moves)
        greyed = augment_volume(moves, {"grey"}, rng=np.random.default_rng([5, place]))
        assert same(one(volume, {"move", "grey"}, place), greyed)


def test_on_a_real_ct_organs_stay_under_their_masks(shared_real: Path) -> None:
    case = find_cases(shared_real)["ct_trunk"]
    organs = ("kidney_left", "kidney_right", "liver", "spleen")
    ref = MediaRef(case.scan, kind="volume", masks=tuple((organ, case.masks[organ]) for organ in organs))
    volume = load_volume(ref, organs)
    flip = mirrored(volume)
    for organ in ("liver", "spleen"):
        assert np.median(flip.hu_IJK[flip.masks_IJK[organ]]) == np.median(volume.hu_IJK[volume.masks_IJK[organ]])
    assert flip.masks_IJK["kidney_left"].sum() == volume.masks_IJK["kidney_right"].sum()
    for place in range(3):
        found = augment_volume(volume, {"move"}, rng=np.random.default_rng(place))
        for organ in organs:
            was, now = (np.median(each.hu_IJK[each.masks_IJK[organ]]) for each in (volume, found))
            assert now == pytest.approx(was, abs=3), organ


def _asked(text: str, *options: str, answer: str = "", kind: str = "choice") -> Question:
    return Question("q", "m", text, options, answer or options[0], kind, "p")  # type: ignore[arg-type]


def _allowed(*questions: Question) -> set[str]:
    return set(changes_allowed_by_all(questions, lambda question: ALL_CHANGES))


@pytest.mark.parametrize(
    ("question", "forbidden"),
    [
        (_asked("What is shown?", "benign", "normal"), set()),
        (_asked("Which carotid?", "left carotid", "right carotid"), {"mirror"}),
        (_asked("Which knee view?", "medial longitudinal", "lateral longitudinal"), {"mirror"}),
        (_asked("How does the fetus lie?", "hdvb", "huvf"), {"mirror"}),
        (_asked("How does the fetus lie?", "head down, back near", "head up, back near"), {"mirror"}),
        (_asked("Which side is nearer to the probe?", "back", "front"), {"mirror"}),
        (_asked("Where is the lesion?", "upper left", "center"), {"mirror", "move"}),
        (_asked("How long is it?", answer="12", kind="number"), {"move"}),
        (_asked("Describe the image.", answer="A nodule in the right lobe.", kind="text"), {"mirror"}),
        (_asked("How long is the lesion?", "1.2 cm", "14 mm"), {"move"}),
        (_asked("Which slice is it?", answer="174", kind="number"), {"move"}),
        (_asked("What is the mean HU of the pancreas?", "33", "54"), {"grey"}),
        (_asked("Is the lesion hypoattenuating?", "Yes", "No"), {"grey"}),
        (_asked("What is it like?", "isodense", "enhancing"), {"grey"}),
        (_asked("Which phase?", "arterial", "venous"), {"grey"}),
    ],
)
def test_words_forbid_what_would_make_the_answer_wrong(question: Question, forbidden: set[str]) -> None:
    assert _allowed(question) == set(CHANGES) - forbidden


def test_all_questions_about_an_image_have_to_agree() -> None:
    assert _allowed(_asked("What is shown?", "benign", "normal"), _asked("Where?", "upper left", "center")) == {"grey"}
    assert not changes_allowed_by_all([_asked("What?", "a", "b")], lambda question: frozenset())


def test_questions_of_an_image_are_parted_by_what_they_allow_so_that_no_change_tells_an_answer() -> None:
    exists, where = _asked("Is there a lesion?", "Yes", "No"), _asked("Where is it?", "upper part", "tail")
    ill, healthy = (MediaGroup("m", (MediaRef(Path("m.png")),), asked) for asked in ((exists, where), (exists,)))
    for group in (ill, healthy):
        (part,) = [
            each
            for each in group_by_allowed_changes(group, ["move"], lambda question: ALL_CHANGES)
            if exists in each.questions
        ]
        assert part.questions == (exists,)
        assert changes_allowed_by_all(part.questions, lambda question: ALL_CHANGES) == ALL_CHANGES
    assert group_by_allowed_changes(ill, ["grey"], lambda question: ALL_CHANGES) == [ill]


def _picture() -> Image:
    return Image(np.random.default_rng(0).integers(0, 256, (30, 40, 3)).astype(np.uint8))


def _many(changes: set[Change], picture: Image) -> list[Image]:
    found = [augment_media(picture, changes, rng=np.random.default_rng([7, place])) for place in range(40)]
    assert all(isinstance(one, Image) and one.pixels_HWC.shape == picture.pixels_HWC.shape for one in found)
    return [one for one in found if isinstance(one, Image)]


def test_mirror_is_a_mirror_half_of_the_time() -> None:
    picture = _picture()
    mirrored = [one for one in _many({"mirror"}, picture) if not np.array_equal(one.pixels_HWC, picture.pixels_HWC)]
    assert 10 <= len(mirrored) <= 30
    assert all(np.array_equal(one.pixels_HWC[:, ::-1], picture.pixels_HWC) for one in mirrored)


def test_grey_keeps_the_order_of_grey_values_and_a_red_box_red() -> None:
    picture = _picture()
    draw_box(picture.pixels_HWC, Box(5, 5, 20, 20))
    is_red_HW = (picture.pixels_HWC == RED).all(axis=2)
    values = np.argsort(picture.pixels_HWC, axis=None)
    changed_values = set()
    for one in _many({"grey"}, picture):
        assert (one.pixels_HWC[is_red_HW] == RED).all()
        assert (np.diff(one.pixels_HWC.reshape(-1)[values].astype(int)) >= 0).all()
        changed_values.add(int(one.pixels_HWC[0, 0, 0]))
    assert len(changed_values) > 5


def test_move_shifts_and_scales_within_its_limits() -> None:
    pixels_HWC = np.zeros((200, 200, 3), np.uint8)
    pixels_HWC[90:110, 90:110] = 255
    for one in _many({"move"}, Image(pixels_HWC)):
        rows, columns = np.nonzero(one.pixels_HWC[:, :, 0] > 127)
        assert abs(rows.mean() - 99.5) <= 11
        assert abs(columns.mean() - 99.5) <= 11
        assert 17 <= np.ptp(columns) + 1 <= 23


def test_frames_of_a_film_change_alike() -> None:
    frame_HWC = _picture().pixels_HWC
    video = Video(np.stack([frame_HWC, frame_HWC]), (0.0, 0.1))
    film = augment_media(video, set(CHANGES), rng=np.random.default_rng(1))
    assert isinstance(film, Video)
    assert np.array_equal(film.frames_THWC[0], film.frames_THWC[1])
    assert film.times_s == video.times_s


def test_one_change_more_does_not_alter_the_others_of_augment() -> None:
    picture, both, alone = _picture(), {"grey", "mirror"}, {"mirror"}
    for place in range(20):
        rngs = [np.random.default_rng(place) for _ in range(2)]
        one, other = augment_media(picture, both, rng=rngs[0]), augment_media(picture, alone, rng=rngs[1])  # type: ignore[arg-type]
        assert isinstance(one, Image)
        assert isinstance(other, Image)
        table = {int(a): int(b) for a, b in zip(other.pixels_HWC.flat, one.pixels_HWC.flat, strict=True)}
        assert all(table[int(a)] == int(b) for a, b in zip(other.pixels_HWC.flat, one.pixels_HWC.flat, strict=True))
