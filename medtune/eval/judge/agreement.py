"""Measures whether a judge can be trusted: compares its points with a person's by weighted kappa."""

import csv
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import get_args

import numpy as np

from medtune.data.types import Condition, Interval, PredictionKey
from medtune.eval.scoring.tables import Cell, Table
from medtune.eval.statistics import Numbers
from medtune.eval.statistics.column_sums import Recomputed
from medtune.eval.statistics.intervals import METHOD, statistic_interval

BOUNDS = Interval(-1.0, 1.0)
_CONDITIONS: tuple[Condition, ...] = get_args(Condition)


@dataclass(frozen=True, slots=True)
class JudgeAgreement:
    levels: tuple[int, ...]  # All possible points, lowest first.
    n: int  # The number of answers that both scored.
    without_verdict: int  # The number of answers that the person scored and the judge did not; they are left out.
    # Cohen's kappa with squared weights; None if both gave all answers the same points, because kappa is not defined
    # then.
    quadratic: float | None
    quadratic_ci95: Interval | None  # Its 95 % interval, with patients as clusters.
    linear: float | None  # Cohen's kappa with linear weights; None in the same case.
    linear_ci95: Interval | None  # Its 95 % interval, with patients as clusters.
    equal: float  # The share of answers with equal points.
    difference: float  # The mean of the judge's points minus the person's.
    # The number of answers by the person's points (rows, lowest first) and the judge's points (columns).
    counts: tuple[tuple[int, ...], ...]


def read_human_scores(path: Path, *, levels: Sequence[int]) -> dict[PredictionKey, int]:
    """Returns the points that a person gave to predictions, with which a judge is compared.

    The file is CSV with the columns question_id and score, and optionally condition (default: image) and repeat
    (default: 0).
    """
    if not path.is_file():
        raise FileNotFoundError(f"no file {path}; wanted CSV with the columns question_id and score")
    found: dict[PredictionKey, int] = {}
    with path.open(newline="", encoding="utf-8-sig") as file:
        reader = csv.DictReader(file)
        missing = {"question_id", "score"} - set(reader.fieldnames or ())
        if missing:
            raise ValueError(f"{path}: no column {sorted(missing)[0]!r}; wanted question_id and score")
        for row in reader:
            where = f"{path}, line {reader.line_num}"
            key, score = _key(row, where), (row["score"] or "").strip()
            if score not in [str(level) for level in levels]:
                raise ValueError(f"{where}: score {score!r}; it must be one of {', '.join(map(str, levels))}")
            if key in found:
                raise ValueError(f"{where}: question {key.question_id!r} ({key.condition}) is scored twice; keep one")
            found[key] = int(score)
    if not found:
        raise ValueError(f"{path}: no rows; wanted one answer's score in each")
    return found


def agreement(
    human: Mapping[PredictionKey, int],
    judge: Mapping[PredictionKey, int],
    patients: Mapping[str, str],
    *,
    levels: Sequence[int],
) -> JudgeAgreement:
    """Returns how far a judge agrees with a person.

    Source: Cohen 1968, doi:10.1037/h0026256, as scikit-learn's `cohen_kappa_score` computes it.
    """
    for key in human:
        if key.question_id not in patients:
            raise ValueError(f"the human scores name question {key.question_id!r}, which is not among those answered")
    both = [key for key in human if key in judge]
    if not both:
        raise ValueError(f"none of the {len(human)} answers that a person scored has a verdict; judge them first")
    person, model = (np.array([points[key] for key in both]) for points in (human, judge))
    clusters = [patients[key.question_id] for key in both]
    found = {}
    for weights in ("quadratic", "linear"):

        def kappa(rows: Numbers, weights: str = weights) -> float:
            return _kappa(person[rows], model[rows], levels, weights)

        value = kappa(np.arange(len(both)))
        defined = not math.isnan(value)
        interval = (
            statistic_interval(Recomputed(kappa, len(both)), clusters, right=None, bounds=BOUNDS)
            if defined and len(set(clusters)) > 1
            else None
        )
        found[weights] = (value if defined else None, interval)
    return JudgeAgreement(
        levels=tuple(levels),
        n=len(both),
        without_verdict=len(human) - len(both),
        quadratic=found["quadratic"][0],
        quadratic_ci95=found["quadratic"][1],
        linear=found["linear"][0],
        linear_ci95=found["linear"][1],
        equal=float((person == model).mean()),
        difference=float((model - person).mean()),
        counts=tuple(tuple(int(((person == row) & (model == column)).sum()) for column in levels) for row in levels),
    )


def agreement_tables(found: JudgeAgreement, *, judge: str) -> list[Table]:
    rows: list[tuple[Cell, ...]] = [
        ("weighted kappa, quadratic", found.quadratic, found.quadratic_ci95 and found.quadratic_ci95.text()),
        ("weighted kappa, linear", found.linear, found.linear_ci95 and found.linear_ci95.text()),
        ("equal points", found.equal, None),
        ("judge minus person, mean points", f"{found.difference:+.3f}", None),
    ]
    notes = [
        f"{found.n} answers scored by both; {found.without_verdict} of the person's have no verdict and are left out.",
        f"95 % intervals: {METHOD}.",
    ]
    if found.quadratic is None:
        notes.append("Kappa is not defined: both gave all answers the same points.")
    counts: list[tuple[Cell, ...]] = [
        (f"person {level}", *row) for level, row in zip(found.levels, found.counts, strict=True)
    ]
    return [
        Table(f"{judge} against a person", ("", "value", "95 % interval"), tuple(rows), tuple(notes)),
        Table("Points", ("", *(f"judge {level}" for level in found.levels)), tuple(counts)),
    ]


def _kappa(person: Numbers, model: Numbers, levels: Sequence[int], weights: str) -> float:
    from sklearn.metrics import cohen_kappa_score

    if len({*person.tolist(), *model.tolist()}) == 1:
        return math.nan
    return float(cohen_kappa_score(person, model, labels=list(levels), weights=weights))


def _key(row: Mapping[str, str | None], where: str) -> PredictionKey:
    condition, repeat = (row.get("condition") or "image").strip(), (row.get("repeat") or "0").strip()
    if not repeat.isdecimal():
        raise ValueError(f"{where}: repeat {repeat!r}; wanted 0, 1, ...")
    for known in _CONDITIONS:
        if known == condition:
            return PredictionKey((row["question_id"] or "").strip(), known, "generation", int(repeat))
    raise ValueError(f"{where}: no condition {condition!r}; there are: {', '.join(_CONDITIONS)}")
