"""Reads and writes files of predictions, one JSON line each, from medtune or any other tool.

A line needs {"question_id": ..., "text": ...} for a generation, or {"question_id": ..., "option_logprobs": [...]}
for a likelihood reading; all other fields have defaults. Unknown fields are ignored, unless their name is so close to a
known one that it must be a typing error.

Appends predictions line by line to one shard per rank, and merges the shards into one file at the end.

Every evaluation writes shards, even that of a single process: rank k appends to `predictions.rank<k>.jsonl`. When all
ranks have finished, one of them merges the shards into `predictions.jsonl` in question order and removes them. The
predictions in the merged file and in all shards, up to the last whole line, count as done, so that an evaluation that
was killed can continue with any number of ranks.
"""

from __future__ import annotations

import errno
import json
import math
import os
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import TypeVar, cast, get_args

from medtune.data.catalog import nearest
from medtune.data.files import give_usual_permissions
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
_WORDS: Mapping[type, str] = {str: "a string", int: "a whole number", float: "a number"}
_READINGS: tuple[Reading, ...] = get_args(Reading)
_CONDITIONS: tuple[Condition, ...] = get_args(Condition)
_T = TypeVar("_T")
_S = TypeVar("_S", bound=str)

MERGED = "predictions.jsonl"
_LINES_PER_SYNC = 64
_NAMED = 3


def read_predictions(path: Path) -> list[Prediction]:
    """Returns the predictions in a file that any tool may have written, in the order of its lines.

    By default the condition is "image", the repeat is 0, and the reading is "generation" if there is a text and
    "likelihood" otherwise. `options_shown` is empty by default, which stands for the question's own order.
    """
    if not path.is_file():
        raise FileNotFoundError(f"no prediction file {path}; wanted a file with one JSON object per line")
    found: dict[PredictionKey, int] = {}
    predictions = []
    for number, line in enumerate(path.read_bytes().split(b"\n"), start=1):
        if not line.strip():
            continue
        prediction = parse_line(line, where=f"{path}, line {number}")
        first = found.setdefault(prediction.key, number)
        if first != number:
            raise ValueError(
                f"{path}, line {number}: {describe_key(prediction.key)} is already in line {first}; keep one of the "
                'two, or number them with "repeat"'
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
    for name in sorted(row.keys() - set(FIELDS)):
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


def replace_file(path: Path, lines: Iterable[bytes]) -> None:
    """Replaces a file of predictions by `lines` (with newlines) at once, so that readers never see half of it."""
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    temporary = Path(name)
    try:
        with os.fdopen(handle, "wb") as file:
            file.writelines(lines)
            file.flush()
            os.fsync(file.fileno())
        give_usual_permissions(temporary)
        temporary.replace(path)
    except OSError as error:
        raise OSError(
            error.errno, f"could not write {path} ({error.strerror}); free some space and try again"
        ) from error
    finally:
        temporary.unlink(missing_ok=True)


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


def shard_path(folder: Path, rank: int) -> Path:
    """Returns the path of the shard to which a rank appends its predictions."""
    return folder / f"predictions.rank{rank}.jsonl"


class PredictionWriter:
    """Appends predictions to a file; each is handed to the operating system before `write` returns.

    Opening keeps the whole lines of an existing file and removes an incomplete last one, as a killed process leaves it.
    The lines are synced to the disk after every 64th line and when the context ends. If a write fails, for instance
    because the disk is full, the file is cut back to whole lines, so that the evaluation can continue later.
    """

    def __init__(self, path: Path) -> None:
        """Opens `path` for appending, and creates it if it does not exist."""
        self.path = path
        kept = _whole_lines(path)
        self.done = {prediction.key for prediction in _parse(path, kept)}
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT, 0o644)
        self._length = self._synced = sum(len(line) for line in kept)
        self._since_sync = 0
        os.ftruncate(self._file, self._length)
        os.lseek(self._file, self._length, os.SEEK_SET)

    def __enter__(self) -> PredictionWriter:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        try:
            if self._since_sync:
                self._sync()
        finally:
            os.close(self._file)

    def write(self, prediction: Prediction) -> None:
        if prediction.key in self.done:
            raise ValueError(f"{describe_key(prediction.key)} was answered twice; wanted one prediction per request")
        line = format_line(prediction)
        try:
            _write_all(self._file, line)
        except OSError as error:
            self._fail(error, keep=self._length)
        self._length += len(line)
        self._since_sync += 1
        self.done.add(prediction.key)
        if self._since_sync >= _LINES_PER_SYNC:
            self._sync()

    def _sync(self) -> None:
        self._since_sync = 0
        try:
            os.fsync(self._file)
        except OSError as error:
            self._fail(error, keep=self._synced)
        self._synced = self._length

    def _fail(self, error: OSError, *, keep: int) -> None:
        os.ftruncate(self._file, keep)
        os.lseek(self._file, keep, os.SEEK_SET)
        self._length = keep
        what = "no space left on the disk" if error.errno == errno.ENOSPC else error.strerror
        raise OSError(
            error.errno,
            f"could not append to {self.path}: {what}. The predictions before this one are safe; "
            "make room and run the same command with --resume",
        ) from error


