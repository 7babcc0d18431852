"""The scores of ReXSonoVQA's questions, and their sums by question type and by the clip's length."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from medtune.benchmarks.facets import DURATION_BINS

WRONG_CONCLUSION, WRONG_EVIDENCE = "wrong_conclusion", "wrong_visual_evidence"
SINGLE_ERRORS = (WRONG_CONCLUSION, WRONG_EVIDENCE)
UNKNOWN_ERROR = "unknown"
# The points of a perfect free response; a right answer to a multiple-choice question has 1 point.
FULL_POINTS = 2


@dataclass(frozen=True, slots=True)
class ScoredItem:
    """One question with its score.

    Attributes:
        is_mcq: Whether it is a multiple-choice question (at most 1 point) or a free response (at most 2 points).
        question_type: The type of question, as the function `question_type` returns it.
        duration: The bin of the clip's length, as the function `duration_bin` returns it.
        score: The points.
        error_type: The type of error that the judge named; "unknown" if it named none, None for multiple choice.
    """

    is_mcq: bool
    question_type: str
    duration: str
    score: float
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

    Source:
        ReXSonoVQA (arXiv 2604.10916), Table A2 against the published score files; not stated in the paper.
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


TYPES = ("Type1_ActionGoalReasoning", "Type2_ArtifactResolutionOptimization", "Type3_ProcedureContextPlanning")
_OLDER_TYPES = {
    "Type4_DisambiguationSafetyDecision": TYPES[1],
    "Type2_OptimizationTroubleshooting": TYPES[1],
}


def question_type(name: str) -> str:
    """Returns the present name of a question type, which had other names before; an unknown type is returned unchanged.

    Source:
        rajpurkarlab/RexSonoVQA@c2b931f, evaluate_results.py (normalize_question_type).
    """
    return _OLDER_TYPES.get(name, name)


def is_kept(row: Mapping[str, object]) -> bool:
    """Returns whether a row is scored: its "keep" is missing or the boolean true (the text "true" and 1 do not count).

    Source:
        rajpurkarlab/RexSonoVQA@c2b931f, evaluate_results.py (print_statistics).
    """
    return row.get("keep", True) is True
