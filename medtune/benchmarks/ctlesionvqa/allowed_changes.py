"""Says which changes of a training scan leave the answer to a question true.

No scan is mirrored, because no question is about a patient with the liver on the left. A scan is not moved (which also
scales it) where the answer is a size, depends on a size (staging, resection, enlargement) or says where in the scan
something lies; counts of lesions and comparisons of two organs survive it. Hounsfield units are not changed where the
answer is a density or depends on one: fat, attenuation, phase, and cyst or tumor, which the release separates by a
threshold.

Source: the logic of each subtype is in arXiv 2505.18915, Table 5, for v1.
"""

from medtune.benchmarks.ctlesionvqa.subtypes import subtype
from medtune.data.media.augment import NO_CHANGES, Change
from medtune.data.types import Question

_MOVE: frozenset[Change] = frozenset({"move"})
_GREY: frozenset[Change] = frozenset({"grey"})
_BOTH = _MOVE | _GREY

SUBTYPES: dict[str, frozenset[Change]] = {
    "lesion volume measurement": _GREY,
    "organ HU measurement": _MOVE,
    "organ volume measurement": _GREY,
    "organ HU ratio": _MOVE,
    "tumor burden percentage": _BOTH,
    "colon lesion existence": _BOTH,
    "kidney cyst existence": _MOVE,
    "kidney lesion existence": _BOTH,
    "kidney tumor existence": _MOVE,
    "liver lesion existence": _BOTH,
    "pancreatic lesion existence": _BOTH,
    "PDAC existence": _MOVE,
    "PNET existence": _MOVE,
    "splenomegaly detection": _GREY,
    "adjacent organ": _BOTH,
    "inter-segment comparison": _BOTH,
    "kidney volume comparison": _BOTH,
    "largest lesion attenuation": _MOVE,
    "largest lesion diameter": _GREY,
    "largest lesion location": _GREY,
    "largest lesion slice": _GREY,
    "lesion count by location": _GREY,
    "lesion counting": _BOTH,
    "lesion outlier": _BOTH,
    "liver lesion clustering": _BOTH,
    "organ aggregation": _GREY,
    "organ enlargement": _GREY,
    "tumor organ HU difference": _MOVE,
    "bilateral kidney asymmetry": _BOTH,
    "multi-organ lesion burden comparison": _BOTH,
    "fatty liver": _MOVE,
    "lesion type classification": _MOVE,
    "pancreatic cyst resectability": _GREY,
    "pancreatic lesion resectability": _GREY,
    "pancreatic steatosis": _MOVE,
    "pancreatic tumor staging": _GREY,
    "PDAC vs PNET classification": _MOVE,
    "hepatic steatosis grading": _MOVE,
    "portal hypertension assessment": _GREY,
    "pseudocyst determination": _MOVE,
    "renal mass characterization": _MOVE,
    "splenomegaly grading": _GREY,
}


def allowed_changes(question: Question) -> frozenset[Change]:
    """Returns the changes that the question's subtype allows; an unknown subtype allows none."""
    return SUBTYPES.get(subtype(question.facets["subtype"]), NO_CHANGES)
