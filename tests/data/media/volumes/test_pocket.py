"""What pocket_ct's preparation shows of an organ, and of a scan without masks."""

from dataclasses import replace

import numpy as np
import pytest

from medtune.benchmarks.ctlesionvqa.sources.ct_phantom import scan
from medtune.benchmarks.ctlesionvqa.sources.ct_phantom.anatomy import ORGANS, draw_patient
from medtune.benchmarks.ctlesionvqa.sources.ct_phantom.lesions import SITES, Findings, OrganLesions, place_lesions
from medtune.data.media.volumes.transforms.pocket import POCKET
from medtune.data.media.volumes.transforms.transform import transform_hash
from medtune.data.types import Volume

NONE: Findings = dict.fromkeys(SITES)
KIDNEYS = ("kidney_left", "kidney_right")
DARK_LIVER: Findings = {**NONE, "liver": OrganLesions("segment 6", False, 20.0, 60.0, 1)}
BRIGHT, DARK = slice(POCKET.cells), slice(POCKET.cells, None)


def simulated(found: Findings, *target: str) -> Volume:
    """Returns one patient's scan with these lesions; everything else is the same."""
    patient = draw_patient(np.random.default_rng(1))
    scanned = scan(patient, place_lesions(patient, found, np.random.default_rng(2)), np.random.default_rng(3))
    masks = {organ: scanned.masks[organ] for organ in ORGANS if organ in (target or POCKET.organs)}
    return Volume(scanned.hu_IJK, (4.0, 4.0, 4.0), "LPS", masks, target)


def test_lesion_shows_in_its_organ_on_its_side_and_nowhere_else() -> None:
    change = (POCKET(simulated(DARK_LIVER, "liver")) - POCKET(simulated(NONE, "liver")))[0]
    assert change.shape == POCKET.shape
    assert change[..., DARK].max() > 2
    assert np.abs(change[..., BRIGHT]).max() < 1
    # Segment 6 is the lower part of the liver's right third: axes point to the left and to the head.
    left, _, head = np.unravel_index(int(change[..., DARK].argmax()), (POCKET.cells,) * 3)
    assert left <= 1
    assert head <= 1
    np.testing.assert_allclose(POCKET(simulated(DARK_LIVER, "pancreas")), POCKET(simulated(NONE, "pancreas")), atol=0.2)


def test_sides_of_a_pair_are_told_apart() -> None:
    halves = []
    for side in ("left", "right"):
        ill = simulated({**NONE, "kidney": OrganLesions(side, True, 25.0, 60.0, 1)}, *KIDNEYS)
        by_left = (POCKET(ill) - POCKET(simulated(NONE, *KIDNEYS)))[0, ..., BRIGHT].max(axis=(1, 2))
        halves.append(int(by_left.argmax()) < POCKET.cells // 2)
    assert halves == [False, True]


def test_without_a_target_all_organs_are_seen_in_one_box() -> None:
    ill, well = POCKET(simulated(DARK_LIVER)), POCKET(simulated(NONE))
    assert (ill - well)[..., DARK].max() > 1
    assert np.abs(well - POCKET(simulated(NONE, "liver"))).max() > 0.5


def test_brightness_of_a_whole_organ_is_left_out() -> None:
    well = simulated(NONE, "liver")
    hu_IJK = well.hu_IJK + 20 * well.masks_IJK["liver"].astype(np.int16)
    # A voxel at the edge of what counts as soft tissue may change sides.
    np.testing.assert_allclose(POCKET(replace(well, hu_IJK=hu_IJK)), POCKET(well), atol=0.05)


def test_orientation_and_finer_voxels_show_the_same() -> None:
    ill = simulated(DARK_LIVER, "liver")
    flipped = {organ: mask[::-1] for organ, mask in ill.masks_IJK.items()}
    mirrored = Volume(ill.hu_IJK[::-1], ill.spacing_mm, "RPS", flipped, ill.target)
    np.testing.assert_array_equal(POCKET(mirrored), POCKET(ill))
    finer = {organ: np.repeat(mask, 2, axis=2) for organ, mask in ill.masks_IJK.items()}
    thin = Volume(np.repeat(ill.hu_IJK, 2, axis=2).astype(np.int16), (4.0, 4.0, 2.0), "LPS", finer, ill.target)
    coarse, fine = POCKET(ill), POCKET(thin)
    assert coarse.argmax() == fine.argmax()
    assert fine.max() == pytest.approx(coarse.max(), rel=0.2)


def test_without_masks_all_soft_tissue_is_seen_with_a_warning() -> None:
    well = simulated(NONE, "pancreas")
    empty = replace(well, masks_IJK={"pancreas": np.zeros_like(well.masks_IJK["pancreas"])})
    with pytest.warns(UserWarning, match="no mask of pancreas: the model sees all soft tissue"):
        shown = POCKET(empty)
    assert shown.max() > POCKET(well).max()


def test_mask_too_small_for_the_grid_shows_nothing() -> None:
    well = simulated(NONE, "pancreas")
    speck = np.zeros_like(well.masks_IJK["pancreas"])
    speck[5, 5, 5] = True
    assert not POCKET(replace(well, masks_IJK={"pancreas": speck})).any()


def test_settings_are_part_of_the_caches_name() -> None:
    assert transform_hash(replace(POCKET, cells=6)) != transform_hash(POCKET)
