"""Free responses: their points come from a judge, whose verdict takes the reply's place in the scored predictions.

A judge gives a free response 0 to 2 points. Without a verdict, a reply has 2 points where it is the reference word for
word and 0 where it is empty, as no judge could give it more; any other reply is unscored until it is judged.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

from medtune.benchmarks.facets import DURATION_BINS
from medtune.data.json_text import json_value
from medtune.data.types import Question
from medtune.eval.judge import FENCE
from medtune.eval.judge.verdicts import JUDGE_MARK
from medtune.eval.metric import Metric, ParsedReply, mean_of_rows
from medtune.eval.scoring.parsers.choice_statements import without_thinking

WRONG_CONCLUSION, WRONG_EVIDENCE = "wrong_conclusion", "wrong_visual_evidence"
SINGLE_ERRORS = (WRONG_CONCLUSION, WRONG_EVIDENCE)
UNKNOWN_ERROR = "unknown"
# The points of a perfect free response; a right answer to a multiple-choice question has 1 point.
FULL_POINTS = 2

TYPES = ("Type1_ActionGoalReasoning", "Type2_ArtifactResolutionOptimization", "Type3_ProcedureContextPlanning")
_OLDER_TYPES = {"Type4_DisambiguationSafetyDecision": TYPES[1], "Type2_OptimizationTroubleshooting": TYPES[1]}
ErrorType = Literal["none", "wrong_visual_evidence", "wrong_conclusion", "both_fail", "unknown"]
_BY_NAME: dict[object, ErrorType] = {
    "none": "none",
    "wrong_visual_evidence": "wrong_visual_evidence",
    "wrong_conclusion": "wrong_conclusion",
    "both_fail": "both_fail",
}


@dataclass(frozen=True, slots=True)
class ScoredItem:
    is_mcq: bool  # Whether it is a multiple-choice question (at most 1 point) or a free response (at most 2 points).
    question_type: str  # The type of question, as the function `question_type` returns it.
    duration: str  # The bin of the clip's length, as the function `duration_bin` returns it.
    score: float
    # The type of error that the judge named; "unknown" if it named none, None for multiple choice.
    error_type: str | None = None


class Tally(NamedTuple):
    """The sum of the scores of `n` items."""

    total: float
    n: int

    @property
    def mean(self) -> float:
        """The mean score; 0 without items, as in the official report."""
        return self.total / self.n if self.n else 0.0


def recode_zero_with_single_error(items: Iterable[ScoredItem]) -> list[ScoredItem]:
    """Returns the items with 1 point for each free response that has 0 points although the judge named only one error.

    The paper's free-response numbers of Gemini 3 Pro are computed in this way (11 items change, and the mean rises from
    .9057 to .9472). Its numbers of other models, and the official script, use the scores unchanged. medtune uses this
    function only for a comparison in the tables.

    Source: ReXSonoVQA (arXiv 2604.10916), Table A2 against the published score files; not stated in the paper.
    """
    return [
        replace(item, score=1) if not item.is_mcq and item.score == 0 and item.error_type in SINGLE_ERRORS else item
        for item in items
    ]


def tally(items: Sequence[ScoredItem]) -> Tally:
    """Returns the sum of the scores and their number."""
    return Tally(sum(item.score for item in items), len(items))


def tally_by_type(items: Sequence[ScoredItem]) -> dict[str, Tally]:
    """Returns a tally for each type that occurs, in alphabetical order."""
    names = sorted({item.question_type for item in items})
    return {name: tally([item for item in items if item.question_type == name]) for name in names}


def tally_by_duration(items: Sequence[ScoredItem]) -> dict[str, Tally]:
    """Returns a tally for each of the four bins, empty ones included."""
    return {name: tally([item for item in items if item.duration == name]) for name in DURATION_BINS}


def constant_letter(keys: Sequence[str]) -> dict[str, Tally]:
    """Returns the score of always answering with the same letter, for each letter that is the right one somewhere.

    An accuracy should always be reported together with these: in the published order of options, "A" is right for 110
    of 249 questions.
    """
    return {letter: Tally(keys.count(letter), len(keys)) for letter in sorted(set(keys))}


def question_type(name: str) -> str:
    """Returns the present name of a question type, which had other names before; an unknown type is returned unchanged.

    Source: rajpurkarlab/RexSonoVQA@c2b931f, evaluate_results.py (normalize_question_type).
    """
    return _OLDER_TYPES.get(name, name)


def is_kept(row: Mapping[str, object]) -> bool:
    """Returns whether a row is scored: its "keep" is missing or the boolean true (the text "true" and 1 do not count).

    Source: rajpurkarlab/RexSonoVQA@c2b931f, evaluate_results.py (print_statistics).
    """
    return row.get("keep", True) is True


@dataclass(frozen=True, slots=True)
class OfficialVerdict:
    """A judge's verdict as the official code reads it; the values keep the JSON types that they have in the reply."""

    score: object
    error_type: object


