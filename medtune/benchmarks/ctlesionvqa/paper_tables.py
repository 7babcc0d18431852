"""CTLesionVQA's own tables with our numbers beside the paper's: Tables 3, 4 and 10 to 13."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from medtune.benchmarks import published
from medtune.benchmarks.ctlesionvqa import yes_no_table
from medtune.benchmarks.ctlesionvqa.scoring import averages, detection_table, mean_chance, mean_score, subtype_of
from medtune.benchmarks.ctlesionvqa.subtypes import MEASUREMENT, MEDICAL, RECOGNITION, V1, VISUAL, is_v2
from medtune.data.types import Interval, Question
from medtune.eval.benchmark import Reference
from medtune.eval.metric import ParsedReply
from medtune.eval.scoring.tables import Cell, Table, beside_published, beside_published_columns, rank


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
FORMATS = {"multi_choice": "multiple choice", "free_text": "free text"}
_TYPES = {
    "Measurement": MEASUREMENT,
    "Recognition": RECOGNITION,
    "Visual Reasoning": VISUAL,
    "Medical Reasoning": MEDICAL,
}
_TABLE_4 = {
    "liver_lesion": "liver lesion existence",
    "kidney_tumor": "kidney tumor existence",
    "pancreatic_lesion": "pancreatic lesion existence",
}
Cells = Mapping[tuple[str, str], Sequence[ParsedReply]]


def table3(cells: Cells, format_: str, unlike_published: str) -> Sequence[Table]:
    """Returns the half of Table 3 for one format, with our model in the last column.

    There is an average of ours only where all its subtypes were asked about. If `unlike_published` says why our
    numbers must not stand beside the published ones, they have a table of their own.
    """
    means = {
        name: mean
        for (kind, name), found in cells.items()
        if kind == format_ and (mean := mean_score(found)) is not None
    }
    printed = published("ctlesionvqa")["table3"]
    models = [*printed[0][format_]]
    # As in the paper, only options are guessed: numbers and phrases have nothing to choose from.
    is_choice = format_ == "multi_choice"
    chances = {name: mean_chance(cells[format_, name]) for name in means} if is_choice else {}
    made: list[tuple[Cell, ...]] = []
    for row, value, chance in zip(printed, _column(means, printed), _column(chances, printed), strict=True):
        random = [row["random_multi_choice"]] if is_choice else []
        theirs = [row[format_][model] for model in models]
        place = rank(value, theirs) if value is not None else None
        made.append((row["type"], row["subtype"], *random, *theirs, *([chance] if is_choice else []), value, place))
    number = sum(name in means for names in V1.values() for name in names), sum(map(len, V1.values()))
    notes = (
        f"Ours has {number[0]} of {number[1]} subtypes, and an average where none of its subtypes is missing; as in "
        "the paper it is unweighted. Free-text numbers by mean relative accuracy (strict; right for 0 only if 0).",
        *([] if unlike_published else [f"Rank among {len(models) + 1} models."]),
    )
    random_column = ("random",) if format_ == "multi_choice" else ()
    ours = ("guessing", OURS) if is_choice else (OURS,)
    table = Table(
        f"Table 3, {FORMATS[format_]}", ("type", "subtype", *random_column, *models, *ours, "rank"), tuple(made), notes
    )
    return beside_published_columns(table, ours=ours, labels=2, unlike_published=unlike_published)


def _column(values: Mapping[str, float], printed: Sequence[Mapping[str, Any]]) -> list[float | None]:
    """Returns the cells of a column of Table 3 by its subtypes; an average stands where none of them is missing."""
    known = [(type_, values[name]) for type_, names in V1.items() for name in names if name in values]
    if not known:
        return [None] * len(printed)
    found, whole = averages(known), {type_ for type_, names in V1.items() if values.keys() >= set(names)}
    cells: list[float | None] = []
    for row in printed:
        type_ = _TYPES.get(row["type"])
        if not row["is_average"]:
            cells.append(values.get(row["subtype"]))
        elif type_:
            cells.append(found.by_category[type_] if type_ in whole else None)
        else:
            cells.append(found.total if len(whole) == len(V1) else None)
    return cells


def missing(questions: Sequence[Question]) -> str:
    """Returns how many subtypes of version 1 the questions are about, e.g. "about 4 of its 29 subtypes"; "" if all.

    Questions of version 2 are others about other scans, and stand in no column of the paper.
    """
    if any(map(is_v2, questions)):
        return "of version 2; the paper's numbers are about version 1"
    subtypes = {subtype_of(question) for question in questions}
    names = [name for found in V1.values() for name in found]
    asked = sum(name in subtypes for name in names)
    return "" if asked == len(names) else f"about {asked} of its {len(names)} subtypes"


def references() -> Sequence[Reference]:
    """Returns the total averages over subtypes that Table 3 prints for each format; it has none over both formats."""
    (totals,) = [row for row in published("ctlesionvqa")["table3"] if row["type"] == "Total"]
    return [Reference(model, value, "format", name) for name in FORMATS for model, value in totals[name].items()]


def table4(cells: Cells, unlike_published: str) -> Sequence[Table]:
    """Returns Table 4 (multiple choice, in percent) with our model in the last row and its rank by accuracy."""
    printed = published("ctlesionvqa")["table4"]
    keys = [f"{name}_{kind}" for name in _TABLE_4 for kind in ("sens", "spec", "acc")]
    made: list[tuple[Cell, ...]] = [(row["model"], *(row[key] for key in keys)) for row in printed]
    ours: list[Cell] = [OURS]
    places = []
    for name, subtype in _TABLE_4.items():
        found = cells.get(("multi_choice", subtype), [])
        detected = yes_no_table.wrong(detection_table(found))
        accuracy = _percent(mean_score(found))
        ours += [_percent(detected.sensitivity), _percent(detected.specificity), accuracy]
        if accuracy is not None:
            place = rank(accuracy, [row[f"{name}_acc"] for row in printed])
            places.append(f"{name.replace('_', ' ')} {place}")
    ranks = (
        [] if unlike_published else [f"Rank of ours by accuracy among {len(printed) + 1}: {', '.join(places) or '-'}."]
    )
    notes = (*ranks, "Unread answers of ours are wrong.")
    columns = ("model", *(key.replace("_", " ") for key in keys))
    table = Table("Table 4, lesion recognition, multiple choice, percent", columns, tuple(made), notes, digits=1)
    return beside_published(table, [tuple(ours)] if places else [], unlike_published=unlike_published)


def rates(cells: Cells, format_: str, unlike_published: str) -> Sequence[Table]:
    """Returns Table 12 (multiple choice) or 13 (free text): sensitivity and specificity of the recognition subtypes."""
    number = {"multi_choice": 12, "free_text": 13}[format_]
    printed = published("ctlesionvqa")[f"table{number}"]
    models = [name for name in printed[0] if name not in ("subtype", "metric")]
    made: list[tuple[Cell, ...]] = []
    for row in printed:
        detected = yes_no_table.wrong(detection_table(cells.get((format_, row["subtype"]), [])))
        value = detected.sensitivity if row["metric"] == "sensitivity" else detected.specificity
        theirs = [row[model] for model in models]
        made.append((row["subtype"], row["metric"], *theirs, value, None if value is None else rank(value, theirs)))
    title = f"Table {number}, {FORMATS[format_]}"
    notes = ("Unread answers of ours are wrong on either side.",)
    table = Table(title, ("subtype", "rate", *models, OURS, "rank"), tuple(made), notes)
    return beside_published_columns(table, ours=(OURS,), labels=2, unlike_published=unlike_published)


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
    table = Table(f"Table {number}, {FORMATS[format_]}", ("subtype", *models, OURS, "rank"), tuple(made), notes)
    return beside_published_columns(table, ours=(OURS,), labels=1, unlike_published=unlike_published)


def _percent(share: float | None) -> float | None:
    return None if share is None else 100 * share


def _with_interval(value: float, interval: Interval | None) -> str:
    return f"{value:.3f} [{interval.low:.3f}, {interval.high:.3f}]" if interval else f"{value:.3f}"
