"""Lists where CTLesionVQA's published tables contradict themselves and each other."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from medtune.benchmarks import published
from medtune.benchmarks.ctlesionvqa.scoring import averages
from medtune.eval.scoring.tables import Table

# Rounding alone may make a mean of values that are printed with 3 decimals differ from the printed mean by this much.
ROUNDING = 0.0005
_SLACK = 1e-9
# The same for accuracies in percent with 1 decimal that follow from rates with 1 decimal.
_PERCENT_ROUNDING = 0.15
_TABLE_4 = {
    "liver_lesion": "liver lesion existence",
    "kidney_tumor": "kidney tumor existence",
    "pancreatic_lesion": "pancreatic lesion existence",
}
_TABLE_4_NAMES = {"M3D-LLaMA2": "M3D-L2", "M3D-Phi3": "M3D-P3"}
Rows = list[tuple[str, str, str]]


def contradictions() -> Table:
    """Returns the list of contradictions: place, printed number, and the number that follows from other numbers."""
    numbers = published("ctlesionvqa")
    rows = [*_of_averages(numbers), *_of_repeats(numbers), *_of_table_4(numbers)]
    return Table("Contradictions in the published numbers", ("where", "printed", "against"), tuple(rows))


def table3_columns(table3: list[Mapping[str, Any]]) -> dict[str, list[tuple[str, str, float]]]:
    """Returns the (type, subtype, value) cells of Table 3 by column, averages included.

    The names of columns begin with "mc:" for multiple choice and "ft:" for free text.
    """
    found: dict[str, list[tuple[str, str, float]]] = {}
    for row in table3:
        cells = {"mc:Rand": row["random_multi_choice"]}
        cells |= {f"mc:{model}": value for model, value in row["multi_choice"].items()}
        cells |= {f"ft:{model}": value for model, value in row["free_text"].items()}
        for column, value in cells.items():
            if value is not None:
                found.setdefault(column, []).append((row["type"], row["subtype"], value))
    return found


def _of_averages(numbers: Mapping[str, Any]) -> Rows:
    found: Rows = []
    for column, cells in table3_columns(numbers["table3"]).items():
        again = averages([(type_, value) for type_, name, value in cells if "Average" not in name])
        means = {**again.by_category, "Total": again.total}
        for type_, name, value in cells:
            if "Average" in name and abs(means[type_] - value) > ROUNDING + _SLACK:
                where = f"Table 3, {column}, {type_} average"
                found.append((where, f"{value:.3f}", f"mean of its subtypes {means[type_]:.3f}"))
    return found


def _of_repeats(numbers: Mapping[str, Any]) -> Rows:
    """Compares Tables 10 and 11 with Table 3, and their widths with a model that always gives one answer."""
    found: Rows = []
    table3 = {(row["subtype"], kind): row[kind] for row in numbers["table3"] for kind in ("multi_choice", "free_text")}
    for name, kind, rates in (("table10", "multi_choice", "table12"), ("table11", "free_text", "table13")):
        constant = 0
        for row in numbers[name]:
            subtype = row["subtype"]
            for model, cell in row.items():
                if model != "subtype" and cell["accuracy"] != table3[subtype, kind][model]:
                    where = f"Table {name[5:]}, {model}, {subtype}"
                    found.append((where, f"{cell['accuracy']:.3f}", f"Table 3 {table3[subtype, kind][model]:.3f}"))
                if model != "subtype":
                    constant += _is_constant(numbers[rates], subtype, model)
        where = f"Table {name[5:]}, {constant} cells of models that always give one answer"
        found.append((where, "an interval with a width", "repeats of a constant answer have none"))
    return found


def _of_table_4(numbers: Mapping[str, Any]) -> Rows:
    """Returns where Table 4's accuracies contradict its own rates, and where Table 12's rates contradict Table 4's."""
    found: Rows = []
    rates = {(row["subtype"], row["metric"]): row for row in numbers["table12"]}
    shares = {name: _positive_share(numbers, subtype) for name, subtype in _TABLE_4.items()}
    for row in numbers["table4"]:
        model = _TABLE_4_NAMES.get(row["model"], row["model"])
        for name, subtype in _TABLE_4.items():
            sensitivity, specificity, accuracy = (row[f"{name}_{kind}"] for kind in ("sens", "spec", "acc"))
            implied = shares[name] * sensitivity + (1 - shares[name]) * specificity
            where = f"Table 4, {row['model']}, {subtype}"
            if abs(implied - accuracy) > _PERCENT_ROUNDING:
                against = f"{implied:.1f} from its rates and {100 * shares[name]:.1f} % positives"
                found.append((where, f"accuracy {accuracy:.1f}", against))
            other = [100 * rates[subtype, kind].get(model, -1) for kind in ("sensitivity", "specificity")]
            if min(other) >= 0 and max(abs(other[0] - sensitivity), abs(other[1] - specificity)) > _PERCENT_ROUNDING:
                printed = f"{sensitivity:.1f} / {specificity:.1f}"
                found.append((where, f"rates {printed}", f"Table 12 {other[0]:.1f} / {other[1]:.1f}"))
    return found


def _is_constant(rates: list[Mapping[str, Any]], subtype: str, model: str) -> bool:
    return sorted(row[model] for row in rates if row["subtype"] == subtype) == [0.0, 1.0]


def _positive_share(numbers: Mapping[str, Any], subtype: str) -> float:
    """Returns the test set's share of positives: the accuracy of a model that always gives one answer."""
    rates = {row["metric"]: row for row in numbers["table12"] if row["subtype"] == subtype}
    accuracy = next(row["multi_choice"] for row in numbers["table3"] if row["subtype"] == subtype)
    model = next(name for name in accuracy if _is_constant(list(rates.values()), subtype, name))
    share: float = accuracy[model]
    return share if rates["sensitivity"][model] == 1 else 1 - share
