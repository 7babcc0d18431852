"""Writes and reads a judge's verdicts, one JSON line each, in a file beside the predictions."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType

from medtune.data.files import replace_file
from medtune.data.json_text import json_value
from medtune.data.types import JudgeRequest, Prediction, PredictionKey, Question
from medtune.eval.benchmark import Benchmark
from medtune.eval.judge import Judge, JudgeTask
from medtune.eval.scoring.parse_replies import index, question_of, words_of

JUDGE_MARK = "<|judge|>"
"""The mark at the start of every text that is a judge's verdict. No model writes it by chance."""


@dataclass(frozen=True, slots=True)
class StoredVerdict:
    key: PredictionKey
    reply_hash: str  # The hash of the reply that was judged; the verdict counts for no other reply.
    judge: str
    text: str  # The judge's reply, unparsed.


def verdicts_path(predictions: Path) -> Path:
    """Returns the path of the verdicts on a file of predictions.

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
            row = json_value(line)
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
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        os.close(self._file)

    def write(self, verdict: StoredVerdict) -> None:
        row = {**verdict.key._asdict(), "reply_hash": verdict.reply_hash, "judge": verdict.judge, "text": verdict.text}
        line = json.dumps(row).encode("ascii") + b"\n"
        if os.write(self._file, line) != len(line):
            raise OSError(f"could not append to {self._path}: the disk is full; make room and judge again")


def marked_verdicts(predictions: Iterable[Prediction], judge_replies: Mapping[PredictionKey, str]) -> list[Prediction]:
    """Returns the predictions with the judge's reply in place of the text of each one that was judged."""
    return [
        replace(each, text=JUDGE_MARK + judge_replies[each.key]) if each.key in judge_replies else each
        for each in predictions
    ]


@dataclass(frozen=True, slots=True)
class Judging:
    judge: str
    free: int
    judged: int  # The number of answers that have a verdict now.
    empty: int  # The number of answers without words; there is nothing to judge, and they get no points.
    failed: tuple[PredictionKey, ...]  # The answers without a usable verdict; they stay unscored.


def judge_predictions(
    judge: Judge,
    predictions: Sequence[Prediction],
    questions: Sequence[Question],
    task: JudgeTask,
    *,
    system: str,
    path: Path,
    on_verdict: Callable[[int, int], None] = lambda done, total: None,
) -> Judging:
    """Has every free answer judged and writes the verdicts beside the predictions.

    Answers that have a verdict already are not judged again.

    Args:
        on_verdict: Called with (verdicts so far, answers to judge) at the start and after each answer.
    """
    beside, by_id = verdicts_path(path), index(questions)
    who = f"{judge.name}, instructions {hashlib.sha256((system + task.user_words).encode()).hexdigest()[:16]}"
    free = [each for each in predictions if each.key.reading == "generation" and task.covers(question_of(each, by_id))]
    stored = read_verdicts(beside) if beside.is_file() else {}
    _refuse_others(beside, stored.values(), who)
    done, said = judge_replies(free, stored), [each for each in free if words_of(each)]
    waiting = {each.key: each for each in said if each.key not in done}
    requests = [
        JudgeRequest(key, system, task.user(by_id[key.question_id], words_of(each)), task.schema)
        for key, each in waiting.items()
    ]
    failed = []
    on_verdict(len(done), len(said))
    with VerdictWriter(beside) as writer:
        for number, (key, text) in enumerate(judge.replies(requests, is_usable=task.is_usable), start=1):
            if text is None:
                failed.append(key)
            else:
                writer.write(StoredVerdict(key, reply_hash(waiting[key].text or ""), who, text))
            on_verdict(len(done) + number, len(said))
    judged = len(done) + len(waiting) - len(failed)
    return Judging(who, len(free), judged, len(free) - len(said), tuple(failed))


def _refuse_others(path: Path, stored: Iterable[StoredVerdict], who: str) -> None:
    others = sorted({each.judge for each in stored if each.judge != who})
    if others:
        raise ValueError(
            f"{path} holds verdicts of another judge ({others[0]}; now {who}). One score needs one judge: move that "
            "file away to judge anew"
        )
