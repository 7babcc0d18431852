"""Turns the scores of a phase into a flat mapping of names to values, for metrics.csv and W&B."""

from medtune.eval.benchmark import Benchmark
from medtune.eval.scoring.score import LevelScore, PhaseScores


def phase_metrics(phase: str, scores: PhaseScores, benchmark: Benchmark) -> dict[str, float]:
    """Returns the primary metric with its interval, overall and by facet, and all metrics of each condition and parser.

    A metric without a value is NaN. If questions were asked repeatedly, values are means over the passes; "_repeats" is
    the number of passes and "_repeat_sd" the standard deviation between them. If the benchmark's scores need a judge,
    "PHASE/unscored" is the number of questions with an answer that waits for it.
    """
    flat = _level(f"{phase}/{benchmark.primary}", scores.overall)
    for facet, levels in scores.by.items():
        for name, level in levels.items():
            flat |= _level(f"{phase}/{facet}={name}/{benchmark.primary}", level)
    for condition, parsers in scores.metrics.items():
        for parser, metrics in parsers.items():
            for name, score in metrics.items():
                flat[f"{phase}/{condition}/{parser}/{name}"] = score.value
    if benchmark.judging is not None and not benchmark.judging.is_extra:
        flat[f"{phase}/unscored"] = float(scores.unscored)
    return flat


def _level(name: str, level: LevelScore) -> dict[str, float]:
    score = level.score
    flat = {name: score.value, f"{name}_n": float(score.n)}
    if score.repeats > 1:
        flat[f"{name}_repeats"] = float(score.repeats)
    if score.repeat_sd is not None:
        flat[f"{name}_repeat_sd"] = score.repeat_sd
    if score.ci95 is not None:
        flat |= {f"{name}_ci95_low": score.ci95.low, f"{name}_ci95_high": score.ci95.high}
    return flat
