"""Writes and reads a judge's verdicts, one JSON line each, in a file beside the predictions.

Has a judge look at free answers that a benchmark scores by itself, and shows its verdicts in an extra table.

No metric uses these verdicts, and without a judge there is no table.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType

from medtune.data.json_text import json_value
from medtune.data.readable import readable_question
from medtune.data.types import JudgeRequest, Prediction, PredictionKey, Question
from medtune.eval.benchmark import Benchmark, Evidence
from medtune.eval.judge import Judge, JudgeTask
from medtune.eval.metric import passes_text
from medtune.eval.predictions.files import replace_file
from medtune.eval.scoring.parse_replies import index, question_of, words_of
from medtune.eval.scoring.parsers.choice_statements import without_thinking
from medtune.eval.scoring.tables import Cell, Table
from medtune.eval.statistics.intervals import METHOD, mean_interval

JUDGE_MARK = "<|judge|>"
"""The mark at the start of every text that is a judge's verdict. No model writes it by chance."""
_FENCE = re.compile(r"^```\w*\s*|\s*```$")


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


def extra_judge_task(*, covers: Callable[[Question], bool], system: str, most: int) -> JudgeTask:
    """Returns a judge's task to give free answers 0 to `most` points, beside the benchmark's own scores.

    Args:
        system: The meaning of the points; the form of the verdict is added to it.
    """
    levels = tuple(range(most + 1))
    form = f"Reply with one JSON object and nothing else, with the fields points (a whole number from 0 to {most})"
    return JudgeTask(
        covers=covers,
        system=f"{system}\n\n{form} and explanation (one sentence).",
        user=_judged_text,
        schema={
            "type": "object",
            "properties": {"points": {"type": "integer", "enum": list(levels)}, "explanation": {"type": "string"}},
            "required": ["points", "explanation"],
            "additionalProperties": False,
        },
        is_usable=lambda text: read_points(text) in levels,
        applied=_beside,
        points=_points,
        levels=levels,
        is_extra=True,
    )


def read_points(text: str) -> int | None:
    r"""Returns the points in a judge's reply, or None where it states none.

    >>> read_points('```json\n{"points": 2, "explanation": "agrees"}\n```'), read_points("2 points")
    (2, None)
    """
    try:
        said = json_value(_FENCE.sub("", without_thinking(text).strip()))
    except ValueError:
        return None
    points = said.get("points") if isinstance(said, dict) else None
    return points if isinstance(points, int) and not isinstance(points, bool) else None


def verdict_table(
    evidence: Evidence, task: JudgeTask, *, by: str, title: str, level: Callable[[Question], str] | None = None
) -> list[Table]:
    """Returns a table of the judge's mean points by a facet, as shares of the most points; none without verdicts.

    If questions were asked in several passes, a question has the mean points of its answers. An answer without words
    gets no points. Questions with an answer without a verdict are counted separately and are in no mean.
    """
    said: dict[str, list[Prediction]] = {}
    for each in evidence.predictions:
        if each.key[1:3] == ("image", "generation"):
            said.setdefault(each.key.question_id, []).append(each)
    if all(each.verdict is None for replies in said.values() for each in replies):
        return []
    asked = [question for question in evidence.questions if task.covers(question)]
    num_passes = len({each.key.repeat for replies in said.values() for each in replies})
    levels: dict[str, list[Question]] = {}
    for question in asked:
        levels.setdefault(level(question) if level else question.facets.get(by, ""), []).append(question)
    members = {**dict(sorted(levels.items())), "all": asked}
    rows = [_row(name, questions, said, task, num_passes) for name, questions in members.items()]
    note = "A language model's verdicts, by medtune's instructions or the user's: ours, no part of any official score."
    notes = (note, f"95 % intervals: {METHOD}.", *([f"Points: {passes_text(num_passes)}."] if num_passes > 1 else []))
    return [Table(title, (by, "points", "95% low", "95% high", "n", "no verdict"), tuple(rows), notes)]


def _row(
    name: str, asked: Sequence[Question], said: Mapping[str, Sequence[Prediction]], task: JudgeTask, num_passes: int
) -> tuple[Cell, ...]:
    shares, patients, waiting = list[float](), list[str](), 0
    for question in asked:
        points = [_read(each) for each in said.get(question.id, ())]
        known = [each for each in points if each is not None]
        if len(known) < len(points):
            waiting += 1
        else:
            shares.append(sum(known) / num_passes / task.levels[-1])
            patients.append(question.patient_id)
    if not shares:
        return name, None, None, None, 0, waiting
    low, high = mean_interval(shares, patients)
    return name, sum(shares) / len(shares), low, high, len(shares), waiting


def _read(said: Prediction) -> int | None:
    if not without_thinking(said.text or ""):
        return 0
    return None if said.verdict is None else read_points(said.verdict)


def _beside(predictions: Iterable[Prediction], judge_replies: Mapping[PredictionKey, str]) -> list[Prediction]:
    return [
        replace(each, verdict=judge_replies[each.key]) if each.key in judge_replies else each for each in predictions
    ]


def _points(text: str) -> int:
    found = read_points(text)
    if found is None:
        raise ValueError("this reply of the judge is no verdict; judge the answer again")
    return found


def _judged_text(question: Question, reply: str) -> str:
    return f"Question: {readable_question(question)}\n\nReference: {question.answer}\n\nAnswer of the model: {reply}"


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
