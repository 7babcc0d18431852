"""Scores each question, and averages the scores over subtypes (as version 1) or over questions (as version 2).

Mean relative accuracy of a number, by each of the four definitions that share the name.

"paper" is the default. The paper cites VSI-Bench's formula, whose comparison is strict. The paper's own code was never
published, so the rule for a true answer of 0 (only exactly 0 is right) is that of version 2.
"""

import math
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Sequence
from fractions import Fraction
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from medtune.benchmarks.ctlesionvqa.reply_parsers import is_yes_no
from medtune.benchmarks.ctlesionvqa.subtypes import category, subtype
from medtune.benchmarks.ctlesionvqa.yes_no_table import YesNoTable, yes_no_table
from medtune.data.grouping import grouped
from medtune.data.types import Question
from medtune.eval.metric import Metric, ParsedReply, mean_of_rows, sums_of_rows
from medtune.eval.rows import as_rows
from medtune.eval.scoring.parsers.measures import read_measure
from medtune.eval.statistics import Floats
from medtune.eval.statistics.column_sums import Sums

Mra = Callable[[float, float], float | None]

_THRESHOLDS = 10
# 1 - .50, 1 - .55, ..., 1 - .95 are 10/20, 9/20, ..., 1/20. An error e passes a threshold if 20 e is less than the
# numerator.
_STEPS = 20
_NEAR = 1e-6

RowScore = Callable[[ParsedReply], float]
_REMEMBERED = 1 << 19


def strict(prediction: float, truth: float) -> float | None:
    """Returns the share of the thresholds .50, .55, ..., .95 with |p - y| / |y| < 1 - threshold.

    Both numbers are taken as the decimals that are printed, so 1.05 differs from 1 by exactly 5 %.

    Args:
        prediction: The number in the answer; a number that is not finite scores 0.
        truth: The true number. The formula is undefined for 0, for which None is returned.

    >>> strict(1.05, 1), strict(1.2, 1), strict(-55, -50), strict(1, 0)
    (0.9, 0.6, 0.8, None)

    Source: VSI-Bench (arXiv 2412.14171), section 3.1, equation of MRA, which CTLesionVQA section 3.1 cites.
    """
    error = _steps_of_error(prediction, truth)
    return None if error is None else max(0, _THRESHOLDS - math.floor(error)) / _THRESHOLDS


def inclusive(prediction: float, truth: float) -> float | None:
    """Returns the share of thresholds as in `strict`, but with <= in place of <; None for a truth of 0.

    >>> inclusive(1.05, 1), inclusive(1.2, 1)
    (1.0, 0.7)

    Source: EvolvingLMMs-Lab/lmms-eval@75571cf, lmms_eval/tasks/vsibench/utils.py, its comparison in exact arithmetic.
    """
    error = _steps_of_error(prediction, truth)
    return None if error is None else max(0, _THRESHOLDS + 1 - max(1, math.ceil(error))) / _THRESHOLDS


def vsi_code(prediction: float, truth: float) -> float:
    """Returns the score that VSI-Bench's code computes, which compares with <= in floating-point numbers.

    The code divides by the truth with its sign, so a negative truth gives 1 for every prediction.

    Raises:
        ZeroDivisionError: The truth is 0, as in the original.

    >>> vsi_code(1.35, 1), vsi_code(100.0, -50)
    (0.3, 1.0)

    Source: EvolvingLMMs-Lab/lmms-eval@75571cf, lmms_eval/tasks/vsibench/utils.py (mean_relative_accuracy); its
    `np.linspace(.5, .95, int(10.99...))` has 10 points.
    """
    import numpy as np

    error = abs(prediction - truth) / truth
    return float(np.mean(error <= 1 - np.linspace(0.5, 0.95, _THRESHOLDS)))


def v2_code(prediction: float, truth: float) -> float:
    """Returns max(0, 1 - |p - y| / |y|), without thresholds; for a truth of 0, it is 1 if the prediction is 0, else 0.

    >>> v2_code(1.25, 1), v2_code(0, 0), v2_code(1, 0)
    (0.75, 1.0, 0.0)

    Source: Schuture/DeepTumorVQA@1df7460 (branch v2), src/deeptumorvqa/eval/metrics.py (_mra).
    """
    if truth == 0:
        return float(prediction == 0)
    error = abs(prediction - truth) / abs(truth)
    return max(0.0, 1.0 - error) if math.isfinite(error) else 0.0


