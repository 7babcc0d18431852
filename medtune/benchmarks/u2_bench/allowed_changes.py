"""Says which changes of a training image leave the answer to a question of U2-Bench true."""

from __future__ import annotations

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
    # These ask how the fetus lies, or which side a carotid artery or knee is on.
    ("VRA", "10"): _GREY,
    ("VRA", "28"): _GREY,
    ("VRA", "69"): _GREY,
    # Echocardiographic views have a fixed orientation.
    ("VRA", "18"): frozenset({"move", "grey"}),
    # A view that was cut, or a landmark that left the image, is another answer.
    ("VRA", "50"): _STILL,
    ("VRA", "53"): _STILL,
    # Fat is read off the grey values.
    ("DD", "57"): frozenset({"mirror", "move"}),
    # Lengths stay where nothing is scaled.
    ("CVE", "27"): _STILL,
    ("CVE", "31"): _STILL,
    ("CVE", "50"): _STILL,
}


def allowed_changes(question: Question) -> frozenset[Change]:
    """Returns what the scenario allows; `medtune.data.media.augment` takes away what the words of a question forbid."""
    task, dataset = question.facets["task"], question.facets["dataset"]
    return _SETS.get((task, dataset), _TASKS.get(task, NO_CHANGES))
