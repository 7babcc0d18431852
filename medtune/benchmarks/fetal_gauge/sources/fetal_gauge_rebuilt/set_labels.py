"""Translates the labels of public fetal image sets into the terms that Fetal-Gauge's questions use.

An image whose label is not in these tables is rejected. An image whose label has the term None is left out and counted.

Source: the paper (arXiv 2512.22278) expands abbreviations ("abdomcirc" becomes "abdominal circumference plane"), says
"[organ] plane" where a set names no plane within an organ, and drops classes such as "other". Its list of terms is not
published: these are ours.
"""

from collections.abc import Mapping

from medtune.benchmarks.fetal_gauge.sources.fetal_phantom.questions import ORIENTATION_WORDS

ABDOMEN, HEAD, FEMUR = "abdominal circumference plane", "biparietal diameter plane", "femur length plane"
BRAIN = "fetal brain plane"

PLANES: Mapping[str, Mapping[str, str | None]] = {
    "fetal_planes_db": {
        "Fetal abdomen": "fetal abdomen plane",
        "Fetal brain, Trans-thalamic": "trans-thalamic plane",
        "Fetal brain, Trans-cerebellum": "trans-cerebellar plane",
        "Fetal brain, Trans-ventricular": "trans-ventricular plane",
        "Fetal brain, Other": BRAIN,
        "Fetal femur": "fetal femur plane",
        "Fetal thorax": "fetal thorax plane",
        "Maternal cervix": "maternal cervix plane",
        "Other": None,
    },
    "fpus23": {"AC_PLANE": ABDOMEN, "BPD_PLANE": HEAD, "FL_PLANE": FEMUR, "NO_PLANE": None, "Abd_plane": ABDOMEN},
    "pbf_us1": {
        "Biparietal standard plane": HEAD,
        "Abdominal standard plane": ABDOMEN,
        "Heart standard plane": "fetal heart plane",
        "Spine standard plane": "fetal spine plane",
        "Femur standard plane": FEMUR,
        "No plane": None,
    },
}
# A plane within the brain is also a brain plane, so neither of them is offered as a wrong option beside the other.
WITHIN_BRAIN = frozenset({"trans-thalamic plane", "trans-cerebellar plane", "trans-ventricular plane"})
CLINICAL_PLANES = tuple(dict.fromkeys(term for term in PLANES["fetal_planes_db"].values() if term))
PHANTOM_PLANES = tuple(dict.fromkeys(term for term in PLANES["pbf_us1"].values() if term))
"""The options for frames of phantoms. The two sets share them, because one of the sets has only three planes."""

STRUCTURES: Mapping[str, Mapping[str, str | None]] = {
    "fpus23": {"abdomen": "fetal abdomen", "arm": "fetal arm", "head": "fetal head", "legs": "fetal legs"},
    "hc18": {"head": "fetal head"},
    "psfhs": {"pubic symphysis": "pubic symphysis", "fetal head": "fetal head"},
    "jnu_ifm": {"pubic symphysis": "pubic symphysis", "fetal head": "fetal head"},
    "acouslic": {"fetal abdomen": "fetal abdomen"},
}
ALL_STRUCTURES = tuple(dict.fromkeys(term for terms in STRUCTURES.values() for term in terms.values() if term))

ORIENTATIONS: Mapping[str, str | None] = {str(pose): words for pose, words in ORIENTATION_WORDS.items()}
"""The term of each of FPUS23's poses, in the words that the source fetal_phantom uses too."""

VIEWS: Mapping[str, str | None] = {"optimal": "complete", "suboptimal": "incomplete", "none": None}
"""The term of each kind of frame of ACOUSLIC-AI: whether it is complete enough to measure the circumference."""


def offered_planes(set_name: str, answer: str) -> tuple[str, ...]:
    """Returns the terms that may be options of a question with this answer, the answer included.

    Example:
        >>> "trans-thalamic plane" in offered_planes("fetal_planes_db", "fetal brain plane")
        False
    """
    terms = CLINICAL_PLANES if set_name == "fetal_planes_db" else PHANTOM_PLANES
    if answer == BRAIN:
        return tuple(term for term in terms if term not in WITHIN_BRAIN)
    if answer in WITHIN_BRAIN:
        return tuple(term for term in terms if term != BRAIN)
    return terms
