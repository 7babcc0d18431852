"""Lists where the paper's own numbers contradict each other."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from medtune.benchmarks import published
from medtune.benchmarks.u2_bench.anatomy_ablation import Paired
from medtune.benchmarks.u2_bench.official.score import EXACT_WEIGHTS, u2_score
from medtune.benchmarks.u2_bench.weights_and_ranges import WEIGHTS
from medtune.eval.scoring.tables import Cell, Table

_OPEN = ("medical", "open")


def contradictions() -> Table:
    """Returns each printed number beside the one that follows from the paper's other numbers."""
    found = published("u2_bench")
    columns = found["table1"]["columns"]
    table = [dict(zip(columns, row, strict=True)) for row in found["table1"]["rows"]]
    models = [row for row in table if row["group"] != "random"]
    rows: list[tuple[Cell, ...]] = [
        (f"Table 1: U2-Score of {row['model']} from its row", row["U2_Score"], recomputed(row))
        for row in models
        if round(recomputed(row), 4) != row["U2_Score"]
    ]
    rows += [
        (f"Table 6: weight of {task} as its share of cases", WEIGHTS[task], share)
        for task, share in EXACT_WEIGHTS.items()
        if round(share, 2) != WEIGHTS[task]
    ]
    rows += [*_claims(found["quoted"], models), *_shares(found["error_shares_pct"]), *_anatomy(found["anatomy"])]
    return Table(
        title="U2-Bench: the paper's numbers against one another",
        columns=("what", "printed", "recomputed"),
        rows=tuple(rows),
        notes=("Table 1's other 22 U2-Scores follow from their rows to four decimals.",),
        digits=4,
    )


def terms_of(row: Mapping[str, Any]) -> dict[str, float]:
    """Returns the terms of the score from a row of Table 1; a missing BLEU counts as 0."""
    terms = {task: float(row[f"{task}_Acc"]) for task in ("DD", "VRA", "LL", "OD", "KD")}
    texts = {task: float(row[f"{task}_BLEU"] or 0) / 100 for task in ("RG", "CG")}
    return {**terms, "CVE": 1 - float(row["CVE_RMSE"]), **texts}


def recomputed(row: Mapping[str, Any]) -> float:
    """Returns the U2-Score that follows from a row of Table 1."""
    return u2_score(terms_of(row))


def _claims(quoted: Mapping[str, float], models: list[dict[str, Any]]) -> list[tuple[Cell, ...]]:
    over = [row for row in models if row["KD_Acc"] > quoted["kd_ceiling"]]
    under = [row for row in models if row["group"] in _OPEN and row["CVE_RMSE"] <= quoted["open_rmse_floor"]]
    return [
        ("Text: number of models, against the rows of Table 1", quoted["models_intro"], len(models)),
        *((f"4.3: ceiling of KD accuracy, but {row['model']}", quoted["kd_ceiling"], row["KD_Acc"]) for row in over),
        *((f"4.3: floor of open CVE RMSE, but {x['model']}", quoted["open_rmse_floor"], x["CVE_RMSE"]) for x in under),
    ]


def _shares(shares: Mapping[str, Mapping[str, float]]) -> list[tuple[Cell, ...]]:
    sums = {name: sum(share for kind, share in kinds.items() if kind != "responses") for name, kinds in shares.items()}
    return [
        (f"C.4: sum of the shares of {name}, %", 100.0, total)
        for name, total in sums.items()
        if abs(total - 100) > 0.02
    ]


def _anatomy(printed: Mapping[str, Any]) -> list[tuple[Cell, ...]]:
    table = Paired(printed["both_correct"], printed["only_with"], printed["only_without"], printed["both_wrong"])
    return [("Table 3: p of the exact McNemar test, x 10^5", 1e5 * printed["p"], 1e5 * table.exact_p)]
