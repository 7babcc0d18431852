"""A model's row of Table 1 as medtune scores it."""

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np

from medtune.benchmarks.u2_bench.metrics import (
    bleu4_of,
    has_every_task,
    macro_f1,
    mae,
    mean_accuracy,
    mean_over_sets,
    of_blocks,
    rmse,
    u2_score,
    value_error,
)
from medtune.benchmarks.u2_bench.official.labels import ValueScores
from medtune.benchmarks.u2_bench.parsers import task_of
from medtune.benchmarks.u2_bench.tasks_and_sets import CLASSIFICATION, DETECTION, TEXT, TOLERANCE, VALUE, WEIGHTS
from medtune.data.grouping import grouped
from medtune.data.types import Question
from medtune.eval.metric import Metric, ParsedReply
from medtune.eval.metrics.rouge_l import metric as rouge_l
from medtune.eval.scoring.bertscore import BertModel, bert_scores

Row = dict[str, float | None]


def bleu4() -> Metric:
    """Returns the mean over data sets of corpus BLEU-4."""
    return Metric(of_blocks(lambda blocks: mean_over_sets(blocks, bleu4_of)))


def row(parsed: Sequence[ParsedReply], *, text_model: BertModel | None = None) -> Row:
    """Returns the cells of Table 1 by column, in the paper's units; None for a task without questions.

    The score is None unless every task has questions.
    """
    of = {
        task: [each for each in parsed if task_of(each.question) == task]
        for task in (*CLASSIFICATION, *DETECTION, *TEXT, VALUE)
    }
    found: Row = {f"{task}_Acc": _value(mean_accuracy(), of[task]) for task in (*CLASSIFICATION, *DETECTION)}
    found |= {f"{task}_F1": _value(macro_f1(), of[task]) for task in CLASSIFICATION}
    found |= {"CVE_RMSE": _value(rmse(), of[VALUE]), "CVE_MAE": _value(mae(), of[VALUE])}
    found["CVE_pct_tol"] = _percent(_value(mean_accuracy(), of[VALUE]))
    for task in TEXT:
        found[f"{task}_BLEU"] = _percent(_value(bleu4(), of[task]))
        found[f"{task}_ROUGE"] = _percent(mean_by_set(of[task], rouge_l().value))
        found[f"{task}_BERT"] = _percent(mean_by_set(of[task], partial(bert_f1, model=text_model)))
    is_whole = has_every_task([each.question for each in parsed])
    found["U2_Score"] = _value(u2_score(), parsed) if is_whole else None
    return found


def guessed(questions: Sequence[Question]) -> Row:
    """Returns the cells of Table 1 that guessing gives on average; what cannot be guessed has none."""
    of = {task: [each for each in questions if task_of(each) == task] for task in WEIGHTS}
    found: Row = {f"{task}_Acc": _guess(mean_accuracy(), of[task]) for task in (*CLASSIFICATION, *DETECTION)}
    found |= {"CVE_RMSE": _guess(rmse(), of[VALUE]), "CVE_MAE": _guess(mae(), of[VALUE])}
    found["CVE_pct_tol"] = _percent(_guess(mean_accuracy(), of[VALUE]))
    found["U2_Score"] = _guess(u2_score(), questions) if has_every_task(questions) else None
    return found


def by_task(parsed: Sequence[ParsedReply]) -> tuple[float | None, ...]:
    """Returns the values that enter the score: five accuracies, the RMSE of values, and two BLEU-4 x 100."""
    cells = row(parsed)
    names = [f"{task}_Acc" for task in (*CLASSIFICATION, *DETECTION)]
    return tuple(cells[name] for name in (*names, "CVE_RMSE", "RG_BLEU", "CG_BLEU"))


def values_by_set(parsed: Sequence[ParsedReply]) -> dict[str, ValueScores]:
    """Returns the scores of clinical values by data set; no reply is left out, so none is counted as failed."""
    found = {}
    for name, rows in by_set([each for each in parsed if task_of(each.question) == VALUE]).items():
        errors = np.array([value_error(each) for each in rows])
        found[name] = ValueScores(
            mae=float(np.abs(errors).mean()),
            rmse=float(np.sqrt(np.square(errors).mean())),
            std=float(errors.std()),
            pct_within_tolerance=float(100 * (np.abs(errors) <= TOLERANCE).mean()),
            failed_items=0,
        )
    return found


def mean_by_set(parsed: Sequence[ParsedReply], value: Callable[[Sequence[ParsedReply]], float | None]) -> float | None:
    """Returns the mean of a value over the data sets that have one; None if no data set has one."""
    found = [value(rows) for rows in by_set(parsed).values()]
    known = [each for each in found if each is not None]
    return sum(known) / len(known) if known else None


def by_set(parsed: Sequence[ParsedReply]) -> dict[str, list[ParsedReply]]:
    return grouped(parsed, lambda each: each.question.facets["dataset"])


def bert_f1(parsed: Sequence[ParsedReply], *, model: BertModel | None) -> float | None:
    """Returns the mean BERTScore F1 of texts; None if `model` is None."""
    if model is None:
        return None
    scores = bert_scores([each.parsed or "" for each in parsed], [each.question.answer for each in parsed], model)
    return sum(score.f1 for score in scores) / len(scores)


def _value(metric: Metric, parsed: Sequence[ParsedReply]) -> float | None:
    return metric.value(parsed) if parsed else None


def _guess(metric: Metric, asked: Sequence[Question]) -> float | None:
    return metric.guessing(asked) if asked else None


def _percent(share: float | None) -> float | None:
    return None if share is None else 100 * share