@dataclass(frozen=True, slots=True)
class RubricVerdict:
    # 2 if the response is right, 1 if either its evidence or its conclusion is wrong, 0 if both are wrong.
    score: Literal[0, 1, 2]
    # The type of error; "unknown" if the judge gave 1 point without naming one of the two errors.
    error_type: ErrorType


def official_verdict(reply: str | None) -> OfficialVerdict:
    """Returns the verdict that the official code reads.

    The errors of the official code are kept. A reply that it cannot read (a plain code fence, a list) gives 0 points
    with the error "none", so a failed call to the judge looks like a wrong answer. A score in quotes stays a string.
    The error "none" becomes "wrong_conclusion" for 1 point, and "both_fail" for 0 points or a missing score, which
    counts as 0.

    Source: rajpurkarlab/RexSonoVQA@c2b931f, evaluate_results.py (LLMJudge.evaluate_free_response).
    """
    text = (reply or "").strip()
    said = _json(text[7:-3] if text.startswith("```json") else text)
    if not isinstance(said, dict):
        return OfficialVerdict(0, "none")
    score, error = said.get("score", 0), said.get("error_type", "none")
    if error == "none" and score in (0, 1):
        error = "wrong_conclusion" if score == 1 else "both_fail"
    return OfficialVerdict(score, error)


def robust_verdict(reply: str | None) -> RubricVerdict | None:
    """Returns the verdict, or None if the reply holds none; the judge should then be asked again.

    The reply may have code fences, text around one JSON object, a list of one object, and a score written "1" or 1.0.
    The type of error is always "none" for 2 points, "both_fail" for 0 points without a type, and "unknown" for 1 point
    without one of the two single errors.

    >>> robust_verdict('The verdict: {"score": "2", "error_type": null}')
    RubricVerdict(score=2, error_type='none')
    >>> robust_verdict("not json")
    """
    said = _object(FENCE.sub("", without_thinking(reply or "")))
    score = _points_said(said.get("score")) if said else None
    if said is None or score is None:
        return None
    named = said.get("error_type")
    error = _BY_NAME.get(named, "unknown") if isinstance(named, str) else "unknown"
    if score == 2:
        error = "none"
    elif score == 0 and error in ("none", "unknown"):
        error = "both_fail"
    elif score == 1 and error in ("none", "both_fail"):
        error = "unknown"
    return RubricVerdict(score, error)


def _json(text: str) -> object:
    try:
        return json_value(text)
    except (ValueError, RecursionError):
        return None


def _object(text: str) -> Mapping[str, object] | None:
    said = _json(text)
    if said is None:
        start, end = text.find("{"), text.rfind("}")
        said = _json(text[start : end + 1]) if 0 <= start < end else None
    if isinstance(said, list) and len(said) == 1:
        said = said[0]
    return said if isinstance(said, dict) else None


def _points_said(value: object) -> Literal[0, 1, 2] | None:
    points: dict[object, Literal[0, 1, 2]] = {0: 0, 1: 1, 2: 2, "0": 0, "1": 1, "2": 2}
    is_readable = isinstance(value, int | float | str) and not isinstance(value, bool)
    return points.get(value.strip() if isinstance(value, str) else value) if is_readable else None


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


def recoded(reply: str, question: Question) -> str | None:
    """Returns the verdict as `official` does, with 1 point in place of 0 where the judge named only one error."""
    read = official(reply, question)
    if read is None:
        return None
    said = json_value(read.removeprefix(JUDGE_MARK))
    is_single = said["score"] == 0 and said["error_type"] in SINGLE_ERRORS
    return verdict(1, said["error_type"]) if is_single else read


def verdict(score: float, error_type: str) -> str:
    """Returns a verdict as text in the one form that both parsers can read.

    >>> verdict(1, "wrong_conclusion")
    '<|judge|>{"score": 1, "error_type": "wrong_conclusion"}'
    """
    return JUDGE_MARK + json.dumps({"score": score, "error_type": error_type})


def is_rubric(question: Question) -> bool:
    """Returns whether the question is a free response."""
    return question.answer_kind == "rubric"


def rubric() -> Metric:
    """Returns the mean points of free responses, 0 to 2; a response that is empty or missing has 0 points.

    Source: ReXSonoVQA (arXiv 2604.10916), section 4.1; rajpurkarlab/RexSonoVQA@c2b931f, evaluate_results.py.
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
    said = json_value(row.parsed.removeprefix(JUDGE_MARK))
    return said["score"], said["error_type"]


def _word_for_word(reply: str, question: Question) -> str | None:
    is_reference = reply.split() == question.answer.split() != []
    return verdict(FULL_POINTS, "none") if is_reference else None
