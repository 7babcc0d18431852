"""The facts about one scan that questions and reports are made of, and the table of metadata with its 79 columns.

Source: the columns are those of MrGiovanni/RadGPT@main, generate_reports/ExtractComprehensiveMedatadaReports.py
(`header`), which is the metadata of CTLesionVQA's scans.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from medtune.benchmarks.ctlesionvqa.construction.mask_names import KINDS, adjective

HYPER, ISO, HYPO = "hyperattenuating", "isoattenuating", "hypoattenuating"
ATTENUATIONS = (HYPER, ISO, HYPO)

_ATTENUATION = f"({', '.join(ATTENUATIONS)})"
_PLACES = {"liver": "(1-8)", "pancreas": "(head, body, tail)", "kidney": "(left, right)"}
# The order in which the original lists kinds, by the group of columns.
_TABLED: Mapping[str, tuple[str, ...]] = {
    "liver": ("lesion", "cyst", "tumor"), "pancreas": ("lesion", "cyst", "tumor", "PDAC"),
    "kidney": ("lesion", "cyst", "tumor"),
}  # fmt: skip
_SUMMED = {
    "liver": ("lesion", "tumor", "cyst"),
    "pancreas": ("lesion", "tumor", "PDAC", "cyst"),
    "kidney": _TABLED["kidney"],
}
REPORTS = (
    "radiologist note", "structured report", "narrative report", "fusion structured report", "fusion narrative report",
)  # fmt: skip
_TEXT, _REAL, _WHOLE = pa.string(), pa.float64(), pa.int64()


@dataclass(frozen=True, slots=True)
class OrganFacts:
    """An organ's size, and the brightness of its voxels outside of lesions; None where all of them are lesion."""

    volume_cm3: float
    hu_mean: float | None
    hu_sd: float | None


@dataclass(frozen=True, slots=True)
class LesionFacts:
    """One lesion: voxels that touch one another, by faces, edges or corners."""

    organ: str  # The organ, e.g. "kidney".
    # What its mask says that it is, e.g. "tumor". One of kind "lesion" stands for every kind, so that a tumor is listed
    # twice.
    kind: str
    volume_cm3: float
    long_cm: float  # The longest diameter in an axial slice.
    short_cm: float  # The extent of the lesion at right angles to that diameter, in the same slice.
    slice: int  # The axial slice in which it has the largest area, counted from 1 at the feet.
    hu_mean: float
    hu_sd: float
    place: str | None  # The part of the organ that holds most of it; None where no mask of a part is near.
    attenuation: str | None  # Its brightness beside that of the organ; None where the organ's is not known.
    organ_hu: float | None  # The mean of the organ in which it lies.
    # The structures that lie within `NEAR_MM` of it, the one with the most contact first.
    touches: tuple[str, ...] = ()
    # The largest part of a vessel's circumference that it touches, by vessel, where masks show one.
    contact_degrees: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Facts:
    """What a scan and its masks hold."""

    name: str
    shape: tuple[int, int, int]  # The number of voxels to the patient's left, to the back and to the head.
    spacing_mm: tuple[float, float, float]  # Their spacing in the same order.
    organs: Mapping[str, OrganFacts]  # The organs with a mask, by name.
    lesions: tuple[LesionFacts, ...]  # All lesions by organ and kind, the largest first.
    # The volume in cm3 of each part of an organ that has a mask, by organ and part.
    parts: Mapping[str, Mapping[str, float]]
    about: Mapping[str, str]  # "sex", "age", "scanner" and "contrast", as stated; what is not known is left out.
    # Organs about which nothing is asked, with the reason, because their masks contradict one another.
    wrong: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    def of_kind(self, organ: str, kind: str) -> tuple[LesionFacts, ...]:
        """Returns the lesions of a kind in an organ, the largest first."""
        return tuple(each for each in self.lesions if each.organ == organ and each.kind == kind)


def to_json(facts: Facts) -> dict[str, Any]:
    return asdict(facts)


