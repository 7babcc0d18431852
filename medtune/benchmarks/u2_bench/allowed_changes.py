"""Says which changes of a training image leave the answer to a question of U2-Bench true."""

from collections.abc import Mapping

from medtune.data.media.augment import ALL_CHANGES, NO_CHANGES, Change
from medtune.data.types import Question

_GREY: frozenset[Change] = frozenset({"grey"})
_STILL: frozenset[Change] = frozenset({"mirror", "grey"})
_TASKS: Mapping[str, frozenset[Change]] = {
    "DD": ALL_CHANGES,
    "VRA": ALL_CHANGES,
    "LL": _GREY,
    "OD": _GREY,
    "KD": _GREY,
    "RG": _GREY,
    "CG": _GREY,
}
_SETS: Mapping[tuple[str, str], frozenset[Change]] = {
    # These questions ask how the fetus lies, or on which side a carotid artery or knee is.
    ("VRA", "10"): _GREY,
    ("VRA", "28"): _GREY,
    ("VRA", "69"): _GREY,
    # Echocardiographic views have a fixed orientation.
    ("VRA", "18"): frozenset({"move", "grey"}),
    # If a view is cut or a landmark leaves the image, the answer changes.
    ("VRA", "50"): _STILL,
    ("VRA", "53"): _STILL,
    # The amount of fat is judged by the grey values.
    ("DD", "57"): frozenset({"mirror", "move"}),
    # Lengths do not change if nothing is scaled.
    ("CVE", "27"): _STILL,
    ("CVE", "31"): _STILL,
    ("CVE", "50"): _STILL,
}


def allowed_changes(question: Question) -> frozenset[Change]:
    """Returns the changes that the question's scenario (task and data set) allows.

    `medtune.data.media.augment` further excludes the changes that the words of a question forbid.
    """
    task, dataset = question.facets["task"], question.facets["dataset"]
    return _SETS.get((task, dataset), _TASKS.get(task, NO_CHANGES))
