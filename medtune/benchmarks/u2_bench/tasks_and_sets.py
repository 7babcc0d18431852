"""U2-Bench's tasks and data sets, their options, units, weights and ranges, and what its own extractor searches for.

Source:
    Task membership: gurenolun/Dolphin-ai-bench, table_fill/update_table_score_format.py.
    Options: dolphin-sound/u2-bench-evalkit, vlmeval/dataset/cla_prompt.json.
    Values and their ranges: the same, vlmeval/eval_func/measure_eval_v1.2.py.
    Names of the data sets: U2-Bench (arXiv 2505.17779), Tables 5 and 7.
    Weights: gurenolun/Dolphin-ai-bench, table_fill/update_table_score_format.py.
    Case counts: U2-Bench (arXiv 2505.17779), Table 5.
"""

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

TASKS: Mapping[str, tuple[str, ...]] = {
    "DD": ("21", "23", "25", "28_1", "32", "40", "42", "44", "57", "66", "70", "74is_normal", "75"),
    "VRA": ("03", "10", "18", "28", "37", "50", "53", "69", "74is_visible", "anatomy"),
    "LL": ("04", "17", "23", "32", "64"),
    "OD": ("09", "13", "16", "18", "31", "37", "38", "47", "49", "50", "52", "53", "67"),
    "KD": ("48",),
    "CVE": ("18", "27", "31", "50", "57"),
    "RG": ("39",),
    "CG": ("10", "44"),
}
CLASSIFICATION, DETECTION, TEXT = ("DD", "VRA"), ("LL", "OD", "KD"), ("RG", "CG")
VALUE = "CVE"
ANATOMY = "anatomy"

_FOLDERS = {
    "disease_diagnosis": "DD", "view_recognition_and_assessment": "VRA", "view_recognition": "VRA",
    "lesion_localisation": "LL", "organ_detection": "OD", "keypoint_detection": "KD",
    "clinical_value_estimation": "CVE", "report_generation": "RG", "caption_generation": "CG",
}  # fmt: skip
# Only names that belong to exactly one data set are listed.
_NAMES = {
    "busi": 23, "kfgnet": 32, "gdph": 40, "lepset": 42, "covidblues": 44, "auitd": 70, "fetalplanes": 3, "fpus23": 10,
    "camus": 18, "acouslic": 50, "jnuifm": 53, "ddti": 4, "breastlesions": 64, "openkidney": 9, "echogenic": 13,
    "fallmud": 16, "hc18": 31, "ugra": 47, "ctrus": 49, "psfhs": 52, "unity": 48, "cubs": 27,
}  # fmt: skip
_BENIGN_OR_NOT = ("benign", "malignant")
_KNEE_VIEWS = (
    "anterior suprapatellar longitudinal",
    "anterior suprapatellar longitudinal with power Doppler",
    "anterior suprapatellar transverse in 30 degrees flexion",
    "anterior suprapatellar transverse in maximal flexion",
    "lateral longitudinal",
    "medial longitudinal",
    "posterior medial transverse",
)
OPTIONS: Mapping[tuple[str, str], tuple[str, ...]] = {
    ("DD", "21"): _BENIGN_OR_NOT,
    ("DD", "23"): ("normal", *_BENIGN_OR_NOT),
    ("DD", "25"): _BENIGN_OR_NOT,
    ("DD", "28_1"): ("Mild OA", "Moderate OA", "No OA", "Questionable OA", "Severe OA", "Total joint replacement"),
    ("DD", "32"): _BENIGN_OR_NOT,
    ("DD", "40"): ("2", "3", "4A", "4B", "4C", "5"),
    ("DD", "42"): ("non-pancreas cancer", "pancreas cancer"),
    ("DD", "44"): ("0", "1", "2", "3"),
    ("DD", "57"): ("0", "1"),
    ("DD", "66"): _BENIGN_OR_NOT,
    ("DD", "70"): ("normal thyroid", *_BENIGN_OR_NOT),
    ("DD", "74is_normal"): ("Appears abnormal", "Appears normal"),
    ("DD", "75"): ("infected", "noninfected"),
    ("VRA", "03"): ("fetal abdomen", "fetal femur", "fetal brain", "fetal thorax", "maternal cervix", "other"),
    ("VRA", "10"): ("hdvb", "hdvf", "huvb", "huvf"),
    ("VRA", "18"): ("2CH", "4CH"),
    ("VRA", "28"): tuple(f"{side} {view}" for side in ("left", "right") for view in _KNEE_VIEWS),
    ("VRA", "37"): ("Axial/Transverse Plane", "Coronal Plane", "Sagittal Plane"),
    ("VRA", "50"): ("none", "optimal", "suboptimal"),
    ("VRA", "53"): ("None", "OnlyFetalHead", "OnlySymphysisPubis", "SymphysisPubis+FetalHead"),
    ("VRA", "69"): ("external carotid", "left carotid", "right carotid"),
    ("VRA", "74is_visible"): ("Not-visible", "Visible"),
    ("VRA", ANATOMY): (
        "fetal", "thyroid", "heart", "lung", "liver", "carotid", "kidney", "prostate", "breast", "other",
    ),
}  # fmt: skip
# The keys of the value in the column "measurement". The official scorer leaves out set 31.
VALUE_KEYS: Mapping[str, str] = {"18": "EF", "27": "IMT", "50": "abdominal_circumference", "57": "fat value"}
# Set 10 (FPUS23) shows a phantom. Set 67 is simulated and shows neither a phantom nor a patient.
_PHANTOM, _SIMULATED = "10", "67"
UNITS: Mapping[str, str] = {"18": "%", "27": "mm", "31": "mm", "50": "mm", "57": "%"}

