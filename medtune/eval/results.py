"""results.json and the gain table: what a run has to say for itself."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict
from typing import cast

from medtune.data.types import Condition, Interval, Reading, Score
from medtune.eval.benchmark import Benchmark
from medtune.eval.comparing.gain import Gain, LevelGain
from medtune.eval.data_label import DataLabel
from medtune.eval.scoring.refusals import refusals_text
from medtune.eval.scoring.score import LevelScore, PhaseScores
from medtune.eval.scoring.tables import finite, table_json
from medtune.eval.scoring.uncounted_questions import uncounted_text
from medtune.eval.statistics.calibration import Calibration

Json = dict[str, object]

NOT_AVAILABLE = "n/a"
NOTHING: Mapping[Reading, str] = {}


def phase_json(phase: PhaseScores) -> Json:
    """Returns one phase of results.json."""
    return {
        "parser": phase.parser,
        "overall": _level(phase.overall),
        "by": {facet: {name: _level(score) for name, score in found.items()} for facet, found in phase.by.items()},
        "metrics": {
            condition: {
                parser: {name: _score(score) for name, score in scores.items()} for parser, scores in parsers.items()
            }
            for condition, parsers in phase.metrics.items()
        },
        "tables": [table_json(table) for table in phase.tables],
        "calibration": _calibration(phase.calibration) if phase.calibration else None,
        "refusals": asdict(phase.refusals) if phase.refusals else None,
        "unscored": phase.unscored,
        "uncounted": dict(phase.uncounted),
    }


def scores_json(phase: PhaseScores, label: DataLabel) -> Json:
    """Returns a phase's scores.json, which may be read without its run: it says itself what data it is about."""
    return {**label.facts(), **phase_json(phase)}


def results_json(
    phases: Mapping[str, PhaseScores],
    gain: Gain | None,
    benchmark: Benchmark,
    *,
    benchmark_name: str,
    model: str,
    unavailable: Mapping[Reading, str] = NOTHING,
) -> Json:
    """Returns results.json but for what the whole run says of itself; "gain" is None where there is no second phase.

    Args:
        phases: By name, e.g. "zero_shot" and "final".
        gain: Between those two; None where there is no second phase, or nothing in both was scored.
        benchmark: That scored them.
        benchmark_name: Its name in the catalog.
        model: Name of the model.
        unavailable: Readings that the model cannot give, and why.
    """
    return {
        "benchmark": benchmark_name,
        "benchmark_version": benchmark.version,
        "model": model,
        "primary": {"name": benchmark.primary, "higher_is_better": benchmark.higher_is_better},
        "phases": {name: phase_json(phase) for name, phase in phases.items()},
        "gain": _gain_json(gain) if gain else None,
        "unavailable": dict(unavailable),
    }


def gain_table(
    phases: Mapping[str, PhaseScores],
    gain: Gain | None,
    benchmark: Benchmark,
    *,
    label: DataLabel,
    unavailable: Mapping[Reading, str] = NOTHING,
) -> str:
    """Returns the phases, their gain and the last phase's baselines as a table of plain text.

    Args:
        phases: By name, in the order to be shown; at least one.
        gain: Between the first and the last; None for a single phase, or where nothing in both was scored.
        benchmark: That scored them.
        label: Of the data.
        unavailable: Readings that the model cannot give, and why.
    """
    *_, last = phases.values()
    rows = [("", benchmark.primary, "n", "95 % interval")]
    rows += [(name.replace("_", "-"), *_cells(phase.overall.score)) for name, phase in phases.items()]
    if gain:
        low, high = gain.overall.ci95
        rows.append(("gain", f"{gain.overall.value:+.3f}", str(gain.overall.n), f"{low:+.3f} to {high:+.3f}"))
    for name, value in last.overall.baselines.items():
        seen = last.metrics.get(cast("Condition", name), {}).get(last.parser)
        if value is None:
            waits = seen is not None and benchmark.primary in seen and seen[benchmark.primary].unscored > 0
            rows.append((name.replace("_", "-"), "-", "-", "waits for a judge" if waits else "does not apply"))
        elif seen:
            rows.append((name.replace("_", "-"), *_cells(seen[benchmark.primary])))
        else:
            rows.append((name.replace("_", "-"), f"{value:.3f}", str(last.overall.score.n), ""))
    rows += [(reading, NOT_AVAILABLE, NOT_AVAILABLE, why) for reading, why in unavailable.items()]
    widths = [max(len(row[column]) for row in rows) for column in range(4)]
    lines = [f"{a:<{widths[0]}}  {b:>{widths[1]}}  {c:>{widths[2]}}  {d}".rstrip() for a, b, c, d in rows]
    lines.insert(1, "-" * max(len(line) for line in lines))
    return "\n".join([*lines, "", *label.notes(), *_notes(phases, gain, benchmark)])


