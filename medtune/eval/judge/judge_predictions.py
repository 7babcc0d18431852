"""Has a judge score the free answers in a file of predictions, and stores its verdicts beside the file."""

import hashlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from medtune.data.types import JudgeRequest, Prediction, PredictionKey, Question
from medtune.eval.judge.task import Judge, JudgeTask
from medtune.eval.judge.verdicts import (
    StoredVerdict,
    VerdictWriter,
    judge_replies,
    read_verdicts,
    reply_hash,
    verdicts_path,
)
from medtune.eval.scoring.parse_replies import index, question_of, words_of


@dataclass(frozen=True, slots=True)
class Judging:
    """The outcome of judging a file of predictions.

    Attributes:
        judge: The judge and its instructions.
        free: The number of answers that need a judge.
        judged: The number of answers that have a verdict now.
        empty: The number of answers without words; there is nothing to judge, and they get no points.
        failed: The answers without a usable verdict; they stay unscored.
    """

    judge: str
    free: int
    judged: int
    empty: int
    failed: tuple[PredictionKey, ...]


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
        judge: The judge.
        predictions: The predictions in the file `path`.
        questions: The questions that they answer.
        task: How the benchmark has free answers judged.
        system: The instructions for the judge: `task.system`, or those of a user.
        path: The file of predictions.
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
