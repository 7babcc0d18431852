"""Makes the contents of results.json, scores.json and audit.json from scores and audits."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from typing import get_args

from medtune.data.prepared.lookalikes import TRAIN_TWIN
from medtune.data.types import Condition, Reading
from medtune.eval.audit.row import Audit
from medtune.eval.benchmark import Benchmark
from medtune.eval.comparing.falls import fall_sentences, falls
from medtune.eval.comparing.gain import Gains
from medtune.eval.comparing.verdict import (
    difference_word,
    grounds,
    question_level,
    readability_text,
    verdict,
    verdict_text,
)
from medtune.eval.data_label import DataLabel
from medtune.eval.metric import passes_text
from medtune.eval.results import schema
from medtune.eval.results.phase_schema import Measured, Phase, counted_text
from medtune.eval.scoring.parse_replies import read_by
from medtune.eval.scoring.reply_ends import cut_text, refusals_text
from medtune.eval.scoring.score import PhaseScores, folds_of
from medtune.eval.statistics.intervals import METHOD, method_for

NOTHING: Mapping[Reading, str] = {}

NOT_AVAILABLE = "n/a"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFacts:
    """The facts about a run that results.json holds beside its scores."""

    recipe: str  # Name of the recipe.
    data_hash: str  # SHA-256 of the prepared folder that the questions came from, in hex digits.
    label: DataLabel  # The label of these data.
    # The settings with which the questions were answered; None where code of the user's own asked the model.
    protocol: schema.ProtocolFacts | None
    history: schema.RunHistory = field(default_factory=schema.RunHistory)


def results_file(
    phases: Mapping[str, PhaseScores],
    gain: Gains | None,
    benchmark: Benchmark,
    *,
    benchmark_name: str,
    model: str,
    facts: RunFacts,
    unavailable: Mapping[Reading, str] = NOTHING,
) -> schema.ResultsFile:
    """Returns the content of results.json.

    Args:
        gain: The gain between the phases; None if there is only one, or if no question has a score in both.
    """
    return schema.ResultsFile(
        benchmark=benchmark_name,
        benchmark_version=benchmark.version,
        model=model,
        primary=_primary(benchmark),
        phases=phases,
        gain=gain,
        unavailable=dict(unavailable),
        protocol=facts.protocol,
        recipe=facts.recipe,
        data_hash=facts.data_hash,
        interval_method=_method(*phases.values()),
        **vars(facts.history),
        **asdict(facts.label),
    )


def rescored(
    results: schema.ResultsFile, phases: Mapping[str, PhaseScores], gain: Gains | None, benchmark: Benchmark
) -> schema.ResultsFile:
    """Returns the results of a run with new scores and the same facts about the run."""
    return replace(
        results,
        benchmark_version=benchmark.version,
        primary=_primary(benchmark),
        phases=phases,
        gain=gain,
        interval_method=_method(*phases.values()),
    )


def scores_file(phase: PhaseScores, label: DataLabel, *, rows: schema.FileRows | None = None) -> schema.ScoresFile:
    """Returns the content of scores.json: one evaluation, the label of its data, and the rows of the files scored."""
    of_phase = {each.name: getattr(phase, each.name) for each in fields(Phase)}
    return schema.ScoresFile(**asdict(label), **of_phase, file_rows=rows, interval_method=_method(phase))


def audit_file(audit: Audit, label: DataLabel) -> schema.AuditFile:
    return schema.AuditFile(**asdict(label), rows=audit.rows, collapse=audit.collapse, interval_method=METHOD)


def _method(*phases: PhaseScores) -> str:
    rows = phases[-1].rows
    return method_for([row.question.patient_id for row in rows], folds=len(set(folds_of(rows))))


def _primary(benchmark: Benchmark) -> schema.Primary:
    return schema.Primary(
        name=benchmark.primary, higher_is_better=benchmark.higher_is_better, level_name=benchmark.level_metric
    )


def gain_table(
    phases: Mapping[str, PhaseScores],
    gain: Gains | None,
    benchmark: Benchmark,
    *,
    label: DataLabel,
    unavailable: Mapping[Reading, str] = NOTHING,
    judged_by: str = "medtune judge",
) -> str:
    """Returns the phases, their gain and the last phase's baselines as a table of plain text.

    Args:
        gain: The gain between the first and the last; None if there is only one phase, or no score in both.
        judged_by: The command that has answers judged which wait for it.
    """
    *_, last = phases.values()
    rows = [("", benchmark.primary, "n", "95 % interval")]
    for name, phase in phases.items():
        rows.append((name.replace("_", "-"), *_cells(phase.overall, asked=phase.asked)))
        if without := phase.by.get(TRAIN_TWIN, {}).get("no"):
            rows.append(("  no look-alike in train", *_cells(without)))
    if gain:
        difference = difference_word(higher_is_better=benchmark.higher_is_better)
        rows.append((difference, f"{gain.value:+.3f}", str(gain.n), gain.ci95.text(signed=True)))
        if part := gain.readability:
            reach = part.ci95.text(signed=True) if part.ci95 else ""
            rows.append(("  readable both times", f"{part.value or 0.0:+.3f}", str(part.both), reach))
            rest = gain.n - part.both
            rows.append(("  became readable", f"{part.format_value or 0.0:+.3f}", str(rest), ""))
    for name, value in last.overall.baselines.items():
        seen = last.metrics.get(name, {}).get(last.parser)
        if value is None:
            waits = seen is not None and benchmark.primary in seen and seen[benchmark.primary].unscored > 0
            unasked = name in get_args(Condition) and name not in last.metrics
            why = "waits for a judge" if waits else "not asked" if unasked else "does not apply"
            rows.append((name.replace("_", "-"), "-", "-", why))
        elif seen:
            rows.append((name.replace("_", "-"), *_cells(seen[benchmark.primary])))
        else:
            free = name == "random" and not all(row.question.options for row in last.rows)
            why = "options are drawn; texts count 0" if free else ""
            rows.append((name.replace("_", "-"), f"{value:.3f}", str(last.overall.n), why))
    rows += [(reading, NOT_AVAILABLE, NOT_AVAILABLE, why) for reading, why in unavailable.items()]
    widths = [max(len(row[column]) for row in rows) for column in range(4)]
    lines = [f"{a:<{widths[0]}}  {b:>{widths[1]}}  {c:>{widths[2]}}  {d}".rstrip() for a, b, c, d in rows]
    lines.insert(1, "-" * max(len(line) for line in lines))
    return "\n".join([*lines, "", *label.notes(), *_notes(phases, gain, benchmark, judged_by)])


def _notes(phases: Mapping[str, PhaseScores], gain: Gains | None, benchmark: Benchmark, judged_by: str) -> list[str]:
    *_, last = phases.values()
    score = last.overall
    read = read_by(last.parser, (row.question for row in last.rows), benchmark)
    of = f"{score.n * score.repeats} replies to {score.n} questions" if score.repeats > 1 else f"{score.n}"
    notes = [
        f"{benchmark.title} {benchmark.version}; answers read by {read}.",
        f"95 % intervals: {_method(last)}.",
        f"Counted as wrong: {score.unparsable} unparsable and {last.overall.unanswered} unanswered of {of}.",
        *_passes(phases),
    ]
    if said := cut_text({name: phase.cut for name, phase in phases.items()}):
        notes.append(said)
    if last.other_answers:
        kinds = "; ".join(f"{kind} {count:,}" for kind, count in last.other_answers.items())
        notes.append(f"Scored apart, and not in {benchmark.primary} above: {kinds}.")
    if outside := last.outside_text:
        notes.append(outside)
    waiting = [f"{name.replace('_', '-')} {phase.unscored}" for name, phase in phases.items() if phase.unscored]
    if waiting:
        notes.append(f"Unscored free answers, which wait for a judge ({judged_by}): {', '.join(waiting)}.")
    if last.refusals and last.refusals.total:
        notes.append(refusals_text(last.refusals))
    if gain:
        counts = gain.counts
        difference = difference_word(higher_is_better=benchmark.higher_is_better)
        if gain.readability:
            notes.append(readability_text(gain.readability))
        if gain.unscored:
            notes.append(
                f"Left out of the {difference}: {gain.unscored} questions with an unscored answer before or after."
            )
        in_passes = "In most of its passes right" if score.repeats > 1 else "Right"
        notes.append(
            f"{in_passes} before and after {counts.both_right}, only before {counts.only_before}, "
            f"only after {counts.only_after}, neither {counts.both_wrong}."
        )
        if not benchmark.higher_is_better:
            notes.append(f"Of {benchmark.primary}, lower is better: a change below 0 is for the better.")
        judged = verdict(gain, higher_is_better=benchmark.higher_is_better)
        said = verdict_text(gain, higher_is_better=benchmark.higher_is_better)
        notes += [f"{said}. {grounds(gain)}.", f"{question_level(gain)}."]
        notes += fall_sentences(falls(judged, gain.by, gain.answers, higher_is_better=benchmark.higher_is_better))
    return notes


def _passes(phases: Mapping[str, PhaseScores]) -> list[str]:
    notes = []
    for name, phase in phases.items():
        score = phase.overall
        if score.repeats > 1:
            notes.append(f"{name.replace('_', '-')}: {passes_text(score.repeats, score.repeat_sd)}.")
        if phase.overall.partly_answered:
            notes.append(
                f"{name.replace('_', '-')}: {phase.overall.partly_answered} questions have fewer than {score.repeats} "
                "replies; each missing one counts as wrong in its pass."
            )
    if notes:
        notes.append("The intervals contain the noise of repeats: a patient counts with the replies of all passes.")
    return notes


def phase_text(phase: PhaseScores, benchmark: Benchmark) -> str:
    """Returns the primary metric of a phase with its interval, and how many of the questions it counts, as a clause."""
    value, counted, interval = _cells(phase.overall, asked=phase.asked)
    return f"{benchmark.primary} {value}{interval and f' ({interval})'}, {counted} questions"


def _cells(score: Measured, *, asked: int | None = None) -> tuple[str, str, str]:
    interval = score.ci95.text() if score.ci95 else ""
    value = "-" if score.value is None else f"{score.value:.3f}"
    return value, counted_text(score.n, asked), interval
