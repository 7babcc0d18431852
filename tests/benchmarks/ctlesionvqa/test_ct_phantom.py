"""Tests that the true findings of simulated scans agree with measurements in their voxels."""

from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from medtune.benchmarks.ctlesionvqa.sources import ct_phantom
from medtune.benchmarks.ctlesionvqa.sources.ct_phantom import NOISE_SD_HU, scan, undrawn
from medtune.benchmarks.ctlesionvqa.sources.ct_phantom.anatomy import ORGANS, draw_patient
from medtune.benchmarks.ctlesionvqa.sources.ct_phantom.lesions import (
    CONTRASTS_HU,
    DIAMETERS_MM,
    SITES,
    OrganLesions,
    draw_findings,
    place_lesions,
)
from medtune.benchmarks.ctlesionvqa.subtypes import category
from medtune.data.media.volumes.formats.abdomen_atlas import find_cases
from medtune.data.media.volumes.formats.nifti import read_nifti_mask
from medtune.data.media.volumes.read import read_volume
from medtune.data.raw.source import SourceTable
from tests.benchmarks.simulators.drawing import all_made

Simulated = tuple[Path, SourceTable, list[ct_phantom.Drawn]]


@pytest.fixture(scope="module")
def simulated(tmp_path_factory: pytest.TempPathFactory) -> Simulated:
    """A folder of scans, the questions about them, and what was drawn."""
    folder = tmp_path_factory.mktemp("phantom")
    table = undrawn(folder, seed=0, num_patients=6)
    assert table.ask is not None
    asked = table.ask(table, {name: finding.find() for name, finding in table.findings.items()})
    return folder, asked, all_made(table)


def test_folders_are_abdomen_atlas_and_hold_what_was_drawn(simulated: Simulated) -> None:
    folder, table, made = simulated
    found = find_cases(folder)
    assert list(found) == sorted(table.media)
    for case, drawn in zip(found.values(), made, strict=True):
        volume = read_volume(case.scan)
        assert volume.orientation == "LPS"
        assert np.array_equal(volume.hu_IJK, drawn.scan.hu_IJK)
        masks = {name: read_nifti_mask(path, volume) for name, path in case.masks.items()}
        assert set(ORGANS) <= set(masks)
        assert all(np.array_equal(masks[name], mask) for name, mask in drawn.scan.masks.items())
        segments = [masks[f"liver_segment_{number}"] for number in range(1, 9)]
        assert np.array_equal(sum(s.astype(int) for s in segments), masks["liver"].astype(int))
        ill = {lesion.site for lesion in drawn.lesions}
        for site, adjective in zip(SITES, ("liver", "kidney", "pancreatic", "colon"), strict=True):
            assert (site in ill) == (f"{adjective}_lesion" in masks), site
        # Every file that is kept was made.
        assert {path for _, path in table.media[case.name][0].masks} <= set(case.masks.values())


def test_noise_and_contrast_are_those_that_were_asked_for() -> None:
    findings = draw_findings(1, np.random.default_rng(0))[0]
    patient = draw_patient(np.random.default_rng(1))
    finding = OrganLesions("left", True, 30.0, 60.0, 1)
    lesions = place_lesions(patient, {**dict.fromkeys(findings), "kidney": finding}, np.random.default_rng(2))
    scanned = scan(patient, lesions, np.random.default_rng(3))
    (lesion,) = lesions
    assert lesion.diameter_mm == pytest.approx(30)
    assert 0.6 < lesion.volume_cm3 / (np.pi * 3.0**3 / 6) < 1.05
    deep = lesion.drawn.whole() > 5
    assert scanned.hu_IJK[deep].mean() == pytest.approx(patient.hu["kidney_left"] + 60, abs=4)
    spleen = patient.organs["spleen"].whole() > 8
    assert scanned.hu_IJK[spleen].std() == pytest.approx(NOISE_SD_HU, rel=0.05)
    assert set(scanned.masks) >= {"kidney_lesion", "kidney_tumor"}
    assert "kidney_cyst" not in scanned.masks


def test_smallest_lesion_shows_by_partial_volume() -> None:
    patient = draw_patient(np.random.default_rng(1))
    finding = OrganLesions("segment 8", True, DIAMETERS_MM[0], CONTRASTS_HU[1], 1)
    none = dict.fromkeys(SITES)
    quiet = [
        scan(patient, place_lesions(patient, found, np.random.default_rng(2)), np.random.default_rng(3)).hu_IJK
        for found in ({**none, "liver": finding}, none)
    ]
    added = quiet[0].astype(int) - quiet[1].astype(int)
    assert added.max() > NOISE_SD_HU
    assert added.sum() == pytest.approx(CONTRASTS_HU[1] * np.pi * 5**3 / 6 / 4**3, rel=0.5)


def test_labels_are_dealt_in_equal_shares_and_know_nothing_of_the_body() -> None:
    drawn = draw_findings(240, np.random.default_rng(5))
    for site in SITES:
        ill = [found[site] for found in drawn if found[site] is not None]
        assert len(ill) == 120
        findings = [finding for finding in ill if finding is not None]
        assert Counter(finding.is_bright for finding in findings)[True] == 60
        shares = Counter(finding.place for finding in findings)
        assert max(shares.values()) - min(shares.values()) <= 6
        sizes = [finding.diameter_mm for finding in findings]
        assert DIAMETERS_MM[0] <= min(sizes) < 8
        assert 39 < max(sizes) <= DIAMETERS_MM[1]
        contrasts = [finding.contrast_hu for finding in findings]
        assert abs(np.corrcoef(sizes, contrasts)[0, 1]) < 0.3
        assert CONTRASTS_HU[0] <= min(contrasts)
        assert max(contrasts) <= CONTRASTS_HU[1]


def test_questions_are_of_the_papers_subtypes_and_facets(simulated: Simulated) -> None:
    _, table, _ = simulated
    subtypes = {question.facets["subtype"] for question in table.questions}
    assert len(subtypes) >= 5
    tasks = {question.facets["task"] for question in table.questions}
    assert tasks == {"measurement", "recognition", "visual reasoning", "medical reasoning"}
    for question in table.questions:
        assert category(question.facets["subtype"]) == question.facets["task"]
        assert {"organ", "sex", "age", "scanner", "phase", "format"} <= set(question.facets)
        positive = question.facets["task"] != "recognition" or question.answer == "Yes"
        assert ("diameter" in question.facets) == positive
