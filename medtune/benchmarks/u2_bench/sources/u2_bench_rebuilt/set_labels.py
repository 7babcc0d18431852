"""Translates the labels of public sets into the options, ids and captions of U2-Bench's scenarios.

An image whose label is not in these tables is rejected. No question is asked about a label that has the term None.

Source: the options are those of dolphin-sound/u2-bench-evalkit, vlmeval/dataset/cla_prompt.json. According to its
image_report.py, the captions of FPUS23 name three measurements; the sentence of the captions here is ours.
"""

from collections.abc import Mapping
from typing import NamedTuple


class Choice(NamedTuple):
    """A scenario with options.

    Attributes:
        task: The task, for example "VRA".
        text: The question.
        terms: The option by the set's label; None for a label about which no question is asked.
        labels: All options.
    """

    task: str
    text: str
    terms: Mapping[str, str | None]
    labels: tuple[str, ...]


DATASETS: Mapping[str, str] = {
    "acouslic": "50", "busi": "23", "fetal_planes_db": "03", "fpus23": "10", "hc18": "31", "jnu_ifm": "53",
    "psfhs": "52",
}  # fmt: skip
ANATOMY: Mapping[str, str] = {
    "acouslic": "fetal abdomen", "busi": "breast", "fetal_planes_db": "fetus", "fpus23": "fetal phantom",
    "hc18": "fetal head", "jnu_ifm": "fetal head and pubic symphysis", "psfhs": "fetal head and pubic symphysis",
}  # fmt: skip
_PLANES = {
    "Fetal abdomen": "fetal abdomen",
    "Fetal femur": "fetal femur",
    **{
        f"Fetal brain, {part}": "fetal brain"
        for part in ("Trans-thalamic", "Trans-cerebellum", "Trans-ventricular", "Other")
    },
    "Fetal thorax": "fetal thorax",
    "Maternal cervix": "maternal cervix",
    "Other": "other",
}
_LANDMARKS = {
    "none": "None",
    "head": "OnlyFetalHead",
    "symphysis": "OnlySymphysisPubis",
    "both": "SymphysisPubis+FetalHead",
}
_POSES = ("hdvb", "hdvf", "huvb", "huvf")


def _same(*labels: str) -> dict[str, str | None]:
    return {label: label for label in labels}


CHOICES: Mapping[tuple[str, str], Choice] = {
    ("fetal_planes_db", "plane"): Choice(
        "VRA", "Which plane does this fetal ultrasound image show?", _PLANES, tuple(dict.fromkeys(_PLANES.values()))
    ),
    ("fpus23", "orientation"): Choice(
        "VRA",
        "How does the fetus lie: head down (hd) or up (hu), seen from its back (vb) or its front (vf)?",
        _same(*_POSES),
        _POSES,
    ),
    ("acouslic", "view"): Choice(
        "VRA",
        "How fit is this view of the fetal abdomen for measuring the abdominal circumference?",
        _same("none", "optimal", "suboptimal"),
        ("none", "optimal", "suboptimal"),
    ),
    ("jnu_ifm", "landmarks"): Choice(
        "VRA",
        "Which of these are visible: the fetal head, the pubic symphysis?",
        _LANDMARKS,
        tuple(_LANDMARKS.values()),
    ),
    ("busi", "diagnosis"): Choice(
        "DD",
        "What does this breast ultrasound image show?",
        _same("normal", "benign", "malignant"),
        ("normal", "benign", "malignant"),
    ),
}


def _caption(measurement: str) -> str:
    return f"A fetal phantom in the standard plane for measuring the {measurement}."


CAPTIONS: Mapping[tuple[str, str], Mapping[str, str | None]] = {
    ("fpus23", "plane"): {
        "AC_PLANE": _caption("abdominal circumference"),
        "Abd_plane": _caption("abdominal circumference"),
        "BPD_PLANE": _caption("biparietal diameter"),
        "FL_PLANE": _caption("femur length"),
        "NO_PLANE": None,
    }
}
_HEAD, _SYMPHYSIS = (
    "Where in this ultrasound image is the fetal head?",
    "Where in this ultrasound image is the pubic symphysis?",
)
STRUCTURES: Mapping[str, Mapping[str, str]] = {
    "acouslic": {"fetal abdomen": "Where in this ultrasound image is the fetal abdomen?"},
    "busi": {"lesion": "Where in this breast ultrasound image is the lesion?"},
    "hc18": {"head": _HEAD},
    "jnu_ifm": {"fetal head": _HEAD, "pubic symphysis": _SYMPHYSIS},
    "psfhs": {"fetal head": _HEAD, "pubic symphysis": _SYMPHYSIS},
}
VALUES: Mapping[str, Mapping[str, tuple[str, str]]] = {
    "acouslic": {"ac_mm": ("What is the abdominal circumference in mm?", "mm")},
    "hc18": {"hc_mm": ("What is the head circumference in mm?", "mm")},
}
