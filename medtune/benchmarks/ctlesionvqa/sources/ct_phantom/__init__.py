"""Simulated abdominal CTs in AbdomenAtlas's layout with known lesions, in subtypes of CTLesionVQA.

Everything that an answer depends on (which organ is ill, where, how bright, how large) is drawn in equal shares from
one stream of random numbers. Everything else (body, place and brightness of organs, scanner, noise) is drawn from
another stream, so that neither gives a hint of the other. Lesions measure 5 to 40 mm and differ by 10 to 80 HU from
their organ; the noise has a standard deviation of 15 HU.

The scans and masks are measured and asked about as any others (`construction`). Eight subtypes are asked, in the format
that a small model can learn: those with yes or no as free text, the others as multiple choice.

No folder is needed. To change the number of patients, give a folder that holds phantom.json: {"num_patients": 24}
With {"every_subtype": true} beside it, organs are also enlarged or fatty, lesions are more, 9 to 40 mm large and 40 to
80 HU from their organ, vessels are drawn, and every subtype is asked in both formats.

Simulates the CT scan of a patient: Hounsfield units with partial volume and noise, and a mask of each structure.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from medtune.benchmarks.ctlesionvqa.construction.cases import stored_masks
from medtune.benchmarks.ctlesionvqa.construction.facts import Facts, from_json, to_json
from medtune.benchmarks.ctlesionvqa.construction.mask_names import LESIONS, PARTS, MaskFile, adjective
from medtune.benchmarks.ctlesionvqa.construction.measure import measure, region
from medtune.benchmarks.ctlesionvqa.construction.questions import questions
from medtune.benchmarks.ctlesionvqa.construction.subtypes_asked import CLASSES, YES_NO, SubtypeQuestion, preset
from medtune.benchmarks.ctlesionvqa.sources.ct_phantom.anatomy import (
    AIR_HU,
    FAT_HU,
    MUSCLE_HU,
    ORGANS,
    USUAL,
    Build,
    CtPatient,
    draw_builds,
    draw_patient,
)
from medtune.benchmarks.ctlesionvqa.sources.ct_phantom.lesions import (
    ADJECTIVES,
    SITES,
    Findings,
    Lesion,
    draw_findings,
    place_lesions,
)
from medtune.benchmarks.ctlesionvqa.sources.ct_phantom.shapes import SIZE, SPACING_MM, Depth, Floats, axes_mm, depth_of
from medtune.benchmarks.simulators import settings, write_num_patients
from medtune.data.media.volumes.formats.abdomen_atlas import MASKS, SCAN
from medtune.data.media.volumes.formats.nifti import write_nifti
from medtune.data.raw.source import Found, MediaDraw, MediaFinding, NotFound, Source, SourceTable
from medtune.data.types import MediaRef, Question, Volume

NOISE_SD_HU = 15.0
LPS = np.diag([-SPACING_MM, -SPACING_MM, SPACING_MM, 1.0])
"""The affine matrix from voxel indices to mm: i grows to the patient's left, j to the back, and k to the head."""
# The layer of muscle, as shares of the way from the middle of the body to its skin.
_MUSCLE_FROM, _MUSCLE_TO = 0.84, 0.93

Mask = NDArray[np.bool_]

