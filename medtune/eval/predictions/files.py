"""Reads and writes files of predictions, one JSON line each, from medtune or any other tool.

A line needs {"question_id": ..., "text": ...} for a generation, or {"question_id": ..., "option_logprobs": [...]}
for a likelihood reading; all other fields have defaults. Unknown fields are ignored, unless their name is so close to a
known one that it must be a typing error.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import TypeVar, cast, get_args

from medtune.data.catalog import nearest
from medtune.data.json_text import json_value
from medtune.data.types import Condition, Prediction, PredictionKey, Reading

FIELDS = (
    "question_id",
    "condition",
    "reading",
    "repeat",
    "prompt_hash",
    "options_shown",
    "text",
    "option_logprobs",
    "option_tokens",
    "finish_reason",
)
_KNOWN = frozenset(FIELDS)
_WORDS: Mapping[type, str] = {str: "a string", int: "a whole number", float: "a number"}
_READINGS: tuple[Reading, ...] = get_args(Reading)
_CONDITIONS: tuple[Condition, ...] = get_args(Condition)
_T = TypeVar("_T")
_S = TypeVar("_S", bound=str)

MERGED = "predictions.jsonl"


def read_predictions(path: Path) -> list[Prediction]:
    """Returns the predictions in a file that any tool may have written, in the order of its lines.

    By default the condition is "image", the repeat is 0, and the reading is "generation" if there is a text and
    "likelihood" otherwise. `options_shown` is empty by default, which stands for the question's own order.
    """
    if not path.is_file():
        raise FileNotFoundError(f"no prediction file {path}; wanted a file with one JSON object per line")
    found: dict[PredictionKey, int] = {}
    predictions = []
    with path.open("rb") as file:
        for number, line in enumerate(file, start=1):
            if not line.strip():
                continue
            prediction = parse_line(line.removesuffix(b"\n"), where=f"{path}, line {number}")
            first = found.setdefault(prediction.key, number)
            if first != number:
                raise ValueError(
                    f"{path}, line {number}: {describe_key(prediction.key)} is already in line {first}; keep one of "
                    'the two, or number them with "repeat"'
                )
            predictions.append(prediction)
    return predictions


def describe_key(key: PredictionKey) -> str:
    """Returns a description of a prediction's key for messages."""
    repeat = f", repeat {key.repeat}" if key.repeat else ""
    return f"question {key.question_id!r} ({key.condition}, {key.reading}{repeat})"


def format_line(prediction: Prediction) -> bytes:
    """Returns the prediction as one JSON line with its newline; `parse_line` returns the same prediction from it."""
    _check(prediction, where=f"the model's {describe_key(prediction.key)}")
    values = (
        *prediction.key,
        prediction.prompt_hash,
        prediction.options_shown,
        prediction.text,
        prediction.option_logprobs,
        prediction.option_tokens,
        prediction.finish_reason,
    )
    return json.dumps(dict(zip(FIELDS, values, strict=True)), allow_nan=False).encode("ascii") + b"\n"


def parse_line(line: bytes, *, where: str) -> Prediction:
    row = _object(line, where)
    for name in sorted(row.keys() - _KNOWN):
        if meant := nearest(name, FIELDS, cutoff=0.8):
            raise ValueError(f"{where}: unknown field {name!r}.{meant} Rename or remove it")
    text = _typed(row, "text", str, where)
    logprobs = _list(row, "option_logprobs", float, where)
    if text is None and logprobs is None:
        raise ValueError(f'{where}: field "text" is missing; wanted the reply ("" for none) or "option_logprobs"')
    question_id = _typed(row, "question_id", str, where)
    if question_id is None:
        raise ValueError(f'{where}: field "question_id" is missing; wanted the id of a question of the benchmark')
    reading = _one_of(row, "reading", _READINGS, where) or ("likelihood" if text is None else "generation")
    condition = _one_of(row, "condition", _CONDITIONS, where) or "image"
    repeat = _typed(row, "repeat", int, where) or 0
    tokens = _list(row, "option_tokens", int, where)
    prediction = Prediction(
        key=PredictionKey(question_id, condition, reading, repeat),
        prompt_hash=_typed(row, "prompt_hash", str, where),
        options_shown=_list(row, "options_shown", str, where) or (),
        text=text,
        option_logprobs=logprobs,
        option_tokens=tokens,
        finish_reason=_typed(row, "finish_reason", str, where),
    )
    _check(prediction, where)
    return prediction


def _object(line: bytes, where: str) -> Mapping[str, object]:
    try:
        row = json_value(line.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        raise ValueError(f"{where}: not UTF-8 (byte {error.start + 1}); save the file as UTF-8") from error
    except (json.JSONDecodeError, RecursionError) as error:
        raise ValueError(f"{where}: not valid JSON ({error}); wanted one JSON object per line") from error
    if not isinstance(row, dict):
        raise ValueError(f'{where}: wanted a JSON object like {{"question_id": ..., "text": ...}}, got {row!r:.40}')
    return row


def _typed(row: Mapping[str, object], name: str, kind: type[_T], where: str) -> _T | None:
    value = row.get(name)
    if value is None:
        return None
    if not _is(value, kind):
        raise ValueError(f"{where}: field {name!r} wants {_WORDS[kind]}, got {value!r:.60}")
    return cast("_T", value)


def _list(row: Mapping[str, object], name: str, kind: type[_T], where: str) -> tuple[_T, ...] | None:
    value = row.get(name)
    if value is None:
        return None
    if not isinstance(value, list) or not all(_is(item, kind) for item in value):
        raise ValueError(f"{where}: field {name!r} wants a list of which each is {_WORDS[kind]}, got {value!r:.60}")
    return tuple(kind(item) for item in value)  # type: ignore[call-arg]  # str, int and float take their own kind


def _is(value: object, kind: type) -> bool:
    if kind is float:
        return isinstance(value, int | float) and not isinstance(value, bool)
    return isinstance(value, kind) and not isinstance(value, bool)


def _one_of(row: Mapping[str, object], name: str, known: tuple[_S, ...], where: str) -> _S | None:
    value = _typed(row, name, str, where)
    if value is None:
        return None
    for one in known:
        if one == value:
            return one
    raise ValueError(f"{where}: no {name} {value!r}.{nearest(value, known)} There are: {', '.join(known)}")


def _check(prediction: Prediction, where: str) -> None:
    logprobs, tokens, options = prediction.option_logprobs, prediction.option_tokens, prediction.options_shown
    if prediction.key.reading == "likelihood" and logprobs is None:
        raise ValueError(f'{where}: reading "likelihood" wants "option_logprobs", got none')
    if prediction.key.reading == "generation" and prediction.text is None:
        raise ValueError(f'{where}: reading "generation" wants "text", got none; write "" for an empty reply')
    if prediction.key.repeat < 0:
        raise ValueError(f'{where}: field "repeat" wants 0 or more, got {prediction.key.repeat}')
    if logprobs is not None and not all(math.isfinite(value) for value in logprobs):
        raise ValueError(f'{where}: "option_logprobs" wants finite numbers, got {list(logprobs)}; the model overflowed')
    for name, values in (("option_logprobs", logprobs), ("option_tokens", tokens)):
        wanted = len(options) or len(logprobs or values or ())
        if values is not None and len(values) != wanted:
            raise ValueError(f"{where}: field {name!r} wants {wanted} numbers, one per option, got {len(values)}")
    if tokens is not None and min(tokens, default=1) < 1:
        raise ValueError(f'{where}: field "option_tokens" wants counts of 1 or more, got {list(tokens)}')
