"""Makes the tables of a run: the gain, the scores by facet, all metrics, the calibration and the paper's tables.

Values and gains stand in pairs of cells: the value, and its interval.
"""

from collections.abc import Mapping

from medtune.data.prepared.lookalikes import TRAIN_TWIN
from medtune.data.readable import spoken
from medtune.eval.comparing.verdict import (
    Verdict,
    has_one_question_each,
    one_question_note,
    question_level,
    readability_text,
    verdict,
)
from medtune.eval.metric import passes_text
from medtune.eval.report.run_data import RunData
from medtune.eval.report.table import (
    Cell,
    ReportTable,
    Tone,
    change,
    count,
    interval,
    not_available,
    number,
    p_value,
    paper_table,
    phase_title,
    word,
)
from medtune.eval.results.gain_schema import LevelGain
from medtune.eval.results.phase_schema import Level, Measured

_TONES: Mapping[Verdict, Tone] = {"gain": "good", "loss": "bad"}

PATIENTS = "p (patients)"
HOLM = "p (patients, Holm)"
MCNEMAR = "p (McNemar, questions)"
PARTS = ("of it, readable both times", "of it, became readable")


def value_cells(measured: Measured | None) -> list[Cell]:
    """Returns the cells of a value and of its 95 % interval; a dash for each that is missing."""
    return [number(measured.value if measured else None), interval(measured.ci95 if measured else None)]


def gain_cells(gain: LevelGain | None, *, higher_is_better: bool, whole: LevelGain | None = None) -> list[Cell]:
    """Returns the cells of a gain, marked if larger than chance explains, and of its interval; dashes for None.

    Args:
        whole: The gain on all questions, where `gain` is about a part of them: a part is marked only if the whole
            changed surely (`comparing.verdict`).
    """
    is_open = whole is not None and verdict(whole, higher_is_better=True) == "unclear"
    tone = "" if is_open else improvement_tone(gain, higher_is_better=higher_is_better)
    return [change(gain.value if gain else None, tone=tone), interval(gain.ci95 if gain else None, sign=True)]


def part_cells(gain: LevelGain | None) -> list[Cell]:
    """Returns the cells of a gain's two parts: on questions that were readable both times, and the rest."""
    part = gain.readability if gain else None
    if gain is None or part is None:
        return [change(gain.value if gain else None), change(0.0 if gain else None)]
    return [change(0.0 if part.value is None else part.value), change(part.format_value)]


def improvement_tone(gain: LevelGain | None, *, higher_is_better: bool) -> Tone:
    """Returns the tone of a gain: "good" or "bad" if it is larger than chance explains (`verdict`), else ""."""
    judged = verdict(gain, higher_is_better=higher_is_better) if gain else "unclear"
    return _TONES.get(judged, "")


def gain_table(run: RunData) -> ReportTable:
    """Returns the phases, the gain between them and the last phase's baselines as a table.

    If answers wait for a judge, the table has a column for their number. If questions have a look-alike in train, each
    phase has a row for the questions that have none.
    """
    waits = any(phase.overall.unscored for phase in run.phases.values())
    rows: list[tuple[Cell, ...]] = []
    for name, phase in run.phases.items():
        rows.append(_level_row(phase_title(name), phase.overall, count(phase.overall.n, of=phase.asked), waits=waits))
        if without := phase.by.get(TRAIN_TWIN, {}).get("no"):
            title = f"{phase_title(name)}, no look-alike in train"
            rows.append(_level_row(title, without, count(without.n), waits=waits))
    notes = [f"Answers read by {run.last.parser}. Intervals go by patients, because questions of one are alike."]
    if run.results.interval_method:
        notes.append(f"95 % intervals: {run.results.interval_method}.")
    notes += [*passes_notes(run), *filter(None, [run.last.outside_text])]
    if run.gain:
        gained, reach = gain_cells(run.gain, higher_is_better=run.higher_is_better)
        empty = (number(None),) * (4 if waits else 3)
        rows.append((word(run.difference, "ours"), gained, count(run.gain.n), reach, *empty))
        notes.append(f"The {run.difference} is paired: the same questions before and after.")
        if part := run.gain.readability:
            of_answers, of_format, became = change(part.value), change(part.format_value), run.gain.n - part.both
            reach = interval(part.ci95, sign=True)
            rows += [
                (word("of it, readable both times"), of_answers, count(part.both), reach, *empty),
                (word("of it, with replies that became readable"), of_format, count(became), interval(None), *empty),
            ]
            notes.append(readability_text(part))
        notes.append(f"{question_level(run.gain)}.")
        if run.gain.unscored:
            notes.append(f"Left out of the {run.difference}: {run.gain.unscored:,} questions with an unscored answer.")
    columns = ["phase", spoken(run.primary), "questions", "95 % interval", "unreadable", "missing"]
    columns += ["unscored", "guessing"] if waits else ["guessing"]
    return ReportTable(
        f"Before, after, and the {run.difference}", tuple(columns), tuple(rows), tuple(notes), sortable=False
    )


