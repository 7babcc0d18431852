"""U2-Bench's metrics of parsed replies; the module `sums_by_set` says how they differ from the official scripts'."""

from __future__ import annotations

from collections.abc import Sequence

from medtune.benchmarks.u2_bench.official.score import EXACT_WEIGHTS
from medtune.benchmarks.u2_bench.parsers import task_of
from medtune.benchmarks.u2_bench.reply_errors import VALID, reply_type
from medtune.benchmarks.u2_bench.sums_by_set import (
    block_sums,
    macro_f1_sums,
    mean_absolute,
    mean_over_sets,
    root_mean_square,
    share_right,
    u2_of,
)
from medtune.benchmarks.u2_bench.tasks_and_sets import CLASSIFICATION, DETECTION, TEXT, VALUE
from medtune.data.types import Question
from medtune.eval.benchmark import ParsedReply, Scale, SummedMetric
from medtune.eval.metrics.bleu4 import metric as bleu4
from medtune.eval.metrics.rouge_l import metric as rouge_l
from medtune.eval.statistics.summed_metric import Sums, mean_of


@SummedMetric
def u2_score(parsed: Sequence[ParsedReply]) -> Sums:
    """Returns the U2-Score with the printed weights."""
    return block_sums(parsed, u2_of)


@SummedMetric
def u2_score_exact_weights(parsed: Sequence[ParsedReply]) -> Sums:
    """Returns the U2-Score with the exact shares of cases as weights, as its formula says."""
    return block_sums(parsed, lambda blocks: u2_of(blocks, EXACT_WEIGHTS))


@SummedMetric
def mean_accuracy(parsed: Sequence[ParsedReply]) -> Sums:
    """Returns the mean accuracy over data sets; of values, the share within the tolerance."""
    return block_sums(parsed, lambda blocks: mean_over_sets(blocks, share_right))


@SummedMetric
def macro_f1(parsed: Sequence[ParsedReply]) -> Sums:
    """Returns the mean over data sets of the macro F1 over truth and predicted labels."""
    return macro_f1_sums(parsed)


@SummedMetric
def rmse(parsed: Sequence[ParsedReply]) -> Sums:
    """Returns the mean RMSE over data sets, in ranges."""
    return block_sums(parsed, lambda blocks: mean_over_sets(blocks, root_mean_square))


@SummedMetric
def mae(parsed: Sequence[ParsedReply]) -> Sums:
    """Returns the mean MAE over data sets, in ranges."""
    return block_sums(parsed, lambda blocks: mean_over_sets(blocks, mean_absolute))


@SummedMetric
def instruction_following(parsed: Sequence[ParsedReply]) -> Sums:
    """Returns the share of replies that keep to the format; options that were read by likelihood do.

    Source:
        U2-Bench (arXiv 2505.17779), Table 2, which does not define it; ours is `errors.VALID`.
    """
    return mean_of([_follows(row) for row in parsed])


def _follows(row: ParsedReply) -> bool:
    if row.prediction is None:
        return False
    return row.prediction.text is None or reply_type(row.prediction.text, row.question) == VALID


def _is_value(question: Question) -> bool:
    return task_of(question) == VALUE


def _is_text(question: Question) -> bool:
    return task_of(question) in TEXT


def _is_class(question: Question) -> bool:
    return task_of(question) in CLASSIFICATION


def _is_position(question: Question) -> bool:
    return task_of(question) in DETECTION


def _is_diagnosis(question: Question) -> bool:
    return task_of(question) == "DD"


METRICS = {
    "u2_score": u2_score,
    "u2_score_exact_weights": u2_score_exact_weights,
    "accuracy": mean_accuracy,
    "macro_f1": macro_f1,
    "position_accuracy": mean_accuracy,
    "rmse": rmse,
    "mae": mae,
    "within_tolerance": mean_accuracy,
    "bleu4": bleu4,
    "rouge_l": rouge_l,
    "instruction_following": instruction_following,
}
SCALES = {
    "accuracy": Scale(covers=_is_class),
    "macro_f1": Scale(covers=_is_class),
    "position_accuracy": Scale(covers=_is_position),
    "rmse": Scale(worst=1.0, best=0.0, covers=_is_value),
    "mae": Scale(worst=1.0, best=0.0, covers=_is_value),
    "within_tolerance": Scale(covers=_is_value),
    "bleu4": Scale(covers=_is_text),
    "rouge_l": Scale(covers=_is_text),
    "instruction_following": Scale(covers=_is_diagnosis),
}
