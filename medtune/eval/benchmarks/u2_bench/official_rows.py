"""A model's row of Table 1 as the official scripts score it, from our questions and raw replies."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from medtune.eval.benchmark import Judged
from medtune.eval.benchmarks.u2_bench.official import OfficialFailureError
from medtune.eval.benchmarks.u2_bench.official_labels import Mode, class_scores, read_row
from medtune.eval.benchmarks.u2_bench.official_positions import position_accuracy, read_position
from medtune.eval.benchmarks.u2_bench.official_score import SetTables, official_means, official_score, u2_score
from medtune.eval.benchmarks.u2_bench.official_values import Value, predicted_value, value_scores
from medtune.eval.benchmarks.u2_bench.our_row import Row
from medtune.eval.benchmarks.u2_bench.parsers import prepared_reply, task_of, truth_cell
from medtune.eval.benchmarks.u2_bench.tasks import CLASSIFICATION, DETECTION, RANGES, TASKS, TEXT, VALUE
from medtune.eval.metrics.bleu4 import bleu_counts, bleu_of_counts
from medtune.eval.metrics.rouge_l import rouge_l

OFFICIAL: Mapping[str, tuple[Mode, bool]] = {
    "official_strict": ("strict", False),
    "official_lenient": ("lenient", False),
    "official_extracted": ("lenient", True),
}


@dataclass(frozen=True, slots=True)
class Scored:
    """Results per data set, as (id, numbers ...).

    Attributes:
        values: RMSE, % within tolerance, MAE.
        text: BLEU-4 and ROUGE-L, both x 100.
        lost: Replies that are dropped, or whose data set is.
    """

    classification: Sequence[tuple[str, float, float]]
    detection: Sequence[tuple[str, float]]
    values: Sequence[tuple[str, float, float, float]]
    text: Sequence[tuple[str, float, float]]
    lost: int

    @property
    def tables(self) -> SetTables:
        """The four result files that the official aggregator reads."""
        return SetTables(
            classification=self.classification,
            detection=self.detection,
            values=[row[:3] for row in self.values],
            text=[row[:2] for row in self.text],
        )


def row(judged: Sequence[Judged], parser: str) -> Row:
    """Returns the cells of Table 1 by column; the score is the one that the official aggregator prints."""
    scored = set_tables(judged, parser)
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
        "CVE_MAE": _mean([mae for *_, mae in scored.values]),
        "CVE_pct_tol": means.cve_tol,
        "RG_BLEU": means.rg_bleu,
        "RG_ROUGE": _rouge(scored, "RG"),
        "CG_BLEU": means.cg_bleu,
        "CG_ROUGE": _rouge(scored, "CG"),
        "U2_Score": official_score(means),
    }


def by_task(scored: Scored) -> tuple[float, ...]:
    """Returns what enters the score: accuracies, RMSE, BLEU-4 x 100."""
    means = official_means(scored.tables, ids="numbers")
    accuracies = means.diag_acc, means.vra_acc, means.ll_acc, means.od_acc, means.kd_acc
    return (*accuracies, means.cve_rmse, means.rg_bleu, means.cg_bleu)


def variants(tables: SetTables) -> tuple[float, float, float]:
    """Returns the score as published, with ids kept as text, and with ids as text and no credit for missing values."""
    meant = official_means(tables, ids="text")
    published = official_score(official_means(tables, ids="numbers"))
    return published, official_score(meant), round(u2_score(meant.earned_terms), 4)


def set_tables(judged: Sequence[Judged], parser: str) -> Scored:
    """Returns the results per data set; one on which the script stops is missing, as it is there."""
    mode, is_extracted = OFFICIAL[parser]
    classification: list[tuple[str, float, float]] = []
    detection: list[tuple[str, float]] = []
    values: list[tuple[str, float, float, float]] = []
    text: list[tuple[str, float, float]] = []
    lost = 0
    for (task, dataset), rows in _by_task_and_set(judged).items():
        replies = [_reply(row, is_extracted) for row in rows]
        try:
            if task in CLASSIFICATION:
                scores = class_scores(
                    [
                        read_row(truth_cell(row.question), reply, dataset=dataset, mode=mode)
                        for row, reply in zip(rows, replies, strict=True)
                    ]
                )
                classification.append((dataset, scores.acc, scores.f1))
                lost += round((1 - scores.parser_rate) * len(rows))
            elif task in DETECTION:
                positions = [read_position(reply, mode=mode) for reply in replies]
                detection.append((dataset, position_accuracy([row.question.answer for row in rows], positions)))
                lost += sum(position.is_dropped for position in positions)
            elif task == VALUE and dataset in RANGES:
                numbers = value_scores(
                    [_value(row, reply, mode) for row, reply in zip(rows, replies, strict=True)], dataset=dataset
                )
                values.append((dataset, numbers.rmse, numbers.pct_within_tolerance, numbers.mae))
                lost += numbers.failed_items
            elif task in TEXT:
                text.append((dataset, *_text_scores(rows, replies, mode)))
            else:
                lost += len(rows)
        except OfficialFailureError:
            lost += len(rows)
    return Scored(classification, detection, values, text, lost)


def _by_task_and_set(judged: Sequence[Judged]) -> dict[tuple[str, str], list[Judged]]:
    found: dict[tuple[str, str], list[Judged]] = {}
    for row in judged:
        found.setdefault((task_of(row.question), row.question.facets["dataset"]), []).append(row)
    return found


def _reply(row: Judged, is_extracted: bool) -> str:
    reply = (row.prediction.text if row.prediction else None) or ""
    return prepared_reply(reply, row.question) if is_extracted else reply


def _value(row: Judged, reply: str, mode: Mode) -> Value:
    predicted = predicted_value(reply, mode=mode)
    return Value(is_failed=True) if predicted is None else Value(float(row.question.answer), predicted)


def _text_scores(rows: Sequence[Judged], replies: Sequence[str], mode: Mode) -> tuple[float, float]:
    pairs = [(reply, row.question.answer) for reply, row in zip(replies, rows, strict=True)]
    if mode == "lenient":
        pairs = [(reply.strip(), answer.strip()) for reply, answer in pairs]
    counts = np.array([bleu_counts(*pair) for pair in pairs]).sum(axis=0)
    return 100 * float(bleu_of_counts(counts)), 100 * _mean([rouge_l(*pair) for pair in pairs])


def _rouge(scored: Scored, task: str) -> float:
    return _mean([rouge for dataset, _, rouge in scored.text if dataset in TASKS[task]])


def _mean(values: Sequence[float]) -> float:
    finite = [value for value in values if math.isfinite(value)]
    return sum(finite) / len(finite) if finite else 0.0
