"""The paper's tables of results with the measures of their cells: Tables 3, 4 and 10 to 13."""

from collections.abc import Mapping, Sequence
from typing import Any

from medtune.benchmarks import published
from medtune.benchmarks.ctlesionvqa import scoring
from medtune.benchmarks.ctlesionvqa.scoring import cell_of
from medtune.benchmarks.ctlesionvqa.subtypes import V1
from medtune.benchmarks.ctlesionvqa.v2_board import v2_board
from medtune.data.types import Interval
from medtune.eval.metric import every_question
from medtune.eval.studies.measures import QuestionPart, of_metric, percentage, share
from medtune.eval.studies.published import Answers, CellValue, Measure, PublishedColumn, PublishedTable

TITLES = {"multi_choice": "multiple choice", "free_text": "free text"}
FORMATS = tuple(TITLES)
MULTIPLE_CHOICE = "multi_choice"
RATES_OF = {"multi_choice": "table12", "free_text": "table13"}
REPEATED = {"multi_choice": "table10", "free_text": "table11"}
GUESSING = "random guessing"
TYPES = {
    "Measurement": "measurement",
    "Recognition": "recognition",
    "Visual Reasoning": "visual reasoning",
    "Medical Reasoning": "medical reasoning",
}
_SOURCE = "CTLesionVQA, arXiv 2505.18915"
_LESIONS = {
    "liver_lesion": "liver lesion existence",
    "kidney_tumor": "kidney tumor existence",
    "pancreatic_lesion": "pancreatic lesion existence",
}
_RATES = ("sens", "spec", "acc")
_PERCENT = 100.0
_AVERAGES = "Averages are unweighted means over subtypes, as in the paper; ours are there where no subtype is missing."
_COMPUTED = "published values are the sum of the printed sensitivity and specificity, minus 1, of"
_NOT_PRINTED = "The figure's numbers are not in the text of the paper."
_DIFFERS = (
    "Five accuracies of Table 10 and one of Table 11 differ from Table 3; in all of them the sensitivity and the "
    "specificity of Tables 12 and 13 agree with Table 3."
)


def published_tables() -> Sequence[PublishedTable]:
    """Returns Tables 3 (in two halves), 4, 10 to 13, Figures 4 and 6, Youden's index of recognition, and v2's board."""
    return (
        *map(_table3, FORMATS),
        _table4(),
        _figure4(),
        _figure6(),
        _youden_of_recognition(),
        *(_accuracies(name, format_) for format_, name in REPEATED.items()),
        *(_rates(name, format_) for format_, name in RATES_OF.items()),
        v2_board(),
    )


def _table3(format_: str) -> PublishedTable:
    columns, cells = list[PublishedColumn](), dict[str, dict[str, float]]()
    for row in published("ctlesionvqa")["table3"]:
        name = f"{row['type']}, average" if row["is_average"] else str(row["subtype"])
        columns.append(PublishedColumn(name, _mean(row, format_), ("final",), printed_interval=share))
        # As in the paper, only options are guessed: numbers and phrases have nothing to choose from.
        guessing = {GUESSING: row["random_multi_choice"]} if format_ == "multi_choice" else {}
        for model, value in {**guessing, **row[format_]}.items():
            cells.setdefault(model, {})[name] = value
    notes = (_AVERAGES, "Numbers in free text by mean relative accuracy (strict; right for 0 only if 0).", _DIFFERS)
    return PublishedTable(
        f"table3_{format_}", f"Table 3, {TITLES[format_]}", _where(3), tuple(columns), cells, notes,
        unranked=frozenset({GUESSING}), is_turned=True,
    )  # fmt: skip


def _mean(row: Mapping[str, Any], format_: str) -> Measure:
    if not row["is_average"]:
        return of_metric(scoring.question_mean(), "final", part=_about(format_, (str(row["subtype"]),)))
    whole = V1[TYPES[row["type"]]] if row["type"] in TYPES else tuple(name for names in V1.values() for name in names)
    return _whole_mean(format_, whole)


def _whole_mean(format_: str, subtypes: Sequence[str]) -> Measure:
    part = _about(format_, subtypes)
    of_all = of_metric(scoring.subtype_mean(), "final", part=part)

    def measure(answers: Answers) -> CellValue | None:
        asked = answers["final"].part("image", *part) if "final" in answers else ()
        return of_all(answers) if len({cell_of(row.question) for row in asked}) == len(subtypes) else None

    return measure


def _about(format_: str, subtypes: Sequence[str]) -> QuestionPart:
    return QuestionPart(cell_of, {(format_, subtype) for subtype in subtypes})


def _table4() -> PublishedTable:
    columns = tuple(
        PublishedColumn(
            f"{lesion}_{rate}",
            _rate(rate, "multi_choice", subtype, scale=100.0),
            ("final",),
            printed_interval=percentage,
            printed_digits=1,
        )
        for lesion, subtype in _LESIONS.items()
        for rate in _RATES
    )
    cells = {
        row["model"]: {each.name: row[each.name] for each in columns} for row in published("ctlesionvqa")["table4"]
    }
    notes = (
        "The row nnUNet (oracle) is not about the benchmark's test set: its numbers are the pooled counts of Table 8's "
        "external data.",
        "Unread answers of ours are wrong.",
    )
    title = "Table 4, lesion recognition, multiple choice, percent"
    ranked = tuple(each.name for each in columns if each.name.endswith("_acc"))
    return PublishedTable("table4", title, _where(4), columns, cells, notes, ranked)


