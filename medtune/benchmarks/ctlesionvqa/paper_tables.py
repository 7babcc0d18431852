"""The references of the paper, and its whole questions."""

from collections.abc import Sequence

from medtune.benchmarks import published
from medtune.benchmarks.ctlesionvqa.published_tables import FORMATS
from medtune.benchmarks.ctlesionvqa.scoring import subtype_of
from medtune.benchmarks.ctlesionvqa.subtypes import V1, is_v2
from medtune.data.types import Question
from medtune.eval.published import PublishedNumber

OURS = "ours"
REPEATS = 5
"""Source: CTLesionVQA (arXiv 2505.18915), Appendix F."""


def missing(questions: Sequence[Question]) -> str:
    """Returns how many subtypes of version 1 the questions are about, e.g. "about 4 of its 29 subtypes"; "" if all.

    Questions of version 2 are others about other scans, and stand in no column of the paper.
    """
    if any(map(is_v2, questions)):
        return "of version 2; the numbers of arXiv 2505.18915 are about version 1"
    subtypes = {subtype_of(question) for question in questions}
    names = [name for found in V1.values() for name in found]
    asked = sum(name in subtypes for name in names)
    return "" if asked == len(names) else f"about {asked} of its {len(names)} subtypes"


def references() -> Sequence[PublishedNumber]:
    """Returns the total averages over subtypes that Table 3 prints for each format; it has none over both formats."""
    (totals,) = [row for row in published("ctlesionvqa")["table3"] if row["type"] == "Total"]
    return [PublishedNumber(model, value, "format", name) for name in FORMATS for model, value in totals[name].items()]