NUM_PATIENTS = 800
SETTINGS_FILE = "phantom.json"
EVERY_SUBTYPE = "every_subtype"
RULES = "by_masks"
_LABELS, _NUISANCE, _BUILD = 0, 1, 2
MASK_NAMES = (*ORGANS, *(mask for organ, parts in PARTS.items() if organ != "kidney" for mask in parts.values()))
VESSELS = ("aorta", "postcava", "stomach", "superior_mesenteric_artery", "portal_vein")
_ASKED = (
    *(f"{ADJECTIVES[site]} lesion existence" for site in SITES), "largest lesion attenuation",
    "largest lesion location", "lesion type classification", "lesion volume measurement",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Scan:
    """One simulated CT."""

    hu_IJK: NDArray[np.int16]  # The voxels in Hounsfield units.
    masks: Mapping[str, Mask]  # The masks by AbdomenAtlas's names; there is no entry for an absent structure.


def scan(patient: CtPatient, lesions: Sequence[Lesion], rng: np.random.Generator) -> Scan:
    hu_IJK = _body(patient)
    for _, solid, hu in patient.surroundings:
        _draw(hu_IJK, depth_of(solid), hu)
    masks: dict[str, Mask] = {}
    for organ in ORGANS:
        drawn = patient.organs[organ]
        _draw(hu_IJK, drawn, patient.hu[organ])
        inside = _mask(drawn)
        for earlier in masks.values():
            earlier &= ~inside
        masks[organ] = inside
    for name, part in patient.segments.items():
        masks[f"liver_{name.replace(' ', '_')}"] = _mask(part) & masks["liver"]
    for name, part in patient.thirds["pancreas"].items():
        masks[f"pancreas_{name}"] = _mask(part) & masks["pancreas"]
    for name, part in patient.thirds["colon"].items():
        masks[f"colon_{name}"] = _mask(part) & masks["colon"]
    for name, solid, _ in patient.surroundings:
        if name:
            masks[name] = _mask(depth_of(solid)) & ~np.logical_or.reduce([masks[organ] for organ in ORGANS])
    for lesion in lesions:
        _draw(hu_IJK, lesion.drawn, lesion.hu)
        for name in lesion_masks(lesion):
            # If no voxel's centre lies inside the lesion, its mask is the one voxel that it fills most.
            own = _mask(lesion.drawn)
            own = own if own.any() else lesion.drawn.whole() >= lesion.drawn.depth_IJK.max()
            masks[name] = masks.get(name, np.zeros(SIZE, np.bool_)) | own
    hu_IJK += rng.standard_normal(SIZE, dtype=np.float32) * np.float32(NOISE_SD_HU)
    return Scan(np.clip(np.rint(hu_IJK), -1024, 3071).astype(np.int16), masks)


def lesion_masks(lesion: Lesion) -> tuple[str, ...]:
    """Returns the names of the masks that a lesion belongs to: all lesions of its organ, and those of its kind."""
    kinds = ("lesion", *((lesion.kind,) if lesion.kind else ()), *((lesion.cells,) if lesion.cells else ()))
    return tuple(f"{ADJECTIVES[lesion.site]}_{kind}" for kind in kinds)


def write(folder: Path, scanned: Scan) -> None:
    """Writes a scan and its masks into a folder in the layout of AbdomenAtlas."""
    (folder / MASKS).mkdir(parents=True)
    write_nifti(folder / SCAN, scanned.hu_IJK, LPS)
    for name, mask in scanned.masks.items():
        write_nifti(folder / MASKS / f"{name}.nii.gz", mask.astype(np.uint8), LPS)


def _body(patient: CtPatient) -> Floats:
    x, y, _ = axes_mm()
    across, deep = patient.body_radii_mm
    reach_IJ = np.sqrt((x / across) ** 2 + (y / deep) ** 2)[:, :, 0]
    blur = np.float32(SPACING_MM / min(across, deep))
    hu_IJ: Floats = np.full(reach_IJ.shape, AIR_HU, np.float32)
    for limit, hu in ((1.0, FAT_HU), (_MUSCLE_TO, MUSCLE_HU), (_MUSCLE_FROM, FAT_HU)):
        share = np.clip((limit - reach_IJ) / blur + 0.5, 0, 1)
        hu_IJ += (share * (np.float32(hu) - hu_IJ)).astype(np.float32)
    return np.repeat(hu_IJ[:, :, None], SIZE[2], axis=2).astype(np.float32)


def _draw(hu_IJK: Floats, drawn: Depth, hu: float) -> None:
    share = drawn.filled()
    here = hu_IJK[drawn.block]
    here += share * (np.float32(hu) - here)


def _mask(drawn: Depth) -> Mask:
    mask = np.zeros(SIZE, np.bool_)
    mask[drawn.block] = drawn.depth_IJK > 0
    return mask


def source() -> Source:
    """Returns the simulation as a source; it needs no folder."""
    return Source(
        title="CT phantom (simulated abdominal CT)",
        licence="Apache-2.0, made on the spot",
        url="https://github.com/Schuture/DeepTumorVQA",
        provenance="synthetic",
        patient_unit="a simulated patient with one scan",
        read=_read,
        write_settings=partial(write_num_patients, SETTINGS_FILE),
    )


def undrawn(folder: Path, *, seed: int, num_patients: int, every_subtype: bool = False) -> SourceTable:
    """Returns the scans, which are still to be drawn, with what is known of their lesions."""
    known: list[Question] = []
    media: dict[str, tuple[MediaRef, ...]] = {}
    draws: dict[Path, MediaDraw] = {}
    findings: dict[str, MediaFinding] = {}
    builds = (
        draw_builds(num_patients, np.random.default_rng([seed, _BUILD])) if every_subtype else [USUAL] * num_patients
    )
    labels = draw_findings(num_patients, np.random.default_rng([seed, _LABELS]), clear=every_subtype)
    for number, (found, build) in enumerate(zip(labels, builds, strict=True)):
        name = f"PHANTOM_{number:08d}"
        subject = SimulatedPatient(found, build, seed, number)
        known += [_question_before_drawing(name, site, "Yes" if found[site] else "No") for site in SITES]
        said = f"ct_phantom, seed {seed}, patient {number} of {num_patients}" + ", every subtype" * every_subtype
        draw = MediaDraw(folder / name, partial(write_patient, folder / name, subject), said)
        files = _files(folder / name, MASK_NAMES + (VESSELS if every_subtype else ()))
        media[name] = (MediaRef(folder / name / SCAN, kind="volume", masks=stored_masks(files, ORGANS)),)
        draws |= dict.fromkeys((folder / name / SCAN, *(each.path for each in lesion_files(folder / name))), draw)
        draws |= dict.fromkeys((path for _, path in media[name][0].masks), draw)
        findings[name] = MediaFinding(partial(_drawn_facts, name, subject), said)
    ask = partial(_ask, seed=seed, every_subtype=every_subtype)
    return SourceTable(tuple(known), media, draws=draws, findings=findings, ask=ask)


class SimulatedPatient(NamedTuple):
    found: Findings
    build: Build
    seed: int
    number: int


class Drawn(NamedTuple):
    """A simulated patient with the lesions and the scan, as they were drawn."""

    patient: CtPatient
    lesions: Sequence[Lesion]
    scan: Scan


def draw(subject: SimulatedPatient) -> Drawn:
    """Draws one patient's scan."""
    rng = np.random.default_rng([subject.seed, _NUISANCE, subject.number])
    patient = draw_patient(rng, subject.build)
    lesions = place_lesions(patient, subject.found, rng)
    return Drawn(patient, lesions, scan(patient, lesions, rng))


def write_patient(folder: Path, subject: SimulatedPatient) -> Drawn:
    """Draws one patient's scan, writes it with its masks into a folder, and returns what was drawn."""
    drawn = draw(subject)
    write(folder, drawn.scan)
    return drawn


def about(patient: CtPatient) -> dict[str, str]:
    return {"sex": patient.sex, "age": str(patient.age_years), "scanner": patient.maker, "contrast": patient.phase}


def measured(name: str, drawn: Drawn) -> Facts:
    """Returns the facts that the construction finds in a drawn scan."""
    regions = {each: cut for each, mask in drawn.scan.masks.items() if (cut := region(mask)) is not None}
    volume = Volume(drawn.scan.hu_IJK, (SPACING_MM,) * 3, "LPS")
    return measure(name, volume, regions, about(drawn.patient))


def _drawn_facts(name: str, subject: SimulatedPatient) -> dict[str, Any]:
    return to_json(measured(name, draw(subject)))


def lesion_files(folder: Path) -> list[MaskFile]:
    return [file for files in _files(folder, LESIONS).values() for file in files]


def _files(folder: Path, names: Iterable[str]) -> dict[str, list[MaskFile]]:
    return {name: [MaskFile(folder / MASKS / f"{name}.nii.gz")] for name in names}


def _question_before_drawing(name: str, site: str, answer: str) -> Question:
    """Returns what is known of a patient before the scan is drawn, by which a limit chooses among patients."""
    facets = {"task": "recognition", "subtype": f"{site} lesion existence"}
    return Question(f"{name} {site}", name, "", YES_NO, answer, "yes_no", name, facets)


def _ask(table: SourceTable, found: Found, *, seed: int, every_subtype: bool) -> SourceTable:
    cases = [from_json(each) for each in found.values() if not isinstance(each, NotFound)]
    media = {}
    for facts in cases:
        (ref,) = table.media[facts.name]
        kinds = {(lesion.organ, lesion.kind) for lesion in facts.lesions}
        ill = [f"{adjective(organ)}_{kind.lower()}" for organ, kind in kinds]
        masks = (*ref.masks, *stored_masks(_files(ref.path.parent, ill), ()))
        media[facts.name] = (replace(ref, masks=tuple(sorted(masks))),)
    wanted = (lambda asked, kind: True) if every_subtype else _is_learnable
    asked = questions(cases, preset(RULES), seed=seed, wanted=wanted)
    return replace(table, questions=tuple(asked), media=media)


def _is_learnable(asked: SubtypeQuestion, kind: str) -> bool:
    """Returns whether a small model is asked a question: yes or no in free text, the others as multiple choice."""
    if asked.subtype not in _ASKED or asked.options == CLASSES or f"({asked.organ}, lesion)" not in asked.program:
        return asked.subtype == "lesion type classification" and kind == "multi_choice"
    return kind == ("free_text" if asked.options == YES_NO else "multi_choice")


def _read(root: Path | None, seed: int, scratch: Path) -> SourceTable:
    number, switches = settings(root, SETTINGS_FILE, default=NUM_PATIENTS, switches=(EVERY_SUBTYPE,))
    return undrawn(scratch, seed=seed, num_patients=number, every_subtype=EVERY_SUBTYPE in switches)