def _figure4() -> PublishedTable:
    columns = tuple(
        PublishedColumn(f"{title}: {type_}", _whole_mean(format_, V1[type_]), ("final",))
        for format_, title in TITLES.items()
        for type_ in TYPES.values()
    )
    title = "CTLesionVQA: trained with and without measurement and recognition"
    return PublishedTable(
        "figure4", title, f"{_SOURCE}, Figure 4", columns, {}, (_NOT_PRINTED, _AVERAGES), drawn_as="dots"
    )


def _figure6() -> PublishedTable:
    columns = tuple(
        PublishedColumn(subtype, _youden("multi_choice", subtype), ("final",)) for subtype in _LESIONS.values()
    )
    cells = {
        row["model"]: {
            subtype: _index(row[f"{lesion}_sens"] / _PERCENT, row[f"{lesion}_spec"] / _PERCENT)
            for lesion, subtype in _LESIONS.items()
        }
        for row in published("ctlesionvqa")["table4"]
    }
    title = "Youden's index of lesion recognition, multiple choice"
    notes = (f"The figure's numbers are not in the text of the paper: {_COMPUTED} Table 4.",)
    return PublishedTable("figure6", title, f"{_SOURCE}, Figure 6", columns, cells, notes, drawn_as="dots")


def _youden_of_recognition() -> PublishedTable:
    columns, cells = list[PublishedColumn](), dict[str, dict[str, float]]()
    for format_, table in RATES_OF.items():
        rates: dict[str, dict[str, Mapping[str, float]]] = {}
        for row in published("ctlesionvqa")[table]:
            rates.setdefault(row["subtype"], {})[row["metric"]] = row
        for subtype, found in rates.items():
            name = f"{TITLES[format_]}: {subtype}"
            columns.append(PublishedColumn(name, _youden(format_, subtype), ("final",)))
            hits, rejections = found["sensitivity"], found["specificity"]
            for model in [key for key in hits if key not in ("subtype", "metric")]:
                cells.setdefault(model, {})[name] = _index(hits[model], rejections[model])
    return PublishedTable(
        "youden", "Youden's index of the subtypes of recognition", f"{_SOURCE}, Tables 12 and 13", tuple(columns),
        cells, (f"It is not printed: {_COMPUTED} Tables 12 and 13.",), drawn_as="dots",
    )  # fmt: skip


def _youden(format_: str, subtype: str) -> Measure:
    return of_metric(scoring.youden(), "final", part=_about(format_, (subtype,)))


def _index(sensitivity: float, specificity: float) -> float:
    """Returns Youden's index of two printed rates, to the three decimals that they have."""
    return round(sensitivity + specificity - 1, 3)


def _rate(rate: str, format_: str, subtype: str, *, scale: float = 1.0) -> Measure:
    covers = {"sens": scoring.is_positive, "spec": scoring.is_negative, "acc": every_question}[rate]
    part = _about(format_, (subtype,))
    return of_metric(scoring.right_share(), "final", covers=covers, part=part, scale=scale)


def _rates(name: str, format_: str) -> PublishedTable:
    rows = published("ctlesionvqa")[name]
    columns = tuple(
        PublishedColumn(
            f"{row['subtype']}, {row['metric']}",
            _rate(row["metric"][:4], format_, row["subtype"]),
            ("final",),
            printed_interval=share,
        )
        for row in rows
    )
    models = [model for model in rows[0] if model not in ("subtype", "metric")]
    cells = {model: {f"{row['subtype']}, {row['metric']}": row[model] for row in rows} for model in models}
    number = name.removeprefix("table")
    notes = ("Unread answers of ours are wrong on either side.",)
    title = f"Table {number}, {TITLES[format_]}"
    return PublishedTable(name, title, _where(number), columns, cells, notes, is_turned=True)


def _accuracies(name: str, format_: str) -> PublishedTable:
    rows = published("ctlesionvqa")[name]
    columns = tuple(
        PublishedColumn(row["subtype"], _rate("acc", format_, row["subtype"]), ("final",), printed_interval=share)
        for row in rows
    )
    models = [model for model in rows[0] if model != "subtype"]
    cells = {model: {row["subtype"]: row[model]["accuracy"] for row in rows} for model in models}
    intervals = {(model, row["subtype"]): Interval(*row[model]["ci95"]) for model in models for row in rows}
    notes = ("The paper's intervals are over five repeated experiments; it names no method.", _DIFFERS)
    number = name.removeprefix("table")
    return PublishedTable(
        name, f"Table {number}, {TITLES[format_]}", _where(number), columns, cells, notes, is_turned=True,
        across="subtype", printed_intervals=intervals,
    )  # fmt: skip


def _where(number: object) -> str:
    return f"{_SOURCE}, Table {number}"
