"""Free responses: their points come from a judge, whose verdict takes the reply's place in the scored predictions.

A judge gives a free response 0 to 2 points. Without a verdict, a reply has 2 points where it is the reference word for
word and 0 where it is empty, as no judge could give it more; any other reply is unscored until it is judged.
"""

import json
from collections.abc import Iterable

from medtune.benchmarks.rexsonovqa.judge_reply import official_verdict, robust_verdict
from medtune.benchmarks.rexsonovqa.scored_items import FULL_POINTS, UNKNOWN_ERROR, ScoredItem, question_type
from medtune.data.types import Question
from medtune.eval.judge.verdicts import JUDGE_MARK
from medtune.eval.metric import Metric, mean_of_rows
from medtune.eval.parsed_reply import ParsedReply


def official(reply: str, question: Question) -> str | None:
    """Returns the verdict as the official code reads the judge's reply; None if its score is not a number from 0 to 2.

    A judge's reply that cannot be read gives 0 points. Its type of error, "none" in the official code, is written as
    "both_fail" here, which changes no number.
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
    """Returns the verdict; None if the judge's reply cannot be read, so that the response has to be judged again."""
    if not reply.startswith(JUDGE_MARK):
        return _word_for_word(reply, question)
    found = robust_verdict(reply.removeprefix(JUDGE_MARK))
    return verdict(found.score, found.error_type) if found else None


def verdict(score: float, error_type: str) -> str:
    """Returns a verdict as text in the one form that both parsers can read.

    Example:
        >>> verdict(1, "wrong_conclusion")
        '<|judge|>{"score": 1, "error_type": "wrong_conclusion"}'
    """
    return JUDGE_MARK + json.dumps({"score": score, "error_type": error_type})


def is_rubric(question: Question) -> bool:
    """Returns whether the question is a free response."""
    return question.answer_kind == "rubric"


def rubric() -> Metric:
    """Returns the mean points of free responses, 0 to 2; a response that is empty or missing has 0 points.

    Source:
        ReXSonoVQA (arXiv 2604.10916), section 4.1; rajpurkarlab/RexSonoVQA@c2b931f, evaluate_results.py.
    """
    return Metric(mean_of_rows(lambda row: _points(row)[0]), best=FULL_POINTS, covers=is_rubric)


def scored_items(parsed: Iterable[ParsedReply]) -> list[ScoredItem]:
    """Returns the rows that have a score as items for the official report.

    Free responses that were not judged yet are left out. The facet "task" of a question gives its type, and the facet
    "duration" the bin of the clip's length.
    """
    found = []
    for row in parsed:
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