def from_json(said: Mapping[str, Any]) -> Facts:
    lesions = [LesionFacts(**{**each, "touches": tuple(each["touches"])}) for each in said["lesions"]]
    found = Facts(**{**said, "organs": {name: OrganFacts(**each) for name, each in said["organs"].items()}})
    i, j, k = found.shape
    a, b, c = found.spacing_mm
    return replace(found, shape=(i, j, k), spacing_mm=(a, b, c), lesions=tuple(lesions), notes=tuple(found.notes))


def _columns() -> Iterator[tuple[str, pa.DataType, str]]:
    for name in ("BDMAP ID", "spacing", "shape", "sex", "age", "scanner", "contrast"):
        yield name, _TEXT, {"spacing": "mm", "shape": "voxels", "age": "years"}.get(name, "")
    for organ, kinds in _TABLED.items():
        sides = ("left kidney", "right kidney", "kidney") if organ == "kidney" else (organ,)
        yield from ((f"{side} volume (cm^3)", _REAL, "cm^3") for side in sides)
        label = adjective(organ)
        yield from ((f"total {label} {kind} volume (cm^3)", _REAL, "cm^3") for kind in _SUMMED[organ])
        yield from ((f"number of {label} {kind} instances", _WHOLE, "lesions") for kind in _SUMMED[organ])
        yield from ((f"largest {label} {kind} diameter (cm)", _REAL, "cm") for kind in kinds)
        yield from ((f"largest {label} {kind} location {_PLACES[organ]}", _TEXT, "") for kind in kinds)
        yield from ((f"largest {label} {kind} attenuation {_ATTENUATION}", _TEXT, "") for kind in kinds)
        if organ == "pancreas":
            yield "pancreatic tumor staging (T1-T4)", _TEXT, ""
    yield "spleen volume (cm^3)", _REAL, "cm^3"
    for organ in ("colon", "esophagus", "uterus"):
        yield f"total {organ} lesion volume (cm^3)", _REAL, "cm^3"
        yield f"number of {organ} lesion instances", _WHOLE, "lesions"
        yield f"largest {organ} lesion diameter (cm)", _REAL, "cm"
        if organ == "colon":
            yield f"largest colon lesion attenuation {_ATTENUATION}", _TEXT, ""
    yield from ((name, _TEXT, "") for name in REPORTS)


SCHEMA = pa.schema([pa.field(name, kind, metadata={"unit": unit} if unit else None) for name, kind, unit in _columns()])
"""The 79 columns with their types; the metadata of a field states its unit."""


def metadata_row(facts: Facts, *, stage: str | None, report: str) -> dict[str, Any]:
    """Returns a scan's row of the table: numbers with one decimal, None for what is absent or not known.

    The radiologist's note and the reports that are fused with it need a radiologist and are None.
    """
    row: dict[str, Any] = dict.fromkeys(SCHEMA.names)
    row |= {"BDMAP ID": facts.name, "spacing": f"{list(facts.spacing_mm)}", "shape": f"{facts.shape}", **facts.about}
    for organ, measured in facts.organs.items():
        if f"{organ} volume (cm^3)" in row:
            row[f"{organ} volume (cm^3)"] = round(measured.volume_cm3, 1)
    for organ in (organ for organ in KINDS if organ in facts.organs):
        for kind in KINDS[organ]:
            lesions, label = facts.of_kind(organ, kind), f"{adjective(organ)} {kind}"
            cells: dict[str, Any] = {
                f"total {label} volume (cm^3)": round(sum(each.volume_cm3 for each in lesions), 1),
                f"number of {label} instances": len(lesions),
                f"largest {label} diameter (cm)": round(lesions[0].long_cm, 1) if lesions else 0.0,
                f"largest {label} location {_PLACES.get(organ)}": _number(lesions[0].place) if lesions else None,
                f"largest {label} attenuation {_ATTENUATION}": lesions[0].attenuation if lesions else None,
            }
            row |= {name: cell for name, cell in cells.items() if name in row}
    return row | {"pancreatic tumor staging (T1-T4)": stage, "structured report": report}


def _number(place: str | None) -> str | None:
    return place.removeprefix("segment ") if place else place


def write_metadata(path: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    """Writes rows of the table as Parquet."""
    pq.write_table(pa.Table.from_pylist([dict(row) for row in rows], SCHEMA), path)