def _level_row(title: str, level: Level, questions: Cell, *, waits: bool) -> tuple[Cell, ...]:
    return (
        word(title),
        number(level.value),
        questions,
        interval(level.ci95),
        count(level.unparsable),
        count(level.unanswered),
        *([count(level.unscored)] if waits else []),
        number(level.baselines.get("random")),
    )


def passes_notes(run: RunData) -> list[str]:
    """Returns for each phase whose questions were asked repeatedly a sentence that says so."""
    found = []
    for name, phase in run.phases.items():
        if (level := phase.overall).repeats > 1:
            found.append(f"{phase_title(name)}: {passes_text(level.repeats, level.repeat_sd)}.")
        if level.partly_answered:
            found.append(f"{phase_title(name)}: {level.partly_answered:,} questions lack replies in some passes.")
    return found


def facet_table(run: RunData, facet: str) -> ReportTable:
    """Returns a table with one row for each level of a facet, with the gain if there are two phases."""
    levels = {name: phase.by.get(facet, {}) for name, phase in run.phases.items()}
    changes = run.gain.by.get(facet, {}) if run.gain else {}
    tests = _tests(changes)
    waits = any(level.unscored for found in levels.values() for level in found.values())
    columns = [spoken(facet), "questions", *(["unscored"] if waits else []), "guessing"]
    for name in run.phases:
        columns += [phase_title(name), f"95 % interval, {phase_title(name)}"]
    split = any(one.readability for one in changes.values())
    named = (run.difference, f"95 % interval of the {run.difference}")
    columns += [*named, *(PARTS if split else ()), *tests] if run.gain else []
    rows = []
    for level in dict.fromkeys(name for found in levels.values() for name in found):
        known = [found[level] for found in levels.values() if level in found]
        row = [word(spoken(level)), count(known[-1].n), *([count(known[-1].unscored)] if waits else [])]
        row.append(number(known[-1].baselines.get("random")))
        for found in levels.values():
            row += value_cells(found.get(level))
        if run.gain:
            row += gain_cells(changes.get(level), higher_is_better=run.higher_is_better, whole=run.gain)
            row += part_cells(changes.get(level)) if split else []
            row += [p_value(values.get(level)) for values in tests.values()]
        rows.append(tuple(row))
    caption = f"{spoken(run.level_metric).capitalize()} by {spoken(facet)}"
    return ReportTable(caption, tuple(columns), tuple(rows), (*passes_notes(run), *_test_notes(changes, tests)))


def answers_table(run: RunData) -> ReportTable | None:
    """Returns a table of the change by true answer, for tasks with few different answers; None if there is none."""
    found = run.gain.answers if run.gain else {}
    if not found:
        return None
    changes = {f"{task} {answer}": one for task, levels in found.items() for answer, one in levels.items()}
    tests = _tests(changes)
    split = any(one.readability for one in changes.values())
    rows = []
    for task, levels in found.items():
        for answer, one in levels.items():
            row = [word(spoken(task)), word(answer), count(one.n), number(one.before), number(one.after)]
            row += gain_cells(one, higher_is_better=True, whole=run.gain)
            row += part_cells(one) if split else []
            rows.append((*row, *(p_value(values[f"{task} {answer}"]) for values in tests.values())))
    columns = ["task", "true answer", "questions", "found before", "found after", "gain", "95 % interval of the gain"]
    columns += [*(PARTS if split else ()), *tests]
    return ReportTable("Share of right ones by true answer", tuple(columns), tuple(rows), _test_notes(changes, tests))


