"""Compares the answers to each question without the video ("blind") and with it.

The official code prints no such comparison; the tables have the shape of the paper's Appendix C. The paper pairs the
video runs of all its models with a single blind run, that of Gemini 3 Pro.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from medtune.benchmarks.rexsonovqa.scored_items import FULL_POINTS, WRONG_CONCLUSION, WRONG_EVIDENCE

MCQ_OUTCOMES = ("correct", "incorrect")
FREE_OUTCOMES = ("2", "1_wrong_conclusion", "1_wrong_visual", "0")

_SINGLE = {WRONG_CONCLUSION: 1, WRONG_EVIDENCE: 2}

Cells = tuple[tuple[int, ...], ...]


@dataclass(frozen=True, slots=True)
class FreeOutcome:
    """The points of a free response, 0 to 2, and the type of error that the judge found; None if it named none."""

    score: float
    error_type: str | None


@dataclass(frozen=True, slots=True)
class McqCrossing:
    """The outcomes of the same multiple-choice questions without the video (blind) and with it.

    Attributes:
        cells: The number of questions by outcome. Rows are for blind answers, columns for answers with video, in the
            order right, wrong, total.
        recovery: The share of the questions answered wrong blind that were right with video; None if there are none.
        loss: The share of the questions answered right blind that were wrong with video; None if there are none.
        blind_accuracy: The share of right answers without the video, 0 to 1.
        video_accuracy: The share of right answers with the video, 0 to 1.
    """

    cells: Cells
    recovery: float | None
    loss: float | None
    blind_accuracy: float
    video_accuracy: float


@dataclass(frozen=True, slots=True)
class FreeCrossing:
    """The outcomes of the same free-response questions without the video (blind) and with it.

    Attributes:
        cells: The number of questions by outcome. Rows are for blind answers, columns for answers with video, in the
            order 2 points, 1 point (wrong conclusion), 1 point (wrong visual evidence), 0 points, total.
        blind_mean: The mean points without the video.
        video_mean: The mean points with the video.
        improved: The number of questions that have more points with the video than blind.
        same: The number of questions that have equal points in both; the type of error does not matter.
        worse: The number of questions that have fewer points with the video than blind.
    """

    cells: Cells
    blind_mean: float
    video_mean: float
    improved: int
    same: int
    worse: int


def cross_mcq(blind: Sequence[bool], video: Sequence[bool]) -> McqCrossing:
    """Returns the 2 x 2 table of the same questions in two settings; without questions it is all zeros.

    Example:
        >>> found = cross_mcq([True, False, False], [True, True, False])
        >>> found.cells, found.recovery
        (((1, 0, 1), (1, 1, 2), (2, 1, 3)), 0.5)

    Source:
        ReXSonoVQA (arXiv 2604.10916), Appendix C, Tables A1, A3, A5, A7.
    """
    cells = _with_totals([int(not right) for right in blind], [int(not right) for right in video], 2)
    (_, lost, blind_right), (recovered, _, blind_wrong), (video_right, _, n) = cells
    return McqCrossing(
        cells=cells,
        recovery=recovered / blind_wrong if blind_wrong else None,
        loss=lost / blind_right if blind_right else None,
        blind_accuracy=blind_right / n if n else 0.0,
        video_accuracy=video_right / n if n else 0.0,
    )


def cross_free(blind: Sequence[FreeOutcome], video: Sequence[FreeOutcome]) -> FreeCrossing:
    """Returns the 4 x 4 table of the same questions in two settings; without questions it is all zeros.

    Source:
        ReXSonoVQA (arXiv 2604.10916), Appendix C, Tables A2, A4, A6, A8.
    """
    cells = _with_totals([free_outcome(each) for each in blind], [free_outcome(each) for each in video], 4)
    gains = [after.score - before.score for before, after in zip(blind, video, strict=True)]
    n = max(len(gains), 1)
    return FreeCrossing(
        cells=cells,
        blind_mean=sum(each.score for each in blind) / n,
        video_mean=sum(each.score for each in video) / n,
        improved=sum(gain > 0 for gain in gains),
        same=sum(gain == 0 for gain in gains),
        worse=sum(gain < 0 for gain in gains),
    )


def free_outcome(each: FreeOutcome) -> int:
    """Returns the position of an outcome in `FREE_OUTCOMES`.

    An outcome that is neither 2 points nor 1 point with a single error counts as 0 points, both wrong.
    """
    if each.score == FULL_POINTS:
        return 0
    return _SINGLE.get(each.error_type or "", 3) if each.score == 1 else 3


def _with_totals(rows: Sequence[int], columns: Sequence[int], size: int) -> Cells:
    cells = [[0] * (size + 1) for _ in range(size + 1)]
    for row, column in zip(rows, columns, strict=True):
        for down in (row, size):
            for across in (column, size):
                cells[down][across] += 1
    return tuple(tuple(row) for row in cells)
