"""Your own CTs with masks, asked about in CTLesionVQA's subtypes.

    .../NAME/ct.nii.gz                 a scan, three levels down at most, or several
    .../NAME/segmentations/*.nii.gz    its masks, one file each, named as AbdomenAtlas or TotalSegmentator names them
    labels/NAME.nii.gz                 or one label map for all, with nnU-Net's labels/dataset.json or as
                                       TotalSegmentator --ml writes it, with the names in its header
    .../NAME/dicom                     optional: the series, for sex, age, scanner and contrast phase
    *.csv                              optional: columns image_id, sex, age, scanner, contrast; they count before DICOM
    construction.json                  optional: {"preset": "paper"}, or another of the presets

An organ without a mask is not asked about; an organ whose mask is empty is not either, and is listed as a reject. A
lesion without a mask, or with an empty one, is not there; a note in capitals counts masks and labels that are called
like lesions and are under no known name. Masks without their scan are a reject. A mask on another grid is resampled, or
its scan is refused where the mask lies elsewhere. Organs whose masks overlap, and organs with a lesion outside of them,
are rejects; so is a scan that is not in Hounsfield units or cannot be read. The other organs and scans are asked about.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from medtune.benchmarks.ctlesionvqa.construction.cases import (
    EMPTY,
    RESAMPLED,
    Masks,
    masks_of_media,
    read_facts,
    stored_masks,
)
from medtune.benchmarks.ctlesionvqa.construction.facts import Facts, from_json, to_json
from medtune.benchmarks.ctlesionvqa.construction.mask_names import (
    KINDS,
    LESIONS,
    label_names,
    lesion_masks,
    masks_of_case,
    named_files,
    unknown_lesions,
)
from medtune.benchmarks.ctlesionvqa.construction.questions import questions
from medtune.benchmarks.ctlesionvqa.construction.subtypes_asked import PAPER, YES_NO, preset
from medtune.benchmarks.ctlesionvqa.sources.ctlesionvqa import ORGANS
from medtune.benchmarks.ctlesionvqa.sources.ctlesionvqa.scan_facts import PATIENT_CELLS, Scans
from medtune.benchmarks.ctlesionvqa.sources.ctlesionvqa.tables import read_rows
from medtune.data.files import json_file
from medtune.data.media.volumes.formats.abdomen_atlas import MASKS, SCAN, Case, find_cases
from medtune.data.raw.folder import raw_folder
from medtune.data.raw.source import Found, MediaFinding, NotFound, Reject, Source, SourceTable, repeat_rejects
from medtune.data.types import MediaRef, Question

LABELS, DICOM, SETTINGS = "labels", "dicom", "construction.json"
_CASES = "cases"
_LEVELS = ("*", "*/*", "*/*/*")


def source() -> Source:
    return Source(
        title="Own CTs with masks, in CTLesionVQA's subtypes",
        licence="that of your files",
        url="https://arxiv.org/abs/2505.18915",
        provenance="own",
        patient_unit="the scan: folders of scans do not say which are one patient's",
        read=_read,
    )


def _read(root: Path | None, seed: int, scratch: Path) -> SourceTable:
    folder = raw_folder(root, holds="scans as NAME/ct.nii.gz, each with masks in NAME/segmentations")
    preset(rules := _preset(folder / SETTINGS))
    scans = Scans()
    for file in sorted(folder.glob("*.csv")):
        scans.add(read_rows(folder, file))
    known: list[Question] = []
    media: dict[str, tuple[MediaRef, ...]] = {}
    findings: dict[str, MediaFinding] = {}
    rejects: list[Reject] = []
    cases = find_cases(folder)
    unknown: list[str] = []  # The scan of each mask that is called like a lesion and under no known name.
    for number, (name, case) in enumerate(sorted(cases.items()), start=1):
        masks, names = _masks(folder, case)
        unknown += [name] * len(unknown_lesions(names))
        if not masks:
            reason = "no mask with a known name, as AbdomenAtlas, TotalSegmentator or nnU-Net's dataset.json have them"
            rejects.append(Reject(_CASES, number, None, reason, case.scan))
            continue
        ill = [organ for organ in KINDS if any(mask in masks for mask in lesion_masks(organ, "lesion"))]
        known.append(Question(name, name, "", YES_NO, "Yes" if ill else "No", "yes_no", name, {"task": "lesions"}))
        media[name] = (MediaRef(case.scan, kind="volume", masks=stored_masks(masks, ORGANS), encoding=case.encoding),)
        files = (case.scan, *(file.path for files in masks.values() for file in files))
        findings[name] = MediaFinding(partial(_scan_facts, name, case.scan, masks), files)
    if not media:
        raise ValueError(
            f"{folder}: no scan NAME/ct.nii.gz with masks in NAME/segmentations or {LABELS}/. Check --from."
        )
    alone = {each.parent for level in _LEVELS for each in folder.glob(f"{level}/{MASKS}") if each.is_dir()}
    for number, place in enumerate(sorted(each for each in alone if each.name not in cases), start=len(cases) + 1):
        rejects.append(Reject(_CASES, number, None, f"its masks are here and its {SCAN} is not; add the scan", place))
    notes = [
        f"LESIONS MAY BE MISSING: {len(unknown)} masks of {len(set(unknown))} scans are called like lesions, under "
        "names that stand for none here, and count for no question: an organ may be called free of what they mark. "
        "Rename them: docs/own_cts.md"
    ] * bool(unknown)
    numbers = {name: number for number, name in enumerate(sorted(cases), start=1)}
    ask = partial(_ask, rules=rules, seed=seed, scans=scans, numbers=numbers)
    return SourceTable(
        tuple(known),
        media,
        rejects=tuple(rejects),
        stands_for_patient="scan",
        findings=findings,
        ask=ask,
        notes=tuple(notes),
    )


def _preset(file: Path) -> str:
    if not file.is_file():
        return PAPER
    wanted = 'an object like {"preset": "paper"}'
    stated = json_file(file, dict, wanted, todo="Correct it.")
    if set(stated) - {"preset"} or not isinstance(stated.get("preset", PAPER), str):
        raise ValueError(f"{file}: wanted {wanted}, got {stated!r}.")
    return str(stated.get("preset", PAPER))


def _masks(folder: Path, case: Case) -> tuple[Masks, list[str]]:
    """Returns the known masks of a case, and the names of all that were looked at."""
    if found := named_files(case.masks.values()):
        return found, list(case.masks)
    labels = folder / LABELS
    return masks_of_case(labels, case.name), [*case.masks, *label_names(labels, case.name)]


def _scan_facts(name: str, scan: Path, masks: Masks) -> dict[str, Any]:
    return to_json(read_facts(name, scan, masks, _of_dicom(scan.parent / DICOM)))


def _of_dicom(folder: Path) -> dict[str, str]:
    """Returns sex, age, scanner and contrast phase from the first DICOM file of a folder; {} where there is none."""
    from pydicom import dcmread
    from pydicom.errors import InvalidDicomError

    tags = ("PatientSex", "PatientAge", "Manufacturer", "SeriesDescription")
    for file in sorted(folder.iterdir()) if folder.is_dir() else ():
        try:
            header = dcmread(file, stop_before_pixels=True, specific_tags=list(tags))
        except (InvalidDicomError, OSError, ValueError):
            continue
        sex, age, scanner, series = (str(header.get(tag) or "").strip() for tag in tags)
        phase = next((word for word in ("arterial", "venous", "delay", "plain") if word in series.lower()), "")
        # An age is three digits and Y; ages of children in months are left out.
        years = str(int(age[:3])) if age[3:] == "Y" and age[:3].isdigit() else ""
        return {key: cell for key, cell in zip(PATIENT_CELLS, (sex, years, scanner, phase), strict=True) if cell}
    return {}


def _ask(
    table: SourceTable, found: Found, *, rules: str, seed: int, scans: Scans, numbers: Mapping[str, int]
) -> SourceTable:
    cases: list[Facts] = []
    broken: list[Reject] = []
    wrong: list[Reject] = []
    media: dict[str, tuple[MediaRef, ...]] = {}
    counted: Counter[str] = Counter()
    for name, outcome in found.items():
        number = numbers[name]
        (ref,) = table.media[name]
        if isinstance(outcome, NotFound):
            broken.append(Reject(_CASES, number, None, _anonymous(outcome.reason, ref), ref.path))
            continue
        facts = from_json(outcome)
        stated = {key: scans.cells[name, key] for key in PATIENT_CELLS if (name, key) in scans.cells}
        cases.append(replace(facts, about={**facts.about, **stated}))
        wrong += [Reject(_CASES, number, organ, reason, ref.path) for organ, reason in facts.wrong.items()]
        for note in facts.notes:
            kind, _, mask = note.partition(": ")
            if kind == EMPTY and mask in ORGANS:
                reason = "its mask holds no voxel, so that nothing is asked about this organ"
                wrong.append(Reject(_CASES, number, mask, reason, ref.path))
            elif mask not in LESIONS or kind != EMPTY:
                counted[note] += 1
        counted.update(f"organs without a mask: {organ}" for organ in ORGANS if organ not in masks_of_media(ref))
        moved = any(note.startswith(RESAMPLED) for note in facts.notes)
        # A model that reads masks needs them on the scan's grid, which the construction does not.
        media[name] = (replace(ref, masks=stored_masks(masks_of_media(ref), ())) if moved else ref,)
    asked = questions(cases, preset(rules), seed=seed)
    if not asked:
        raise ValueError(
            f"no question can be asked about these scans. The first: {next(iter((*broken, *wrong)), 'no organ')}"
        )
    used = {question.media_id for question in asked}
    return replace(
        table,
        questions=tuple(asked),
        media={name: items for name, items in media.items() if name in used},
        notes=(*table.notes, f"rules: the preset {rules!r}", *_worded(counted)),
        rejects=(*table.rejects, *repeat_rejects(broken, made=len(asked), of=len(cases)), *wrong),
    )


def _worded(counted: Mapping[str, int]) -> Iterable[str]:
    return (f"{what}: {count} scans" for what, count in sorted(counted.items()))


def _anonymous(reason: str, ref: MediaRef) -> str:
    """Returns a reason without the folders of its files, which may carry a patient's name."""
    for path in (ref.path, *(path for _, path in ref.masks)):
        reason = reason.replace(str(path), path.name)
    return reason