def zero_only_for_zero(mra: Mra) -> Callable[[float, float], float]:
    """Returns the definition `mra` extended by version 2's rule for a truth of 0: 1 for exactly 0, else 0."""

    def ruled(prediction: float, truth: float) -> float:
        if truth == 0:
            return float(prediction == 0)
        found = mra(prediction, truth)
        return 0.0 if found is None else found

    return ruled


paper = zero_only_for_zero(strict)
paper_inclusive = zero_only_for_zero(inclusive)


def _steps_of_error(prediction: float, truth: float) -> Fraction | float | None:
    if truth == 0:
        return None
    steps = _STEPS * (abs(prediction - truth) / abs(truth))
    if not steps < _THRESHOLDS + 1:
        return _THRESHOLDS + 1
    if abs(steps - round(steps)) > _NEAR:
        return steps
    exact = Fraction(str(truth))
    return _STEPS * abs(Fraction(str(prediction)) - exact) / abs(exact)


def numeric_score(definition: Callable[[float, float], float]) -> RowScore:
    """Returns a function that scores a row by one definition of mean relative accuracy (MRA).

    An answer that could not be parsed scores 0. If the true answer is not a number, the score is 1 for an equal answer
    and 0 for any other.
    """

    # Results are cached, because one evaluation scores each row for several metrics and for each level of each facet.
    @lru_cache(maxsize=_REMEMBERED)
    def of_texts(parsed: str, answer: str) -> float:
        truth = read_measure(answer)
        if truth is None:
            return float(parsed == answer)
        said = read_measure(parsed)
        return 0.0 if said is None else definition(said, truth)

    return lambda row: 0.0 if row.parsed is None else of_texts(row.parsed, row.question.answer)


def row_score(row: ParsedReply) -> float:
    """Returns the score of a row, 0 to 1: the strict MRA of a number; else 1 for the true answer, 0 for any other.

    A phrase is right if the parser returned the truth, because the parser compares phrases as the official code does.

    Source: CTLesionVQA (arXiv 2505.18915), section 3.1 (task-specific metrics).
    """
    match row.question.answer_kind:
        case "number":
            return _paper(row)
        case "text":
            return float(row.parsed == row.question.answer)
        case _:
            return float(row.correct)


def row_scores(parsed: Sequence[ParsedReply]) -> list[float]:
    found: list[float] = as_rows(parsed).column(row_score).tolist()
    return found


def mean_score(parsed: Sequence[ParsedReply]) -> float | None:
    """Returns the mean of `row_scores`; None if there are no rows."""
    return math.fsum(row_scores(parsed)) / len(parsed) if parsed else None


def mean_chance(parsed: Sequence[ParsedReply]) -> float:
    """Returns the mean score that guessing among the options gives; rows without options count 0."""
    return math.fsum(chance(row.question) for row in parsed) / len(parsed)


def is_number(question: Question) -> bool:
    """Returns whether the question asks for a number in free text."""
    return question.answer_kind == "number"


def is_nonzero_number(question: Question) -> bool:
    """Returns whether the true answer is a number other than 0; VSI-Bench's code fails if it is 0."""
    return is_number(question) and read_measure(question.answer) not in (None, 0)


def is_multiple_choice(question: Question) -> bool:
    """Returns whether the question has options to choose from by letter."""
    return question.answer_kind == "choice"


def is_free_text(question: Question) -> bool:
    """Returns whether the question is answered in the model's own words."""
    return not is_multiple_choice(question)


def is_positive(question: Question) -> bool:
    """Returns whether the true answer is yes."""
    return question.answer.strip().lower() == "yes"


def is_negative(question: Question) -> bool:
    return question.answer.strip().lower() == "no"


def subtype_mean() -> Metric:
    """Returns the unweighted mean over subtypes of their mean score; each format of a subtype counts as one.

    Source: CTLesionVQA (arXiv 2505.18915), Table 3 ("Total Average").
    """
    return Metric(_of_cells, guessing=lambda questions: _guessed(questions, by_subtype=True))


def question_mean() -> Metric:
    """Returns the mean score over questions; a subtype has the more weight the more questions it has.

    Source:
        Schuture/DeepTumorVQA@1df7460 (branch v2), src/deeptumorvqa/eval/metrics.py (aggregate: the weighting alone).
    """
    return Metric(mean_of_rows(row_score), guessing=lambda questions: _guessed(questions, by_subtype=False))


