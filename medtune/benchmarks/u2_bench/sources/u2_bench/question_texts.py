"""The question of each of U2-Bench's fifty scenarios, in our own words."""

from collections.abc import Mapping

_BREAST = "Is the lesion in this ultrasound image of the breast benign or malignant?"
_ASKED: Mapping[tuple[str, str], str] = {
    ("DD", "21"): _BREAST,
    ("DD", "23"): "Is this breast normal, or does it have a benign or a malignant lesion?",
    ("DD", "25"): "Is the lesion in this ultrasound image of the skin benign or malignant?",
    ("DD", "28_1"): "How severe is the osteoarthritis (OA) of this knee?",
    ("DD", "32"): "Is the nodule in this ultrasound image of the thyroid benign or malignant?",
    ("DD", "40"): "Which BI-RADS category does the lesion in this ultrasound image of the breast have?",
    ("DD", "42"): "Does this ultrasound image show cancer of the pancreas or another finding?",
    ("DD", "44"): "How severe are the changes of this lung, from 0 (none) to 3 (most severe)?",
    ("DD", "57"): "Is this liver fatty? 1 says that it is, 0 that it is not.",
    ("DD", "66"): _BREAST,
    ("DD", "70"): "Is this thyroid normal, or does it have a benign or a malignant nodule?",
    ("DD", "74is_normal"): "Do the organs in this ultrasound image of the pelvis appear normal or abnormal?",
    ("DD", "75"): "Does this ultrasound image of the ovary show polycystic ovary syndrome ('infected') or not?",
    ("VRA", "03"): "What does this image of an obstetric examination show?",
    ("VRA", "10"): "Is the fetus's head down (hd) or up (hu), and is it seen from its back (vb) or its front (vf)?",
    ("VRA", "18"): "Is this apical view of the heart a two-chamber (2CH) or a four-chamber view (4CH)?",
    ("VRA", "28"): "Which view of which knee is this?",
    ("VRA", "37"): "In which plane is the thyroid shown?",
    (
        "VRA",
        "50",
    ): "Is this plane fit for measuring the fetal abdominal circumference: optimal, suboptimal or none?",
    ("VRA", "53"): "Which of fetal head and pubic symphysis does this frame show?",
    ("VRA", "69"): "Which carotid artery is this?",
    ("VRA", "74is_visible"): "Is a polycystic ovary visible?",
    ("VRA", "anatomy"): "Which part of the body does this ultrasound image show?",
    ("CVE", "18"): "What is the ejection fraction of the left ventricle?",
    ("CVE", "27"): "How thick are intima and media of this carotid artery?",
    ("CVE", "31"): "How long is the circumference of the fetal head?",
    ("CVE", "50"): "How long is the circumference of the fetal abdomen?",
    ("CVE", "57"): "What share of this liver is fat?",
}


def question_text(task: str, dataset: str, *, structure: str | None, anatomy: str | None) -> str:
    """Returns the text of a question.

    Args:
        task: The task, for example "DD".
        dataset: The id of the data set.
        structure: The structure that is to be located; None if the table names none.
        anatomy: The organ that the image shows; None if the table names none.
    """
    if (task, dataset) in _ASKED:
        return _ASKED[task, dataset]
    of_organ = f" of the {anatomy}" if anatomy else ""
    if task in ("LL", "OD", "KD"):
        sought = structure or ("lesion" if task == "LL" else anatomy or "organ")
        return f"Where in this ultrasound image{of_organ} is the {sought}?"
    asked = "Write the findings of" if task == "RG" else "Describe in one sentence"
    return f"{asked} this ultrasound image{of_organ}."
