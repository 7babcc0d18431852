"""Shows the phases of a run, their gain and the baselines as a table of plain text for the terminal."""

import math
from collections.abc import Mapping
from typing import cast

from medtune.data.prepared.lookalikes import TRAIN_TWIN
from medtune.data.types import Condition, Reading, Score
from medtune.eval.benchmark import Benchmark
from medtune.eval.comparing.falls import fall_sentences, falls
from medtune.eval.comparing.gain import Gain
from medtune.eval.comparing.verdict import VERDICTS, grounds, question_level, readability_text, verdict
from medtune.eval.data_label import DataLabel
from medtune.eval.parsed_reply import passes_text
from medtune.eval.results.build import NOTHING
from medtune.eval.scoring.baselines import uncounted_text
from medtune.eval.scoring.parse_replies import refusals_text
from medtune.eval.scoring.score import PhaseScores
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
    for name, phase in phases.items():
        rows.append((name.replace("_", "-"), *_cells(phase.overall.score)))
        if without := phase.by.get(TRAIN_TWIN, {}).get("no"):
            rows.append(("  no look-alike in train", *_cells(without.score)))
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
    of = f"{score.n * score.repeats} replies to {score.n} questions" if score.repeats > 1 else f"{score.n}"
    notes = [
        f"{benchmark.title} {benchmark.version}; answers read by {last.parser!r}.",
        f"95 % intervals: {METHOD}.",
        f"Counted as wrong: {score.unparsable} unparsable and {last.overall.unanswered} unanswered of {of}.",
        *_passes(phases),
    ]
    if last.other_answers:
        kinds = "; ".join(f"{kind} {count:,}" for kind, count in last.other_answers.items())
        notes.append(f"Scored apart, and not in {benchmark.primary} above: {kinds}.")
    if last.uncounted:
        notes.append(uncounted_text(last.uncounted))
    waiting = [f"{name.replace('_', '-')} {phase.unscored}" for name, phase in phases.items() if phase.unscored]
    if waiting:
        notes.append(f"Unscored free answers, which wait for a judge (medtune judge): {', '.join(waiting)}.")
    if last.refusals and last.refusals.total:
        notes.append(refusals_text(last.refusals))
    if gain:
        if gain.readability:
            notes.append(readability_text(gain.readability))
        level = gain.overall
        if level.unscored:
            notes.append(f"Left out of the gain: {level.unscored} questions with an unscored answer before or after.")
        in_passes = "In most of its passes right" if score.repeats > 1 else "Right"
        notes.append(
            f"{in_passes} before and after {level.both_right}, only before {level.only_before}, "
            f"only after {level.only_after}, neither {level.both_wrong}."
        )
        judged = verdict(level, higher_is_better=benchmark.higher_is_better)
        notes += [f"{VERDICTS[judged]}. {grounds(level)}.", f"{question_level(level)}."]
        notes += fall_sentences(falls(judged, gain.by, gain.answers, higher_is_better=benchmark.higher_is_better))
    return notes


def _passes(phases: Mapping[str, PhaseScores]) -> list[str]:
    notes = []
    for name, phase in phases.items():
        score = phase.overall.score
        if score.repeats > 1:
            notes.append(f"{name.replace('_', '-')}: {passes_text(score.repeats, score.repeat_sd)}.")
        if phase.overall.partly_answered:
            notes.append(
                f"{name.replace('_', '-')}: {phase.overall.partly_answered} questions have fewer than {score.repeats} "
                "replies; each missing one counts as wrong in its pass."
            )
    if notes:
        notes.append("The intervals contain the noise of repeats: a patient is drawn with the replies of all passes.")
    return notes


def _cells(score: Score) -> tuple[str, str, str]:
    interval = f"{score.ci95.low:.3f} to {score.ci95.high:.3f}" if score.ci95 else ""
    value = f"{score.value:.3f}" if math.isfinite(score.value) else "-"
    return value, str(score.n), interval
