"""Parses the cells of U2-Bench's tables: lists, dicts, boxes, keypoints and values, in JSON or as Python prints them.

Source: dolphin-sound/u2-bench-evalkit, vlmeval/eval_func and vlmeval/dataset/image_seg.py: the first value of the first
dict counts, boxes are [cx, cy, w, h] in shares of the image, and a table without a point says "not visible".

Reads a person's sex and decade of age from the column "demographic" of U2-Bench's tables.

Source: DolphinAI/u2-bench, an_explanation_of_the_columns.tsv, which states that the column is JSON but not its keys.
"""

import ast
import math
import re
from typing import NamedTuple

from medtune.benchmarks.facets import age_decade, sex
from medtune.benchmarks.u2_bench.tasks_and_sets import VALUE_KEYS
from medtune.data.json_text import json_value
from medtune.data.media.masks import NOT_VISIBLE, cell_of_point

_NOTHING = ("", "nan", "none", "null", "n/a", "na", "[]", "{}", "[{}]")
# The kit reads its tables with pandas, which takes these cells as empty and prints them as "nan".
_PANDAS_EMPTY = frozenset(
    ("", "#N/A", "#NA", "<NA>", "N/A", "NA", "NULL", "NaN", "-NaN", "-nan", "None", "n/a", "nan", "null")
)
_NUMBER = re.compile(r"\s*([-+]?\d*\.?\d+(?:[eE][-+]?\d+)?)\s*[%\w]*\s*")
_LETTER = re.compile(r"^\s*\(?[A-Z][.):]\s+")

_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+")
_AGE = re.compile(r"(\d+(?:\.\d+)?)\s*(y|yr|yrs|years?|years? old|m|mo|months?|)", re.I)
# A key with one of these words is about the fetus, not about the patient.
_UNBORN = frozenset({"gestational", "gestation", "fetal", "fetus"})


class StructurePlace(NamedTuple):
    structure: str | None  # The structure's name; None if the cell does not state it.
    position: str  # The one of nine parts of the image in which the structure lies, or "not visible".
    # The share of the image's area that the structure's box fills, 0 to 1; None if there is no box.
    share: float | None = None


def unpacked(cell: str) -> object:
    """Returns the value of a cell that is written in JSON or as Python prints it; else the text itself."""
    for read in (json_value, ast.literal_eval):
        try:
            return read(cell)
        except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
            continue
    return cell


def is_nothing(cell: str) -> bool:
    """Returns whether a cell is empty, in any of the ways in which the tables write an empty cell."""
    return cell.strip().lower() in _NOTHING


def printed(cell: str) -> str:
    """Returns a cell as the evaluation kit prints it into its prompts: unchanged, or "nan" for an empty cell.

    >>> printed("Fetal_Head "), printed(""), printed("NULL")
    ('Fetal_Head ', 'nan', 'nan')
    """
    return "nan" if cell in _PANDAS_EMPTY else cell


def printed_keypoint(cell: str) -> str | None:
    """Returns the name of the keypoint that the evaluation kit's prompt asks for; None if the kit finds none.

    The kit reads only JSON. If the cell holds a list of dicts, on which the kit fails, the first dict counts here.

    >>> [printed_keypoint(cell) for cell in ('{"mv_inner": [0.1, 0.2]}', "{'mv_inner': [0.1, 0.2]}", "")]
    ['mv_inner', None, None]
    """
    try:
        found = json_value(cell)
    except (ValueError, RecursionError):
        return None
    first = found[0] if isinstance(found, list) and found else found
    return next(iter(first), None) if isinstance(first, dict) else None


def label(cell: str) -> str:
    """Returns a class label without the brackets, quotes or dict around it, and a whole number without ".0".

    >>> [label(cell) for cell in ("['benign']", '{"Anatomy": "Breast"}', "1.0", " None ", "4A")]
    ['benign', 'Breast', '1', 'None', '4A']
    """
    found = unpacked(cell.strip())
    while isinstance(found, list | tuple | dict) and found:
        found = next(iter(found.values() if isinstance(found, dict) else found))
    if isinstance(found, float) and found.is_integer():
        found = int(found)
    # "None" is a class of set 53.
    return str(found) if isinstance(found, str | int) and not isinstance(found, bool) else cell.strip()


