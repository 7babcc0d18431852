"""U2-Bench's metrics of parsed replies; the module `sums_by_set` says how they differ from the official scripts'."""

from collections import Counter
from collections.abc import Sequence

from medtune.benchmarks.u2_bench.official.score import EXACT_WEIGHTS
from medtune.benchmarks.u2_bench.parsers import task_of
from medtune.benchmarks.u2_bench.reply_errors import VALID, reply_type
from medtune.benchmarks.u2_bench.sums_by_set import (
    macro_f1_sums,
    mean_absolute,
    mean_over_sets,
    of_blocks,
    root_mean_square,
    share_right,
    u2_of,
)
from medtune.benchmarks.u2_bench.tasks_and_sets import CLASSIFICATION, DETECTION, TEXT, VALUE
from medtune.benchmarks.u2_bench.weights_and_ranges import CASES
from medtune.data.types import Question
from medtune.eval.metric import Metric, mean_of_rows
from medtune.eval.metrics.bleu4 import metric as bleu4
from medtune.eval.metrics.rouge_l import metric as rouge_l
from medtune.eval.parsed_reply import ParsedReply

REJECTED_SHARE = 0.01
"""Largest share of a task's cases that may be missing, because `prepare` could not read them."""


def has_every_task(questions: Sequence[Question]) -> bool:
    """Returns whether there are questions of all eight tasks, which the U2-Score is made of."""
    return set(CASES) <= {task_of(question) for question in questions}


def missing(questions: Sequence[Question]) -> str:
    """Returns how many of the published cases the questions are, e.g. "6 of its 7,241 questions"; "" if all."""
    asked = Counter(task_of(question) for question in questions)
    if all(asked[task] >= (1 - REJECTED_SHARE) * cases for task, cases in CASES.items()):
        return ""
    return f"{len(questions):,} of its {sum(CASES.values()):,} questions"


def u2_score() -> Metric:
    """Returns the U2-Score with the weights that the paper prints."""
    return Metric(of_blocks(u2_of), is_defined_on=has_every_task)


def u2_score_exact_weights() -> Metric:
    """Returns the U2-Score with the tasks' exact shares of cases as weights, as the paper's formula states."""
    exact = of_blocks(lambda blocks: u2_of(blocks, EXACT_WEIGHTS))
    return Metric(exact, is_defined_on=has_every_task)


def mean_accuracy() -> Metric:
    """Returns the mean accuracy over data sets; for clinical values it is the share within the tolerance."""
    return Metric(of_blocks(lambda blocks: mean_over_sets(blocks, share_right)))


def macro_f1() -> Metric:
    """Returns the mean over data sets of the macro F1, which is over all labels that are true or predicted."""
    return Metric(macro_f1_sums, covers=_is_class)


def rmse() -> Metric:
    """Returns the mean over data sets of the root mean square error, in units of each data set's range of values."""
    blocks_rmse = of_blocks(lambda blocks: mean_over_sets(blocks, root_mean_square))
    return Metric(blocks_rmse, worst=1.0, best=0.0, covers=_is_value)


def mae() -> Metric:
    """Returns the mean over data sets of the mean absolute error, in units of each data set's range of values."""
    blocks_mae = of_blocks(lambda blocks: mean_over_sets(blocks, mean_absolute))
    return Metric(blocks_mae, worst=1.0, best=0.0, covers=_is_value)


def instruction_following() -> Metric:
    """Returns the share of replies in the requested format; an option chosen by likelihood counts as such.

    Source:
        U2-Bench (arXiv 2505.17779), Table 2, which does not define the term; our definition is `reply_errors.VALID`.
    """
    return Metric(mean_of_rows(_follows), covers=_is_diagnosis)


def _follows(row: ParsedReply) -> float:
    if row.prediction is None:
        return 0.0
    return float(row.prediction.text is None or reply_type(row.prediction.text, row.question) == VALID)


def _is_value(question: Question) -> bool:
    return task_of(question) == VALUE


def _is_text(question: Question) -> bool:
    return task_of(question) in TEXT


def _is_no_text(question: Question) -> bool:
    return task_of(question) not in TEXT


def _is_class(question: Question) -> bool:
    return task_of(question) in CLASSIFICATION


def _is_position(question: Question) -> bool:
    return task_of(question) in DETECTION


def _is_diagnosis(question: Question) -> bool:
    return task_of(question) == "DD"


METRICS = {
    "u2_score": u2_score(),
    "u2_score_exact_weights": u2_score_exact_weights(),
    # Of a part of the benchmark, which has no U2-Score, this metric is primary.
    "mean_accuracy": mean_accuracy().only(_is_no_text),
    "accuracy": mean_accuracy().only(_is_class),
    "macro_f1": macro_f1(),
    "position_accuracy": mean_accuracy().only(_is_position),
    "rmse": rmse(),
    "mae": mae(),
    "within_tolerance": mean_accuracy().only(_is_value),
    "bleu4": bleu4().only(_is_text),
    "rouge_l": rouge_l().only(_is_text),
    "instruction_following": instruction_following(),
}
