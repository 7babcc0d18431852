"""Free responses: points need a judge, whose verdict takes the reply's place in the predictions that are scored.

A free response is worth 0 to 2 points by a judge's word. `with_verdicts` writes the judge's replies into predictions,
after a mark that no model says by chance. Without a verdict, a reply has 2 points where it is the reference word for
word, and 0 where it says nothing, as no judge could give it more; any other is unscored until it is judged.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import replace

from medtune.benchmarks.rexsonovqa.items import FULL_POINTS, UNKNOWN_ERROR, ScoredItem
from medtune.benchmarks.rexsonovqa.judge_reply import official_verdict, robust_verdict
from medtune.benchmarks.rexsonovqa.terms import question_type
from medtune.data.types import Prediction, PredictionKey, Question
from medtune.eval.metric import Metric, mean_of_rows
from medtune.eval.parsed_reply import ParsedReply

JUDGE_MARK = "<|judge|>"


def with_verdicts(predictions: Iterable[Prediction], judge_replies: Mapping[PredictionKey, str]) -> list[Prediction]:
    """Returns the predictions with the judge's reply in place of the text of each one that was judged.

    Args:
        predictions: As the model gave them.
        judge_replies: What the judge said about the prediction of that key, unparsed.
    """
    return [
        replace(each, text=JUDGE_MARK + judge_replies[each.key]) if each.key in judge_replies else each
        for each in predictions
    ]


def official(reply: str, question: Question) -> str | None:
    """Returns the verdict as the official code reads the judge; None where its score is no number from 0 to 2.

    A judge's reply that cannot be read is 0 points; its error "none" is written "both_fail", which changes no number.
    """
    if not reply.startswith(JUDGE_MARK):
        return _word_for_word(reply, question)
    found = official_verdict(reply.removeprefix(JUDGE_MARK))
    score = found.score
    if isinstance(score, int | float) and 0 <= score <= FULL_POINTS:
        is_failure = score == 0 and found.error_type == "none"
        return verdict(score, "both_fail" if is_failure else str(found.error_type))
    return None


def robust(reply: str, question: Question) -> str | None:
    """Returns the verdict, or None where the judge's reply cannot be read: it was not judged, so judge it again."""
    if not reply.startswith(JUDGE_MARK):
        return _word_for_word(reply, question)
    found = robust_verdict(reply.removeprefix(JUDGE_MARK))
    return verdict(found.score, found.error_type) if found else None


def verdict(score: float, error_type: str) -> str:
    """Returns the canonical form of a verdict, which both parsers read back.

    Example:
        >>> verdict(1, "wrong_conclusion")
        '<|judge|>{"score": 1, "error_type": "wrong_conclusion"}'
    """
    return JUDGE_MARK + json.dumps({"score": score, "error_type": error_type})


def is_rubric(question: Question) -> bool:
    """Returns whether the question is a free response."""
    return question.answer_kind == "rubric"


def rubric() -> Metric:
    """Returns the mean points of free responses, 0 to 2; empty and unanswered ones have none.

    Source:
        ReXSonoVQA (arXiv 2604.10916), section 4.1; rajpurkarlab/RexSonoVQA@c2b931f, evaluate_results.py.
    """
    return Metric(mean_of_rows(lambda row: _points(row)[0]), best=FULL_POINTS, covers=is_rubric)


def scored_items(judged: Iterable[ParsedReply]) -> list[ScoredItem]:
    """Returns the rows that have a score as the items that the official report is made of.

    Free responses that wait for a judge are left out. The question's facets "task" and "duration" name type and bin of
    the clip's length.
    """
    found = []
    for row in judged:
        if row.unscored:
            continue
        facets, is_free = row.question.facets, is_rubric(row.question)
        score, error = _points(row) if is_free else (int(row.correct), None)
        type_ = question_type(facets.get("task", "Unknown"))
        found.append(ScoredItem(not is_free, type_, facets.get("duration", ""), score, error))
    return found


def _points(row: ParsedReply) -> tuple[float, str]:
    if row.parsed is None or not row.parsed.startswith(JUDGE_MARK):
        return 0, UNKNOWN_ERROR
    said = json.loads(row.parsed.removeprefix(JUDGE_MARK))
    return said["score"], said["error_type"]


def _word_for_word(reply: str, question: Question) -> str | None:
    is_reference = reply.split() == question.answer.split() != []
    return verdict(FULL_POINTS, "none") if is_reference else None
