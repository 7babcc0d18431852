"""The constants of U2-Bench's scores: weights, value ranges, and the options that its own extractor searches for.

Source:
    Weights: gurenolun/Dolphin-ai-bench, table_fill/update_table_score_format.py.
    Ranges: dolphin-sound/u2-bench-evalkit, vlmeval/eval_func/measure_eval_v1.2.py.
    Case counts: U2-Bench (arXiv 2505.17779), Table 5.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from medtune.benchmarks.u2_bench.tasks_and_sets import ANATOMY, OPTIONS


class Range(NamedTuple):
    """The range that scales a clinical value: `low` becomes 0 and `high` becomes 1, without clipping."""

    low: float
    high: float


WEIGHTS: Mapping[str, float] = {
    "DD": 0.2, "VRA": 0.2, "LL": 0.07, "OD": 0.27, "KD": 0.07, "CVE": 0.07, "RG": 0.08, "CG": 0.04,
}  # fmt: skip
CASES: Mapping[str, int] = {
    "DD": 1411, "VRA": 1588, "LL": 503, "OD": 1918, "KD": 500, "CVE": 521, "RG": 600, "CG": 200,
}  # fmt: skip

RANGES: Mapping[str, Range] = {
    "18": Range(10.0, 75.0),
    "27": Range(0.3, 1.5),
    "50": Range(100.0, 400.0),
    "57": Range(0.0, 85.0),
}
# The official scorer leaves out set 31, so its range is the one that the official question names.
ALL_RANGES: Mapping[str, Range] = {**RANGES, "31": Range(100.0, 350.0)}
TOLERANCE = 0.1

_YES_NO = ("0", " 1")
_BENIGN_OR_NOT = ("benign", " malignant")
# The ids are those of the metric scripts, in which knee grades are 28 and knee views 28_class.
# Leading blanks, additional options ("other", "fetal abdomen") and their order are as in the official extractor.
OPTIONS_SEEN: Mapping[str, tuple[str, ...]] = {
    "03": ("fetal abdomen", "fetal femur", "fetal brain", "maternal cervix", "fetal thorax", "other"),
    "10": ("hdvb", "hdvf", "huvb", "huvf"),
    "18": ("2CH", " 4CH"),
    "21": _BENIGN_OR_NOT,
    "23": ("normal", " benign", " malignant"),
    "25": _BENIGN_OR_NOT,
    "28": ("Mild OA", "Moderate OA", "No OA", "Questionable OA", "Severe OA", "Total joint replacement"),
    "28_class": (*OPTIONS["VRA", "28"], "other"),
    "32": _BENIGN_OR_NOT,
    "37": ("Axial/Transverse Plane", "Coronal Plane", "Sagittal Plane"),
    "40": ("2", "3", "4A", "4B", "4C", "5"),
    "42": ("non-pancreas cancer", " pancreas cancer", "other"),
    "44": ("0", " 1", " 2", " 3"),
    "50": ("none", "optimal", "suboptimal", "fetal abdomen"),
    "53": ("None", "OnlyFetalHead", "OnlySymphysisPubis", "SymphysisPubis+FetalHead", "other"),
    "57": _YES_NO,
    "66": _BENIGN_OR_NOT,
    "69": ("external carotid", "left carotid", "right carotid", "other"),
    "70": ("normal thyroid", " benign", " malignant"),
    "74is_normal": ("Appears abnormal", "Appears normal", "other"),
    "74is_visible": ("Not-visible", "Visible"),
    "75": ("infected", "noninfected", "other"),
    "anatomy": OPTIONS["VRA", ANATOMY],
}
INTEGER_SETS = ("44", "57")


def options_seen(task: str, dataset: str, options: Sequence[str]) -> tuple[str, ...]:
    """Returns the options that the official extractor looks for in a reply.

    Args:
        task: The task, "DD" or "VRA". Set 28 holds knee grades in the first and knee views in the second.
        dataset: The id of the data set in the official aggregator's spelling.
        options: The question's options, which are returned if those of the extractor are not known.
    """
    scripts_id = {("DD", "28_1"): "28", ("VRA", "28"): "28_class"}.get((task, dataset), dataset)
    return OPTIONS_SEEN.get(scripts_id, tuple(options))
