"""Writes and reads a judge's verdicts, one JSON line each, in a file beside the predictions."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType

from medtune.data.types import Prediction, PredictionKey
from medtune.eval.benchmark import Benchmark
from medtune.eval.predictions.files import replace_file


@dataclass(frozen=True, slots=True)
class StoredVerdict:
    """A judge's verdict on one reply.

    Attributes:
        key: The key of the prediction.
        reply_hash: The hash of the reply that was judged; the verdict counts for no other reply.
        judge: The judge and its instructions.
        text: The judge's reply, unparsed.
    """

    key: PredictionKey
    reply_hash: str
    judge: str
    text: str


def verdicts_path(predictions: Path) -> Path:
    """Returns the path of the verdicts on a file of predictions.

    Example:
        >>> verdicts_path(Path("final/predictions.jsonl")).name
        'predictions.verdicts.jsonl'
    """
    return predictions.with_suffix(".verdicts.jsonl")


def reply_hash(text: str) -> str:
    """Returns 16 hex digits of a hash over a reply that is judged."""
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def with_verdicts(predictions: Sequence[Prediction], path: Path, benchmark: Benchmark) -> list[Prediction]:
    """Returns the predictions of the file `path` with the judge's verdicts beside it, as the parsers read them.

    Without verdicts, or if the benchmark has no judge, the predictions are returned unchanged. A verdict on another
    reply than the one in the file does not count.
    """
    beside = verdicts_path(path)
    if benchmark.judging is None or not beside.is_file():
        return list(predictions)
    return benchmark.judging.applied(predictions, judge_replies(predictions, read_verdicts(beside)))


def judge_replies(
    predictions: Iterable[Prediction], verdicts: Mapping[PredictionKey, StoredVerdict]
) -> dict[PredictionKey, str]:
    """Returns the judge's replies to those predictions whose present reply was judged."""
    return {
        each.key: verdicts[each.key].text
        for each in predictions
        if each.key in verdicts and verdicts[each.key].reply_hash == reply_hash(each.text or "")
    }


def read_verdicts(path: Path) -> dict[PredictionKey, StoredVerdict]:
    """Returns the judge's verdicts in a file, up to the last whole line; of two on one prediction the later one."""
    found = {}
    *lines, _torn = path.read_bytes().split(b"\n")
    for number, line in enumerate(lines, start=1):
        try:
            row = json.loads(line)
            key = PredictionKey(str(row["question_id"]), row["condition"], row["reading"], int(row["repeat"]))
            found[key] = StoredVerdict(key, str(row["reply_hash"]), str(row["judge"]), str(row["text"]))
        except (ValueError, KeyError, TypeError) as error:
            raise ValueError(
                f"{path}, line {number}: no verdict ({error!r}); remove the line and judge again"
            ) from error
    return found


class VerdictWriter:
    """Appends verdicts to a file; each is handed to the operating system before `write` returns.

    Opening removes an incomplete last line, as a killed process leaves it.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        if path.is_file():
            whole, newline, torn = path.read_bytes().rpartition(b"\n")
            if torn:
                replace_file(path, [whole + newline])
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)

    def __enter__(self) -> VerdictWriter:
        """Returns the writer itself."""
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        """Closes the file."""
        os.close(self._file)

    def write(self, verdict: StoredVerdict) -> None:
        """Appends one verdict."""
        row = {**verdict.key._asdict(), "reply_hash": verdict.reply_hash, "judge": verdict.judge, "text": verdict.text}
        line = json.dumps(row).encode("ascii") + b"\n"
        if os.write(self._file, line) != len(line):
            raise OSError(f"could not append to {self._path}: the disk is full; make room and judge again")


JUDGE_MARK = "<|judge|>"
"""The mark at the start of every text that is a judge's verdict. No model writes it by chance."""


def marked_verdicts(predictions: Iterable[Prediction], judge_replies: Mapping[PredictionKey, str]) -> list[Prediction]:
    """Returns the predictions with the judge's reply in place of the text of each one that was judged.

    Args:
        predictions: The predictions as the model gave them.
        judge_replies: The judge's unparsed replies by the key of the prediction that they are about.
    """
    return [
        replace(each, text=JUDGE_MARK + judge_replies[each.key]) if each.key in judge_replies else each
        for each in predictions
    ]