def stored_predictions(folder: Path) -> dict[PredictionKey, Prediction]:
    """Returns all predictions that an evaluation has on disk: the merged file and the shards, up to whole lines.

    If a process was killed after writing the merged file and before removing the shards, predictions are in both; equal
    ones count once.
    """
    found: dict[PredictionKey, Prediction] = {}
    for path in (folder / MERGED, *_shards(folder)):
        for prediction in _parse(path, _whole_lines(path)):
            if found.setdefault(prediction.key, prediction) != prediction:
                raise ValueError(
                    f"{path}: {describe_key(prediction.key)} is on disk twice with different answers; two evaluations "
                    "wrote into one folder: remove it and evaluate again"
                )
    return found


def merge_shards(folder: Path, order: Sequence[PredictionKey]) -> None:
    """Merges the shards into predictions.jsonl with exactly the predictions of `order`, and removes the shards.

    Call it once, after every rank has closed its writer. Calling it again changes nothing.

    Args:
        order: Every key that was asked, each once, in the order of the merged file.
    """
    found = stored_predictions(folder)
    refuse_unasked(folder, found, order)
    missing = [key for key in order if key not in found]
    if missing:
        raise ValueError(f"{folder}: {len(missing)} of {len(order)} predictions are missing: {_some(missing)}; resume")
    replace_file(folder / MERGED, (format_line(found[key]) for key in order))
    for shard in _shards(folder):
        shard.unlink()


def refuse_unasked(folder: Path, found: Iterable[PredictionKey], asked: Iterable[PredictionKey]) -> None:
    """Checks that a folder holds no predictions of another evaluation."""
    wanted = frozenset(asked)
    foreign = [key for key in found if key not in wanted]
    if foreign:
        raise ValueError(
            f"{folder} holds {len(foreign)} predictions that this evaluation does not ask for: {_some(foreign)}; "
            "they come from other data or settings: use another folder"
        )


def _some(keys: Sequence[PredictionKey]) -> str:
    more = f" and {len(keys) - _NAMED} more" if len(keys) > _NAMED else ""
    return ", ".join(describe_key(key) for key in keys[:_NAMED]) + more


def _shards(folder: Path) -> list[Path]:
    return sorted(folder.glob("predictions.rank*.jsonl"))


def _whole_lines(path: Path) -> list[bytes]:
    if not path.exists():
        return []
    *whole, _torn = path.read_bytes().split(b"\n")
    return [line + b"\n" for line in whole]


def _parse(path: Path, lines: Sequence[bytes]) -> list[Prediction]:
    return [parse_line(line, where=f"{path}, line {number}") for number, line in enumerate(lines, start=1)]


def _write_all(file: int, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(file, rest) :]
