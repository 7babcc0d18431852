"""Shows the phases of a run, their gain and the baselines as a table of plain text for the terminal."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import cast

from medtune.data.types import Condition, Reading, Score
from medtune.eval.benchmark import Benchmark
from medtune.eval.comparing.gain import Gain
from medtune.eval.data_label import DataLabel
from medtune.eval.results.build import NOTHING
from medtune.eval.scoring.refusals import refusals_text
from medtune.eval.scoring.score import PhaseScores
from medtune.eval.scoring.uncounted_questions import uncounted_text
from medtune.eval.statistics.intervals import METHOD

NOT_AVAILABLE = "n/a"


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
        phases: The scores by phase, at least one, in the order in which they are shown.
        gain: The gain between the first and the last; None if there is only one phase, or no score in both.
        benchmark: The benchmark that scored them.
        label: Label of the data.
        unavailable: For each reading that the model cannot give the reason.
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
        f"{benchmark.title} {benchmark.version}; answers read by {last.parser!r}.",
        f"95 % intervals: {METHOD}.",
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
