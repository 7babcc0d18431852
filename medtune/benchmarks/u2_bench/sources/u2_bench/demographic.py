"""Reads a person's sex and decade of age from the column "demographic" of U2-Bench's tables.

Source: DolphinAI/u2-bench, an_explanation_of_the_columns.tsv, which states that the column is JSON but not its keys.
"""

import math
import re

from medtune.benchmarks.facets import age_decade, sex
from medtune.benchmarks.u2_bench.sources.u2_bench.parse_cells import unpacked

_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+")
_AGE = re.compile(r"(\d+(?:\.\d+)?)\s*(y|yr|yrs|years?|years? old|m|mo|months?|)", re.I)
# A key with one of these words is about the fetus, not about the patient.
_UNBORN = frozenset({"gestational", "gestation", "fetal", "fetus"})


def facets(cell: str) -> dict[str, str]:
    """Returns the facets "sex" and "age" of the patient, each only if the cell states it.

    Their names and levels are those of CTLesionVQA.

    Example:
        >>> facets('{"gender": "female", "age": "061Y"}'), facets("{'gestational_age': 20}")
        ({'sex': 'F', 'age': '60-69'}, {})
    """
    held = unpacked(cell)
    first = held[0] if isinstance(held, list | tuple) and held else held
    found: dict[str, str] = {}
    for name, value in first.items() if isinstance(first, dict) else ():
        words = {word.lower() for word in _WORD.findall(str(name))}
        if words & _UNBORN:
            continue
        if words & {"sex", "gender"} and (said := sex(str(value))):
            found.setdefault("sex", said)
        if "age" in words and (decade := age_decade(_years(value))):
            found.setdefault("age", decade)
    return found


def _years(value: object) -> float:
    matched = _AGE.fullmatch(str(value).strip())
    if matched is None:
        return math.nan
    return float(matched[1]) / (12 if matched[2].lower().startswith("m") else 1)
