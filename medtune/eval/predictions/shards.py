"""Appends predictions line by line to one shard per rank, and merges the shards into one file at the end.

Every evaluation writes shards, even that of a single process: rank k appends to `predictions.rank<k>.jsonl`. When all
ranks have finished, one of them merges the shards into `predictions.jsonl` in question order and removes them. The
predictions in the merged file and in all shards, up to the last whole line, count as done, so that an evaluation that
was killed can continue with any number of ranks.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from types import TracebackType

from medtune.data.files import replace_file
from medtune.data.types import Prediction, PredictionKey
from medtune.eval.predictions.files import MERGED, describe_key, format_line, parse_line

_LINES_PER_SYNC = 64
_NAMED = 3


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
