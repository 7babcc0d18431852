"""The question subtypes (29 in version 1, 42 in version 2), the kind of answer of each, and their other spellings."""

import re
from functools import lru_cache
from typing import Literal

from medtune.data.types import Question

AnswerType = Literal["numeric", "binary", "categorical"]

MEASUREMENT, RECOGNITION = "measurement", "recognition"
VISUAL, MEDICAL = "visual reasoning", "medical reasoning"
# In the order of the paper's Table 3.
V1: dict[str, tuple[str, ...]] = {
    MEASUREMENT: ("lesion volume measurement", "organ HU measurement", "organ volume measurement"),
    RECOGNITION: (
        "colon lesion existence", "kidney cyst existence", "kidney lesion existence", "kidney tumor existence",
        "liver lesion existence", "pancreatic lesion existence",
    ),
    VISUAL: (
        "adjacent organ", "inter-segment comparison", "kidney volume comparison", "largest lesion attenuation",
        "largest lesion diameter", "largest lesion location", "largest lesion slice", "lesion count by location",
        "lesion counting", "lesion outlier", "liver lesion clustering", "organ aggregation", "organ enlargement",
        "tumor organ HU difference",
    ),
    MEDICAL: (
        "fatty liver", "lesion type classification", "pancreatic cyst resectability", "pancreatic lesion resectability",
        "pancreatic steatosis", "pancreatic tumor staging",
    ),
}  # fmt: skip
V2_ONLY: dict[str, tuple[str, ...]] = {
    MEASUREMENT: ("organ HU ratio", "tumor burden percentage"),
    RECOGNITION: ("PDAC existence", "PNET existence", "splenomegaly detection"),
    VISUAL: ("bilateral kidney asymmetry", "multi-organ lesion burden comparison"),
    MEDICAL: (
        "PDAC vs PNET classification", "hepatic steatosis grading", "portal hypertension assessment",
        "pseudocyst determination", "renal mass characterization", "splenomegaly grading",
    ),
}  # fmt: skip
_NUMERIC = (
    *(*V1[MEASUREMENT], *V2_ONLY[MEASUREMENT]),
    "largest lesion diameter",
    "largest lesion slice",
    "lesion count by location",
    "lesion counting",
    "organ aggregation",
    "tumor organ HU difference",
)
_BINARY = (
    *(*V1[RECOGNITION], *V2_ONLY[RECOGNITION]),
    "lesion outlier",
    "organ enlargement",
    "pancreatic cyst resectability",
    "pancreatic steatosis",
    "portal hypertension assessment",
    "pseudocyst determination",
)


V2_TABLES = ("test_qa", "train_qa", "val_qa_pool")
"""The names of the tables of version 2, without their endings."""


def _key(name: str) -> str:
    return re.sub(r"[_\s]+", " ", name.strip()).casefold()


_KNOWN = {_key(name): name for table in (V1, V2_ONLY) for names in table.values() for name in names}
_CATEGORIES = {name: category for table in (V1, V2_ONLY) for category, names in table.items() for name in names}


@lru_cache(maxsize=1024)
def subtype(name: str) -> str:
    """Returns a subtype's name in the papers' spelling; an unknown name is returned unchanged.

    The name may differ from the papers' spelling in case, underscores and blanks.

    >>> subtype("Organ_HU_measurement"), subtype("something else")
    ('organ HU measurement', 'something else')
    """
    return _KNOWN.get(_key(name), name)


def category(name: str) -> str | None:
    """Returns the category of a subtype; None if the subtype is unknown."""
    return _CATEGORIES.get(subtype(name))


def answer_type(name: str) -> AnswerType:
    """Returns the kind of answer that a subtype's free-text questions ask for: "categorical" for an unknown subtype.

    Source: Schuture/DeepTumorVQA@1df7460 (branch v2), src/deeptumorvqa/eval/metrics.py (SUBTYPE_ANSWER_TYPE); for the
    subtypes of v1 the numeric ones are those that CTLesionVQA Table 3 marks with *.
    """
    known = subtype(name)
    if known in _NUMERIC:
        return "numeric"
    return "binary" if known in _BINARY else "categorical"


def is_v2(question: Question) -> bool:
    """Returns whether a question is of the release's version 2, whose rows bring the layout of their prompts."""
    return "layout" in question.printed
