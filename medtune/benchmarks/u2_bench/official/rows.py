"""Computes a model's row of Table 1 as the official scripts would, from medtune's questions and the raw replies.

The official code has an error in how it reads the ids of data sets; the score is computed with and without it.

Source: Formula: U2-Bench (arXiv 2505.17779), section 4.2 and Table 6. Aggregation: gurenolun/Dolphin-ai-bench,
table_fill/update_table_score_format.py.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from medtune.benchmarks.u2_bench.metrics import has_every_task
from medtune.benchmarks.u2_bench.official.labels import (
    ClassScores,
    Mode,
    OfficialFailureError,
    Value,
    ValueScores,
    class_scores,
    position_accuracy,
    predicted_value,
    read_position,
    read_row,
    value_scores,
)
from medtune.benchmarks.u2_bench.official.u2_score import TaskMeans, u2_score
from medtune.benchmarks.u2_bench.parsers import prepared_reply, task_of, truth_cell
from medtune.benchmarks.u2_bench.table1_row import Row, by_set
from medtune.benchmarks.u2_bench.tasks_and_sets import CLASSIFICATION, DETECTION, RANGES, TASKS, TEXT
from medtune.data.types import Question
from medtune.eval.metric import ParsedReply
from medtune.eval.metrics.bleu import bleu_counts, bleu_of_counts
from medtune.eval.metrics.rouge_l import rouge_l

Ids = Literal["numbers", "text"]
_PLACES = 4

Pair = tuple[Question, str]
OFFICIAL: Mapping[str, tuple[Mode, bool]] = {
    "official_strict": ("strict", False),
    "official_lenient": ("lenient", False),
    "official_extracted": ("lenient", True),
}


@dataclass(frozen=True, slots=True)
class SetTables:
    """The results of one model for each data set, as in the official code's four result files."""

    classification: Sequence[tuple[str, float, float]] = ()  # The id of the data set, the accuracy and F1.
    detection: Sequence[tuple[str, float]] = ()
    # The id, the RMSE and the percentage within the tolerance; nan and inf are allowed.
    values: Sequence[tuple[str, float, float]] = ()
    text: Sequence[tuple[str, float]] = ()  # The id and BLEU-4 x 100.

    def printed(self, *, text_places: int = _PLACES) -> SetTables:
        """Returns the results as the official scripts print them, which is what their aggregator reads.

        Args:
            text_places: The number of decimals of BLEU-4; all other values have four.

        >>> SetTables(detection=[("13", 2 / 3)]).printed().detection
        [('13', 0.6667)]

        Source: `save_results` and `write_combined_results` of dolphin-sound/u2-bench-evalkit, vlmeval/eval_func, and
        gurenolun/Dolphin-ai-bench, new_results.
        """
        return SetTables(
            classification=[(name, _print(acc), _print(f1)) for name, acc, f1 in self.classification],
            detection=[(name, _print(acc)) for name, acc in self.detection],
            values=[(name, _print(rmse), _print(within)) for name, rmse, within in self.values],
            text=[(name, _print(bleu, text_places)) for name, bleu in self.text],
        )


def official_means(tables: SetTables, *, ids: Ids) -> TaskMeans:
    """Returns the task means of the official aggregator.

    Args:
        ids: "numbers" reads ids as the published script does: if all ids of a result file are numeric, they become
            numbers, so that '04' and '09' are not found in LL and OD. "text" keeps ids as text, as was intended.
    """

    def mean(rows: Sequence[tuple[str, *tuple[float, ...]]], task: str, column: int) -> float:
        known = _as_read([row[0] for row in rows], ids)
        numbers = [row[1:][column] for id_, row in zip(known, rows, strict=True) if id_ in TASKS[task]]
        finite = [number for number in numbers if math.isfinite(number)]
        return math.fsum(finite) / len(finite) if finite else 0.0

    return TaskMeans(
        diag_acc=mean(tables.classification, "DD", 0),
        diag_f1=mean(tables.classification, "DD", 1),
        vra_acc=mean(tables.classification, "VRA", 0),
        vra_f1=mean(tables.classification, "VRA", 1),
        ll_acc=mean(tables.detection, "LL", 0),
        od_acc=mean(tables.detection, "OD", 0),
        kd_acc=mean(tables.detection, "KD", 0),
        cve_rmse=mean(tables.values, "CVE", 0),
        cve_tol=mean(tables.values, "CVE", 1),
        rg_bleu=mean(tables.text, "RG", 0),
        cg_bleu=mean(tables.text, "CG", 0),
        has_values=any(math.isfinite(rmse) for _, rmse, _ in tables.values),
    )


