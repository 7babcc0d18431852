"""States the true findings of simulated scans in the columns of AbdomenAtlas 3.0.

Volumes and brightness are measured in the written masks and voxels; diameter, place and attenuation are the values that
were drawn.
"""

from collections.abc import Sequence

import numpy as np

from medtune.benchmarks.ctlesionvqa.sources.ct_phantom.anatomy import ORGANS, Patient
from medtune.benchmarks.ctlesionvqa.sources.ct_phantom.lesions import ADJECTIVES, SITES, WITH_KINDS, Lesion
from medtune.benchmarks.ctlesionvqa.sources.ct_phantom.scan import Scan
from medtune.benchmarks.ctlesionvqa.sources.ct_phantom.shapes import SIZE, SPACING_MM

Row = dict[str, str]
HYPER, HYPO = "hyperattenuating", "hypoattenuating"
_VOXEL_CM3 = SPACING_MM**3 / 1000


def truth(name: str, patient: Patient, lesions: Sequence[Lesion], scanned: Scan) -> Row:
    """Returns the table row of one scan; numbers have one decimal, and the cells of an absent lesion are 0 or empty."""
    row = {
        "BDMAP ID": name,
        "spacing": f"[{SPACING_MM} {SPACING_MM} {SPACING_MM}]",
        "shape": str(SIZE),
        "sex": patient.sex,
        "age": str(patient.age_years),
        "scanner": patient.maker,
        "contrast": patient.phase,
    }
    for organ in ORGANS:
        mask = scanned.masks[organ]
        label = organ.replace("_", " ")
        row[f"{label} volume (cm^3)"] = f"{mask.sum() * _VOXEL_CM3:.1f}"
        row[f"{label} HU"] = f"{float(np.mean(scanned.hu_IJK[mask])):.1f}"
    for site in SITES:
        own = [lesion for lesion in lesions if lesion.site == site]
        for kind in ("lesion", *(("tumor", "cyst") if site in WITH_KINDS else ())):
            row |= _of_kind(f"{ADJECTIVES[site]} {kind}", [x for x in own if kind in ("lesion", x.kind)])
    return row


def _of_kind(label: str, lesions: Sequence[Lesion]) -> Row:
    largest = lesions[0] if lesions else None
    return {
        f"total {label} volume (cm^3)": f"{sum(lesion.volume_cm3 for lesion in lesions):.1f}",
        f"number of {label} instances": str(len(lesions)),
        f"largest {label} diameter (cm)": f"{largest.diameter_mm / 10:.1f}" if largest else "0",
        f"largest {label} location": largest.place if largest else "",
        f"largest {label} attenuation": (HYPER if largest.is_bright else HYPO) if largest else "",
    }
