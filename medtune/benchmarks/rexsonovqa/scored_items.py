"""Scored items of ReXSonoVQA, and their sums by the groups of its report: type and duration."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from medtune.benchmarks.facets import DURATION_BINS

WRONG_CONCLUSION, WRONG_EVIDENCE = "wrong_conclusion", "wrong_visual_evidence"
SINGLE_ERRORS = (WRONG_CONCLUSION, WRONG_EVIDENCE)
UNKNOWN_ERROR = "unknown"
# The points of a perfect free response; a multiple-choice question is worth 1.
FULL_POINTS = 2


@dataclass(frozen=True, slots=True)
class ScoredItem:
    """One question with its score.

    Attributes:
        is_mcq: Multiple choice, worth 1; else a free response, worth 2.
        question_type: As `question_type` returns it.
        duration: As `duration_bin` returns it.
        score: 0 or 1, or the judge's 0 to 2.
        error_type: The judge's; "unknown" where it said none at all, None for multiple choice.
    """

    is_mcq: bool
    question_type: str
    duration: str
    score: float
    error_type: str | None = None


class Tally(NamedTuple):
    """A sum of scores over a number of items."""

    total: float
    n: int

    @property
    def mean(self) -> float:
        """Sum / number; 0 where there are no items, as the official report prints it."""
        return self.total / self.n if self.n else 0.0


def recode_zero_with_single_error(items: Iterable[ScoredItem]) -> list[ScoredItem]:
    """Returns the items with 1 point for each free response that has 0 points but only one error.

    The paper's free-response numbers of Gemini 3 Pro follow this (11 items, .9057 -> .9472); those of its other
    models, and the official script, follow the scores as they are. Off unless asked for.

    Source:
        ReXSonoVQA (arXiv 2604.10916), Table A2 against the published score files; not stated in the paper.
    """
    return [
        replace(item, score=1) if not item.is_mcq and item.score == 0 and item.error_type in SINGLE_ERRORS else item
        for item in items
    ]


def tally(items: Sequence[ScoredItem]) -> Tally:
    """Returns the sum and number of the scores."""
    return Tally(sum(item.score for item in items), len(items))


def tally_by_type(items: Sequence[ScoredItem]) -> dict[str, Tally]:
    """Returns a tally for each type that occurs, in alphabetical order."""
    names = sorted({item.question_type for item in items})
    return {name: tally([item for item in items if item.question_type == name]) for name in names}


def tally_by_duration(items: Sequence[ScoredItem]) -> dict[str, Tally]:
    """Returns a tally for each of the four bins, empty ones included."""
    return {name: tally([item for item in items if item.duration == name]) for name in DURATION_BINS}


def constant_letter(keys: Sequence[str]) -> dict[str, Tally]:
    """Returns what always giving one letter scores, for each letter that is a key.

    Always say this beside an accuracy: on the published order of options "A" is right for 110 of 249.
    """
    return {letter: Tally(keys.count(letter), len(keys)) for letter in sorted(set(keys))}