def _notes(phases: Mapping[str, PhaseScores], gain: Gain | None, benchmark: Benchmark) -> list[str]:
    *_, last = phases.values()
    score = last.overall.score
    notes = [
        f"{benchmark.title} {benchmark.version}; answers read by {last.parser!r}; intervals resample patients.",
        f"Counted as wrong: {score.unparsable} unparsable and {last.overall.unanswered} unanswered of {score.n}.",
    ]
    if last.uncounted:
        notes.append(uncounted_text(last.uncounted))
    waiting = [f"{name.replace('_', '-')} {phase.unscored}" for name, phase in phases.items() if phase.unscored]
    if waiting:
        notes.append(f"Unscored free answers, which wait for a judge (medtune judge): {', '.join(waiting)}.")
    if last.refusals and last.refusals.total:
        notes.append(refusals_text(last.refusals))
    if gain:
        level = gain.overall
        if level.unscored:
            notes.append(f"Left out of the gain: {level.unscored} questions with an unscored answer before or after.")
        notes.append(
            f"Right before and after {level.both_right}, only before {level.only_before}, "
            f"only after {level.only_after}, neither {level.both_wrong}; McNemar's exact p = {level.mcnemar_p:.2g}; "
            f"with the sign flipped for whole patients p = {level.permutation_p:.2g}."
        )
    return notes


def _cells(score: Score) -> tuple[str, str, str]:
    interval = f"{score.ci95.low:.3f} to {score.ci95.high:.3f}" if score.ci95 else ""
    value = f"{score.value:.3f}" if math.isfinite(score.value) else "-"
    return value, str(score.n), interval


def _score(score: Score) -> Json:
    return {
        "value": finite(score.value),
        "n": score.n,
        "ci95": _pair(score.ci95),
        "unparsable": score.unparsable,
        "unscored": score.unscored,
    }


def _level(level: LevelScore) -> Json:
    return {
        **_score(level.score),
        "unanswered": level.unanswered,
        "baselines": {name: finite(value) for name, value in level.baselines.items()},
    }


def _calibration(found: Calibration) -> Json:
    return {
        "ece": found.ece,
        "bins": [
            {
                "low": each.index / found.num_bins,
                "high": (each.index + 1) / found.num_bins,
                "n": each.n,
                "confidence": each.confidence,
                "accuracy": each.accuracy,
            }
            for each in found.bins
        ],
    }


def _gain_json(gain: Gain) -> Json:
    by = {facet: {name: _gain(each) for name, each in found.items()} for facet, found in gain.by.items()}
    return {**_gain(gain.overall), "by": by}


def _gain(level: LevelGain) -> Json:
    return {
        "value": level.value,
        "n": level.n,
        "unscored": level.unscored,
        "ci95": _pair(level.ci95),
        "mcnemar_p": level.mcnemar_p,
        "mcnemar_p_holm": level.mcnemar_p_holm,
        "permutation_p": level.permutation_p,
        "counts": {
            "both_right": level.both_right,
            "only_before": level.only_before,
            "only_after": level.only_after,
            "both_wrong": level.both_wrong,
        },
    }


def _pair(interval: Interval | None) -> list[float] | None:
    return list(interval) if interval else None