def options(cell: str) -> tuple[str, ...]:
    """Returns the options of a cell; () if it holds none.

    The cell may hold a list, a dict by letter, or a text in which the options are separated by ";", "|" or commas.

    >>> options("['benign', 'malignant']"), options("A. benign; B. malignant"), options("2CH, 4CH"), options("nan")
    (('benign', 'malignant'), ('benign', 'malignant'), ('2CH', '4CH'), ())
    """
    if is_nothing(cell):
        return ()
    found = unpacked(cell)
    if isinstance(found, dict):
        parts = [str(value) for value in found.values()]
    elif isinstance(found, list | tuple):
        parts = [str(value) for value in found]
    else:
        mark = next((mark for mark in ("\n", ";", "|", ",") if mark in cell), ",")
        parts = [_LETTER.sub("", part) for part in cell.split(mark)]
    return tuple(part.strip().strip("'\"()") for part in parts if part.strip())


def place(cell: str) -> StructurePlace:
    """Returns the place of the first box or keypoint of a cell."""
    if is_nothing(cell):
        return StructurePlace(None, NOT_VISIBLE)
    found = unpacked(cell)
    first = found[0] if isinstance(found, list) and found else found
    if not isinstance(first, dict) or not first:
        raise ValueError(f"wanted {{structure: [x, y, ...]}}, got {_short(cell)}")
    name, point = next(iter(first.items()))
    if point is None or (isinstance(point, float) and math.isnan(point)) or point == []:
        return StructurePlace(str(name), NOT_VISIBLE)
    if not isinstance(point, list | tuple) or len(point) < 2 or not all(_is_share(side) for side in point[:2]):
        raise ValueError(f"wanted x and y from 0 to 1, got {_short(cell)}")
    has_box = len(point) == 4 and all(_is_share(side) and side > 0 for side in point[2:])
    share = float(point[2]) * float(point[3]) if has_box else None
    return StructurePlace(str(name), cell_of_point(float(point[0]), float(point[1])), share)


def value(cell: str, dataset: str) -> float:
    """Returns the clinical value of a cell: the one under the data set's key, the only number, or a list's first."""
    found = unpacked(cell)
    first = found[0] if isinstance(found, list | tuple) and found else found
    if isinstance(first, dict):
        numbers = {str(name): each for name, each in first.items() if not _says_pixels(str(name))}
        key = VALUE_KEYS.get(dataset)
        alike = [name for name in numbers if key and _folded_name(name) == _folded_name(key)]
        first = numbers[alike[0]] if alike else next(iter(numbers.values())) if len(numbers) == 1 else None
    if isinstance(first, list | tuple) and first:
        first = first[0]
    matched = _NUMBER.fullmatch(str(first))
    number = float(matched[1]) if matched and not isinstance(first, bool) else math.nan
    if not math.isfinite(number):
        raise ValueError(f"wanted a value, got {_short(cell)}")
    return number


def pixel_size_mm(cell: str) -> float | None:
    """Returns the size of a pixel in mm that a cell with clinical values states; None if it states none."""
    found = unpacked(cell)
    first = found[0] if isinstance(found, list | tuple) and found else found
    sizes = [each for name, each in first.items() if _says_pixels(str(name))] if isinstance(first, dict) else []
    matched = _NUMBER.fullmatch(str(sizes[0])) if sizes else None
    return float(matched[1]) if matched else None


def _says_pixels(name: str) -> bool:
    return "pixel" in name.lower()


def _folded_name(name: str) -> str:
    return re.sub(r"[\s_]+", " ", name).strip().lower()


def _is_share(number: object) -> bool:
    return isinstance(number, int | float) and not isinstance(number, bool) and 0 <= number <= 1


def _short(cell: str) -> str:
    return repr(cell if len(cell) <= 60 else cell[:57] + "...")


def facets(cell: str) -> dict[str, str]:
    """Returns the facets "sex" and "age" of the patient, each only if the cell states it.

    Their names and levels are those of CTLesionVQA.

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