def official_score(means: TaskMeans) -> float:
    """Returns the score as the official aggregator prints it, with four decimals."""
    return round(u2_score(means.terms), _PLACES)


def _print(value: float, places: int = _PLACES) -> float:
    return float(f"{value:.{places}f}")


def _as_read(ids: Sequence[str], how: Ids) -> list[str]:
    if how == "numbers" and all(id_.isdigit() for id_ in ids):
        return [str(int(id_)) for id_ in ids]
    return list(ids)


@dataclass(frozen=True, slots=True)
class Scored:
    """The results by the id of the data set; a data set on which the official script fails is missing."""

    classification: Mapping[str, ClassScores]
    detection: Mapping[str, float]
    values: Mapping[str, ValueScores]
    text: Mapping[str, tuple[float, float]]  # BLEU-4 and ROUGE-L of texts, both x 100.
    lost: int  # The number of replies that are dropped or belong to a missing data set.
    failures: Mapping[str, str]  # The reason why the script fails, for each missing data set, e.g. "DD 44".

    @property
    def tables(self) -> SetTables:
        """The four result files that the official aggregator reads."""
        return SetTables(
            classification=[(name, scores.acc, scores.f1) for name, scores in self.classification.items()],
            detection=list(self.detection.items()),
            values=[(name, scores.rmse, scores.pct_within_tolerance) for name, scores in self.values.items()],
            text=[(name, bleu) for name, (bleu, _) in self.text.items()],
        )


def row(parsed: Sequence[ParsedReply], parser: str) -> Row:
    """Returns the cells of Table 1 by column, with the score that the official aggregator would print.

    The score is None unless every task has questions.
    """
    scored = set_tables(parsed, parser)
    means = official_means(scored.tables, ids="numbers")
    return {
        "DD_Acc": means.diag_acc,
        "DD_F1": means.diag_f1,
        "VRA_Acc": means.vra_acc,
        "VRA_F1": means.vra_f1,
        "LL_Acc": means.ll_acc,
        "OD_Acc": means.od_acc,
        "KD_Acc": means.kd_acc,
        "CVE_RMSE": means.cve_rmse,
        "CVE_MAE": _mean([scores.mae for scores in scored.values.values()]),
        "CVE_pct_tol": means.cve_tol,
        "RG_BLEU": means.rg_bleu,
        "RG_ROUGE": _rouge(scored, "RG"),
        "CG_BLEU": means.cg_bleu,
        "CG_ROUGE": _rouge(scored, "CG"),
        "U2_Score": official_score(means) if has_every_task([each.question for each in parsed]) else None,
    }


def by_task(scored: Scored) -> tuple[float, ...]:
    """Returns the values that enter the score: five accuracies, the RMSE of values, and two BLEU-4 x 100."""
    means = official_means(scored.tables, ids="numbers")
    accuracies = means.diag_acc, means.vra_acc, means.ll_acc, means.od_acc, means.kd_acc
    return (*accuracies, means.cve_rmse, means.rg_bleu, means.cg_bleu)