WEIGHTS: Mapping[str, float] = {
    "DD": 0.2, "VRA": 0.2, "LL": 0.07, "OD": 0.27, "KD": 0.07, "CVE": 0.07, "RG": 0.08, "CG": 0.04,
}  # fmt: skip
CASES: Mapping[str, int] = {
    "DD": 1411, "VRA": 1588, "LL": 503, "OD": 1918, "KD": 500, "CVE": 521, "RG": 600, "CG": 200,
}  # fmt: skip
EXACT_WEIGHTS: Mapping[str, float] = {task: cases / sum(CASES.values()) for task, cases in CASES.items()}
TOLERANCE = 0.1
_YES_NO = ("0", " 1")
_BENIGN_OR_NOT_SEEN = ("benign", " malignant")
# The ids are those of the metric scripts, in which knee grades are 28 and knee views 28_class.
# Leading blanks, additional options ("other", "fetal abdomen") and their order are as in the official extractor.
OPTIONS_SEEN: Mapping[str, tuple[str, ...]] = {
    "03": ("fetal abdomen", "fetal femur", "fetal brain", "maternal cervix", "fetal thorax", "other"),
    "10": ("hdvb", "hdvf", "huvb", "huvf"),
    "18": ("2CH", " 4CH"),
    "21": _BENIGN_OR_NOT_SEEN,
    "23": ("normal", " benign", " malignant"),
    "25": _BENIGN_OR_NOT_SEEN,
    "28": ("Mild OA", "Moderate OA", "No OA", "Questionable OA", "Severe OA", "Total joint replacement"),
    "28_class": (*OPTIONS["VRA", "28"], "other"),
    "32": _BENIGN_OR_NOT_SEEN,
    "37": ("Axial/Transverse Plane", "Coronal Plane", "Sagittal Plane"),
    "40": ("2", "3", "4A", "4B", "4C", "5"),
    "42": ("non-pancreas cancer", " pancreas cancer", "other"),
    "44": ("0", " 1", " 2", " 3"),
    "50": ("none", "optimal", "suboptimal", "fetal abdomen"),
    "53": ("None", "OnlyFetalHead", "OnlySymphysisPubis", "SymphysisPubis+FetalHead", "other"),
    "57": _YES_NO,
    "66": _BENIGN_OR_NOT_SEEN,
    "69": ("external carotid", "left carotid", "right carotid", "other"),
    "70": ("normal thyroid", " benign", " malignant"),
    "74is_normal": ("Appears abnormal", "Appears normal", "other"),
    "74is_visible": ("Not-visible", "Visible"),
    "75": ("infected", "noninfected", "other"),
    "anatomy": OPTIONS["VRA", ANATOMY],
}
INTEGER_SETS = ("44", "57")


def phantom(dataset: str) -> str | None:
    """Returns "yes" if a data set shows a phantom, "no" if it shows patients, and None if it shows neither."""
    return None if dataset == _SIMULATED else "yes" if dataset == _PHANTOM else "no"


def task_of_folder(name: str) -> str | None:
    """Returns the task that the name of a folder or file states; None if it states none.

    >>> task_of_folder("Lesion-Localization"), task_of_folder("CVE"), task_of_folder("other")
    ('LL', 'CVE', None)
    """
    plain = re.sub(r"[^a-z]+", "_", name.lower()).strip("_").replace("localization", "localisation")
    return plain.upper() if plain.upper() in TASKS else _FOLDERS.get(plain)


def set_of_name(task: str, name: str) -> str | None:
    """Returns the id of the data set that a name states, in the official aggregator's spelling; None if it states none.

    Only the number in the name and the task decide: knee grades are "28_1" if they are called 28 or 28_1, knee views
    are "28" if they are called 28 or 28_class, and "4", "04" and "04_DDTI" are the same data set.

    >>> set_of_name("DD", "28"), set_of_name("VRA", "28_class"), set_of_name("LL", "4"), set_of_name("CG", "FPUS23")
    ('28_1', '28', '04', '10')
    """
    number = re.search(r"(?<![0-9A-Za-z])(\d{1,2})(?:is_\w+)?(?![0-9A-Za-z])", name)
    if number is not None:
        return _by_number(task, int(number[1]))
    plain = re.sub(r"[^0-9a-z]+", "", name.lower())
    if ANATOMY in plain and ANATOMY in TASKS[task]:
        return ANATOMY
    known = [number for word, number in _NAMES.items() if word in plain]
    return _by_number(task, known[0]) if len(known) == 1 else None


def number_of_set(dataset: str) -> str:
    """Returns the number of a data set without the suffix of its id, e.g. "28" for "28_1"."""
    found = re.match(r"\d+", dataset)
    return found[0] if found else dataset


def _by_number(task: str, number: int) -> str | None:
    numbered = [each for each in TASKS[task] if each != ANATOMY]
    return next((each for each in numbered if int(number_of_set(each)) == number), None)


class Range(NamedTuple):
    """The range that scales a clinical value: `low` becomes 0 and `high` becomes 1, without clipping."""

    low: float
    high: float


RANGES: Mapping[str, Range] = {
    "18": Range(10.0, 75.0),
    "27": Range(0.3, 1.5),
    "50": Range(100.0, 400.0),
    "57": Range(0.0, 85.0),
}
# The official scorer leaves out set 31, so its range is the one that the official question names.
ALL_RANGES: Mapping[str, Range] = {**RANGES, "31": Range(100.0, 350.0)}


def options_seen(task: str, dataset: str, options: Sequence[str]) -> tuple[str, ...]:
    """Returns the options that the official extractor looks for in a reply; the question's where they are unknown."""
    scripts_id = {("DD", "28_1"): "28", ("VRA", "28"): "28_class"}.get((task, dataset), dataset)
    return OPTIONS_SEEN.get(scripts_id, tuple(options))