def chance(question: Question) -> float:
    """Returns the score that guessing among the options gives on average; 0 without options."""
    return 1 / len(question.options) if question.options else 0.0


def _guessed(questions: Sequence[Question], *, by_subtype: bool) -> float | None:
    if not any(question.options for question in questions):
        return None
    cells: defaultdict[Hashable, list[float]] = defaultdict(list)
    for question in questions:
        cells[cell_of(question) if by_subtype else None].append(chance(question))
    return math.fsum(math.fsum(found) / len(found) for found in cells.values()) / len(cells)


def right_share() -> Metric:
    """Returns the share of right answers.

    It is the sensitivity on questions whose true answer is yes, and the specificity on those whose true answer is no.
    Replies that are missing or could not be parsed count as wrong in both cases.
    """
    return Metric(mean_of_rows(lambda row: float(row.correct)))


def youden() -> Metric:
    """Returns Youden's index: sensitivity + specificity - 1, from -1 to 1; nan if all true answers are the same.

    Replies that are missing or could not be parsed count as wrong.

    Source: Youden 1950; CTLesionVQA (arXiv 2505.18915), Figure 6.
    """
    return Metric(sums_of_rows(_yes_no_counts, _youden), worst=-1, covers=is_yes_no)


def cell_of(question: Question) -> tuple[str, str]:
    """Returns the format and the subtype of a question; version 1 averages over such pairs."""
    return ("multi_choice" if question.answer_kind == "choice" else "free_text"), subtype_of(question)


def subtype_of(question: Question) -> str:
    """Returns the facet "subtype" of a question, or its task if it has no such facet."""
    return subtype(question.facets.get("subtype", question.facets.get("task", "")))


def category_of(question: Question) -> str:
    """Returns the category of the question's subtype, or its task if the subtype is unknown."""
    return category(subtype_of(question)) or question.facets.get("task", "")


def by_cell(parsed: Iterable[ParsedReply]) -> dict[tuple[str, str], list[ParsedReply]]:
    """Returns the rows by format and subtype."""
    return grouped(parsed, lambda row: cell_of(row.question))


def detection_table(parsed: Iterable[ParsedReply]) -> YesNoTable:
    """Returns the counts of answers by true answer, for the yes-no questions among the rows."""
    return yes_no_table(
        ((row.parsed or "").lower(), row.question.answer.strip().lower()) for row in parsed if is_yes_no(row.question)
    )


_paper = numeric_score(paper)


def _of_cells(parsed: Sequence[ParsedReply]) -> Sums:
    cells = _numbered(parsed)
    width = int(cells.max()) + 1
    rows = np.arange(len(parsed))
    return Sums(
        rows=np.concatenate([rows, rows]),
        columns=np.concatenate([cells, cells + width]),
        values=np.concatenate([as_rows(parsed).column(row_score), np.ones(len(parsed))]),
        num_rows=len(parsed),
        width=2 * width,
        finish=_mean_of_means,
    )


def _numbered(parsed: Sequence[ParsedReply]) -> NDArray[np.intp]:
    rows = as_rows(parsed)
    codes, cells = rows.codes(_cell), rows.names(_cell)
    present = sorted(np.unique(codes).tolist(), key=cells.__getitem__)
    place = np.zeros(len(cells), dtype=np.intp)
    place[present] = np.arange(len(present))
    return place[codes]


def _cell(row: ParsedReply) -> tuple[str, str]:
    return cell_of(row.question)


def _mean_of_means(sums: Floats) -> Floats:
    width = sums.shape[-1] // 2
    totals, counts = sums[..., :width], sums[..., width:]
    means = np.divide(totals, counts, out=np.zeros_like(totals), where=counts > 0)
    mean: Floats = means.sum(axis=-1) / (counts > 0).sum(axis=-1)
    return mean


def _yes_no_counts(row: ParsedReply) -> tuple[bool, bool, bool, bool]:
    positive = is_positive(row.question)
    return positive and row.correct, positive, not positive and row.correct, not positive


def _youden(sums: Floats) -> Floats:
    hits, positives, rejections, negatives = (sums[..., column] for column in range(4))
    with np.errstate(invalid="ignore", divide="ignore"):
        index: Floats = hits / positives + rejections / negatives - 1
    return index
