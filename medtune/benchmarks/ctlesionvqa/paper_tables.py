"""The paper's tables about repeats, 10 and 11, with ours beside them, its references and its whole questions."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from medtune.benchmarks import published
from medtune.benchmarks.ctlesionvqa.published_tables import FORMATS, TITLES
from medtune.benchmarks.ctlesionvqa.scoring import subtype_of
from medtune.benchmarks.ctlesionvqa.subtypes import V1, is_v2
from medtune.data.types import Interval, Question
from medtune.eval.benchmark import PublishedNumber
from medtune.eval.scoring.tables import Cell, Table, beside_published_columns, rank


@dataclass(frozen=True, slots=True)
class Repeated:
    """The mean of a value over repeated experiments."""

    mean: float  # The mean.
    ci95: Interval | None  # Its 95 % confidence interval; None for a single experiment.
    repeats: int


def repeated(values: Sequence[float]) -> Repeated:
    """Returns the mean of one value per repeat and Student's interval about it.

    The paper states "5 repeated experiments" and prints symmetric intervals without naming a method; Student's t
    interval is the usual one for this case. It does not cover the choice of patients, so read it together with the
    interval over patients. If all repeats agree, its width is 0, whereas the paper prints +-.007 for models
    that always give the same answer.

    >>> found = repeated([0.50, 0.51, 0.49, 0.50, 0.50])
    >>> round(found.mean, 3), found.ci95 and round(found.ci95.high, 4)
    (0.5, 0.5088)

    Source: CTLesionVQA (arXiv 2505.18915), Appendix F; Student 1908, doi:10.1093/biomet/6.1.1.
    """
    from scipy.stats import t

    if not values:
        raise ValueError("an interval over repeats needs at least one value, got none")
    n = len(values)
    mean = math.fsum(values) / n
    if n == 1:
        return Repeated(mean, None, n)
    variance = math.fsum((value - mean) ** 2 for value in values) / (n - 1)
    half = float(t.ppf(0.975, n - 1)) * math.sqrt(variance / n)
    return Repeated(mean, Interval(mean - half, mean + half), n)


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


def repeats_table(ours: Mapping[str, Repeated], format_: str, unlike_published: str) -> Sequence[Table]:
    """Returns Table 10 (multiple choice) or 11 (free text): accuracies with intervals over repeated experiments.

    Ours stand beside the paper's only with as many repeats.
    """
    number = {"multi_choice": 10, "free_text": 11}[format_]
    printed = published("ctlesionvqa")[f"table{number}"]
    models = [name for name in printed[0] if name != "subtype"]
    made: list[tuple[Cell, ...]] = []
    for row in printed:
        theirs = [row[model]["accuracy"] for model in models]
        found = ours.get(row["subtype"])
        printed_cells = [_with_interval(row[model]["accuracy"], Interval(*row[model]["ci95"])) for model in models]
        place = rank(found.mean, theirs) if found else None
        made.append((row["subtype"], *printed_cells, _with_interval(found.mean, found.ci95) if found else None, place))
    repeats = max((each.repeats for each in ours.values()), default=0)
    if repeats != REPEATS:
        unlike_published = unlike_published or f"the questions were asked {repeats} times, {REPEATS} in the paper"
    notes = (f"Ours: Student's interval over {repeats} repeats; the paper has {REPEATS} and names no method.",)
    table = Table(f"Table {number}, {TITLES[format_]}", ("subtype", *models, OURS, "rank"), tuple(made), notes)
    return beside_published_columns(table, ours=(OURS,), labels=1, unlike_published=unlike_published)


def _with_interval(value: float, interval: Interval | None) -> str:
    return f"{value:.3f} [{interval.low:.3f}, {interval.high:.3f}]" if interval else f"{value:.3f}"
