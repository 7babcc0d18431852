"""Has a judge look at free answers that a benchmark scores by itself, and shows its verdicts in an extra table.

No metric uses these verdicts, and without a judge there is no table.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

from medtune.data.grouping import grouped
from medtune.data.readable import readable_question
from medtune.data.types import Prediction, PredictionKey, Question
from medtune.eval.evidence import Evidence
from medtune.eval.judge import JudgeTask, json_in_reply
from medtune.eval.metric import passes_text
from medtune.eval.scoring.parsers.choice_statements import without_thinking
from medtune.eval.scoring.tables import Cell, Table
from medtune.eval.statistics.intervals import METHOD, mean_interval


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
        user=judged_text,
        schema={
            "type": "object",
            "properties": {"points": {"type": "integer", "enum": list(levels)}, "explanation": {"type": "string"}},
            "required": ["points", "explanation"],
            "additionalProperties": False,
        },
        is_usable=lambda text: read_points(text) in levels,
        applied=_with_verdicts,
        read_points=read_points,
        levels=levels,
        is_extra=True,
    )


def read_points(text: str) -> int | None:
    r"""Returns the points in a judge's reply, or None where it states none.

    >>> read_points('```json\n{"points": 2, "explanation": "agrees"}\n```'), read_points("2 points")
    (2, None)
    """
    said = json_in_reply(text)
    points = said.get("points") if isinstance(said, dict) else None
    return points if isinstance(points, int) and not isinstance(points, bool) else None


def verdict_table(
    evidence: Evidence, task: JudgeTask, *, by: str, title: str, level: Callable[[Question], str] | None = None
) -> list[Table]:
    """Returns a table of the judge's mean points by a facet, as shares of the most points; none without verdicts.

    If questions were asked in several passes, a question has the mean points of its answers. An answer without words
    gets no points. Questions with an answer without a verdict are counted separately and are in no mean.
    """
    said = grouped(
        (each for each in evidence.predictions if each.key[1:3] == ("image", "generation")),
        lambda each: each.key.question_id,
    )
    if all(each.verdict is None for replies in said.values() for each in replies):
        return []
    asked = [question for question in evidence.questions if task.covers(question)]
    num_passes = len({each.key.repeat for replies in said.values() for each in replies})
    levels = grouped(asked, lambda question: level(question) if level else question.facets.get(by, ""))
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


def _with_verdicts(predictions: Iterable[Prediction], judge_replies: Mapping[PredictionKey, str]) -> list[Prediction]:
    return [
        replace(each, verdict=judge_replies[each.key]) if each.key in judge_replies else each for each in predictions
    ]


def judged_text(question: Question, reply: str) -> str:
    return f"Question: {readable_question(question)}\n\nReference: {question.answer}\n\nAnswer of the model: {reply}"