def variants(tables: SetTables) -> tuple[float, float, float]:
    """Returns three variants of the score.

    They are the score as published; with the ids of data sets kept as text; and, in addition to this, without the
    credit that the published score gives for missing values.
    """
    meant = official_means(tables, ids="text")
    published = official_score(official_means(tables, ids="numbers"))
    return published, official_score(meant), round(u2_score(meant.earned_terms), 4)


def score_of_prints(tables: SetTables, parser: str) -> float:
    """Returns the score that the official aggregator computes from the results as a parser's scripts print them.

    All values have four decimals, but the strict script for texts prints two.
    """
    mode, _ = OFFICIAL[parser]
    return official_score(official_means(tables.printed(text_places=2 if mode == "strict" else 4), ids="numbers"))


def set_tables(parsed: Sequence[ParsedReply], parser: str) -> Scored:
    """Returns the results of each data set when replies are read with one of the official parsers."""
    mode, is_extracted = OFFICIAL[parser]
    classification: dict[str, ClassScores] = {}
    detection: dict[str, float] = {}
    values: dict[str, ValueScores] = {}
    text: dict[str, tuple[float, float]] = {}
    lost, failures = 0, dict[str, str]()
    for task in TASKS:
        for dataset, rows in by_set([row for row in parsed if task_of(row.question) == task]).items():
            pairs = [(row.question, _reply(row, is_extracted)) for row in rows]
            try:
                if task in CLASSIFICATION:
                    classification[dataset], dropped = _classes(pairs, dataset, mode)
                elif task in DETECTION:
                    detection[dataset], dropped = _positions(pairs, mode)
                elif task in TEXT:
                    text[dataset], dropped = _texts(pairs, mode), 0
                else:
                    values[dataset] = _values(pairs, dataset, mode)
                    dropped = values[dataset].failed_items
            except OfficialFailureError as failure:
                dropped = len(rows)
                failures[f"{task} {dataset}"] = str(failure)
            lost += dropped
    return Scored(classification, detection, values, text, lost, failures)


def _classes(pairs: Sequence[Pair], dataset: str, mode: Mode) -> tuple[ClassScores, int]:
    readings = [read_row(truth_cell(asked), reply, dataset=dataset, mode=mode) for asked, reply in pairs]
    return class_scores(readings, mode=mode), sum(reading.label is None for reading in readings)


def _positions(pairs: Sequence[Pair], mode: Mode) -> tuple[float, int]:
    positions = [read_position(reply, mode=mode) for _, reply in pairs]
    accuracy = position_accuracy([asked.answer for asked, _ in pairs], positions)
    return accuracy, sum(position.is_dropped for position in positions)


def _values(pairs: Sequence[Pair], dataset: str, mode: Mode) -> ValueScores:
    if dataset not in RANGES:
        raise OfficialFailureError("not scored", f"the official scripts leave set {dataset} out")
    predicted = [(asked, predicted_value(reply, mode=mode)) for asked, reply in pairs]
    values = [
        Value(is_failed=True) if number is None else Value(float(asked.answer), number) for asked, number in predicted
    ]
    return value_scores(values, dataset=dataset)


def _texts(pairs: Sequence[Pair], mode: Mode) -> tuple[float, float]:
    texts = [(reply, asked.answer) for asked, reply in pairs]
    if mode == "lenient":
        texts = [(reply.strip(), answer.strip()) for reply, answer in texts]
    counts = np.array([bleu_counts(*each) for each in texts]).sum(axis=0)
    return 100 * float(bleu_of_counts(counts)), 100 * _mean([rouge_l(*each) for each in texts])


def _reply(row: ParsedReply, is_extracted: bool) -> str:
    reply = (row.prediction.text if row.prediction else None) or ""
    return prepared_reply(reply, row.question) if is_extracted else reply


def _rouge(scored: Scored, task: str) -> float:
    return _mean([rouge for dataset, (_, rouge) in scored.text.items() if dataset in TASKS[task]])


def _mean(values: Sequence[float]) -> float:
    finite = [value for value in values if math.isfinite(value)]
    return sum(finite) / len(finite) if finite else 0.0