def _test_notes(changes: Mapping[str, LevelGain], tests: Mapping[str, object]) -> tuple[str, ...]:
    notes = []
    if PATIENTS in tests:
        notes.append("p (patients): before and after are swapped for whole patients; it decides.")
        notes.append("p (McNemar, questions) takes questions as independent and decides nothing.")
    if HOLM in tests:
        notes.append(
            "Holm's correction counts the rows of all tables as one family of tests. A row is marked only where all "
            "questions together changed surely."
        )
    one_each = [level for level, one in changes.items() if has_one_question_each(one)]
    if one_each:
        notes.append(one_question_note(list(map(spoken, one_each)), len(changes)))
    return tuple(notes)


def _tests(changes: Mapping[str, LevelGain]) -> dict[str, dict[str, float | None]]:
    found: dict[str, dict[str, float | None]] = {
        PATIENTS: {level: one.permutation_p for level, one in changes.items()},
        HOLM: {level: one.permutation_p_holm for level, one in changes.items()},
        MCNEMAR: {level: one.mcnemar_p for level, one in changes.items()},
    }
    return {name: by for name, by in found.items() if any(p is not None for p in by.values())}


def metrics_table(run: RunData) -> ReportTable:
    """Returns a table of every metric of every parser under every condition."""
    measured = [found for phase in run.phases.values() for found in phase.every_metric()]
    keys = dict.fromkeys((found.condition, found.parser, found.metric) for found in measured)
    waits = any(found.score.unscored for found in measured)
    columns = ["metric", "what the model saw", "answers read by"]
    for name in run.phases:
        columns += [phase_title(name), f"95 % interval, {phase_title(name)}", f"n, {phase_title(name)}"]
        columns += [f"unscored, {phase_title(name)}"] if waits else []
    rows = []
    for key in keys:
        condition, parser, metric = key
        row = [word(spoken(metric)), word(spoken(run.results.shown_under(condition))), word(spoken(parser))]
        for phase in run.phases.values():
            found = [m.score for m in phase.every_metric() if (m.condition, m.parser, m.metric) == key]
            one = found[0] if found else None
            row += [*value_cells(one), count(one.n if one else None)]
            row += [count(one.unscored if one else None)] if waits else []
        rows.append(tuple(row))
    for reading in run.results.unavailable:
        gaps = (not_available(),) * ((4 if waits else 3) * len(run.phases))
        rows.append((word(spoken(run.primary)), word(spoken(run.results.shown_under("image"))), word(reading), *gaps))
    notes = [f"{reading.capitalize()}: not available, {why}." for reading, why in run.results.unavailable.items()]
    repeats = dict.fromkeys((found.condition, found.parser, found.score.repeats) for found in measured)
    notes += [
        f"{spoken(run.results.shown_under(condition))}, {spoken(parser)}: {passes_text(number)}."
        for condition, parser, number in repeats
        if number > 1
    ]
    return ReportTable("Every metric of every reading", tuple(columns), tuple(rows), tuple(notes))


def calibration_table(run: RunData) -> ReportTable:
    """Returns a table of the reliability bins of each phase that has a calibration."""
    rows = [
        (
            word(phase_title(name)),
            Cell(f"{one.low:.2f} to {one.high:.2f}", one.low),
            count(one.n),
            number(one.confidence),
            number(one.accuracy),
        )
        for name, phase in run.phases.items()
        for one in (phase.calibration.bins if phase.calibration else ())
    ]
    columns = ("phase", "confidence from", "answers", "mean confidence", "share right")
    return ReportTable("Confidence against the share of right answers", columns, tuple(rows))


def paper_tables(run: RunData) -> list[ReportTable]:
    """Returns the tables in the form of the benchmark's paper, in which the rows of this run are marked."""
    return [paper_table(table) for table in run.last.tables]
