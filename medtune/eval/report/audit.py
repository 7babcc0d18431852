"""Makes the tables and figures of the audit, and finds the strongest check that the model does not surely beat.

The rows are those of audit.json, or, without such a file, the baselines in results.json.
"""

from dataclasses import dataclass

from medtune.data.readable import capital, spoken
from medtune.eval.audit.row import ACCURACY, NO_MODEL, SUBTYPE, AuditRow, Collapse, Gap
from medtune.eval.audit.run_rows import LINEAR_PROBE
from medtune.eval.report.charts.strips import StripChart, StripValue, strip_chart
from medtune.eval.report.run_data import RunData
from medtune.eval.report.table import (
    Cell,
    ReportTable,
    change,
    count,
    interval,
    number,
    phase_title,
    plain,
    signed,
    span,
    word,
)
from medtune.eval.results.phase_schema import Level, Measured, Phase
from medtune.eval.statistics.patient_swaps import p_equals

TITLES = {
    "random": "Guessing among the options",
    "majority": "Always the task's most frequent train answer",
    "constant_letter": "Always the same letter, the best one",
    "question_prior": "The most frequent train answer to the same question",
    "text_only": "The same model without the image",
    "other_image": "The same model with another patient's image",
}
_COLUMNS = ("check", "value", "n", "95 % interval", "model minus check", "finding")
_AUDITED_COLUMNS = (
    "check",
    "answers of",
    "measure",
    "value",
    "n",
    "95 % interval",
    "model minus check",
    "95 % interval of the difference",
    "finding",
)
_NOT_BEATEN = "the model is not better than this check"
UNSEEING = ("text_only", "blank_image", "other_image")
_IMAGE = {
    "text_only": "without the image",
    "blank_image": "with a blank image",
    "other_image": "with another patient's image",
}

_OWN = "with its own image"
_QUESTION = "Does it look at the image?"


@dataclass(frozen=True, slots=True)
class BlindScore:
    """The score of a baseline that does not see the image."""

    name: str
    title: str
    value: float


def blind_scores(level: Level) -> list[BlindScore]:
    """Returns the scores of the baselines that apply."""
    return [
        BlindScore(name, TITLES.get(name, spoken(name)), value)
        for name, value in level.baselines.items()
        if value is not None
    ]


@dataclass(frozen=True, slots=True)
class ImageUse:
    """What the model scores without its own image, and whether that shows that it looks at it."""

    sentence: str  # The scores as a sentence.
    is_shown: bool  # True if each of them is surely below the score with the image.
    chart: StripChart | None


def image_use(run: RunData) -> ImageUse | None:
    """Returns what the model scores without its image, with a blank one or another patient's; None if it was not asked.

    The paired differences of the audit decide; without an audit the model's own interval only places the numbers, and
    nothing is called shown.
    """
    if run.results.shown_under("image") != "image":
        return None
    audited = _accuracies(run)
    unseeing = [row for row in audited if row.name in UNSEEING and row.gap is not None]
    if not unseeing:
        return _image_use_of_baselines(run)
    own = _audited_own(run, _OWN)
    with_it = f" ({_OWN} {plain(own[0].value, 2)})" if own and run.primary != ACCURACY else ""
    scores = "it scores" if run.primary == ACCURACY else "its accuracy is"
    shown = {row: row.gap is not None and row.gap.ci95.low > 0 for row in unseeing}
    told = [f"{_IMAGE[row.name]} {scores} {plain(row.value, 2)}" for row in unseeing]
    alike = [_IMAGE[row.name] for row in unseeing if not shown[row]]
    standing = "surely less: its answers rest on the patient's own image"
    if alike:
        standing = f"not surely less {' or '.join(alike)}" if len(alike) < len(unseeing) else "not surely less"
    num = unseeing[0].n
    before = run.phases["zero_shot"].metrics.get("image", {}).get(run.last.parser, {}) if run.gain else {}
    guess = next((row.value for row in audited if row.name == "random"), None)
    rows = [StripValue(_IMAGE[row.name], row.value, row.ci95, "blind") for row in unseeing]
    rows = _with_references(rows, before.get(ACCURACY), guess, num)
    chart = strip_chart("image-use", f"{_QUESTION} {capital(ACCURACY)} of {num:,} questions", [*own, *rows])
    return ImageUse(f"{capital(', '.join(told))}{with_it}: {standing}.", not alike, chart)


def _image_use_of_baselines(run: RunData) -> ImageUse | None:
    found = {name: run.last.overall.baselines.get(name) for name in UNSEEING}
    known = {name: value for name, value in found.items() if value is not None}
    if not known or run.last.overall.value is None:
        return None
    told = ", ".join(f"{_IMAGE[name]} it scores {plain(value, 2)}" for name, value in known.items())
    level, sentence = run.last.overall, f"{capital(told)}; medtune audit RUN tests the difference."
    rows = [StripValue(_IMAGE[name], value, None, "blind") for name, value in known.items()]
    before = run.phases["zero_shot"].overall if run.gain else None
    rows = [*_own(run, _OWN), *_with_references(rows, before, level.baselines.get("random"), level.n)]
    title = f"{_QUESTION} {capital(spoken(run.primary))} of {level.n:,} questions"
    return ImageUse(sentence, False, strip_chart("image-use", title, rows))


def _accuracies(run: RunData) -> list[AuditRow]:
    return [row for row in run.audit.rows if row.metric == ACCURACY] if run.audit else []


def _audited_own(run: RunData, label: str) -> list[StripValue]:
    """Returns the model's accuracy among the audit's, whose questions may be others than those of the headline."""
    own = [row for row in _accuracies(run) if row.name == "model"]
    found = [StripValue(label or row.title, row.value, row.ci95, "model") for row in own]
    return found or (_own(run, label or _OWN) if run.primary == ACCURACY else [])


def _own(run: RunData, label: str) -> list[StripValue]:
    level = run.last.overall
    return [] if level.value is None else [StripValue(label, level.value, level.ci95, "model")]


def _with_references(
    blind: list[StripValue], before: Measured | None, guess: float | None, num: int
) -> list[StripValue]:
    """Returns the rows with what the untrained model and guessing reach on as many questions."""
    found = [*blind, *([] if guess is None else [StripValue("guessing", guess, None, "check")])]
    if before is None or before.value is None or before.n != num:
        return found
    return [StripValue("before training", before.value, before.ci95, "before"), *found]


def audit_chart(run: RunData) -> StripChart | None:
    """Returns the checks on one axis with the model, the strongest first; None of fewer than two."""
    if run.audit:
        rows, own = _accuracies(run), _audited_own(run, "")
        num = next((row.n for row in rows if row.name == "model"), run.last.overall.n)
        title = f"What else reaches this accuracy of {num:,} questions"
        checks = [
            StripValue(
                row.title,
                row.value,
                row.ci95,
                "check" if row.phase == NO_MODEL else "blind",
                ", ".join(
                    filter(None, ["" if row.n == num else f"{row.n:,} questions", "not beaten" if row.flag else ""])
                ),
            )
            for row in rows
            if row.name != "model"
        ]
    else:
        title, own = "What else reaches this score", _own(run, _OWN)
        checks = [
            StripValue(blind.title, blind.value, None, "blind" if blind.name in UNSEEING else "check")
            for blind in blind_scores(run.last.overall)
        ]
    return strip_chart("audit-axis", title, [*own, *sorted(checks, key=lambda one: -one.value)])


@dataclass(frozen=True, slots=True)
class Strongest:
    """The strongest check without the model that it does not surely beat."""

    title: str
    value: float
    is_better: bool  # True if it is surely better than the model.
    sentence: str  # What it reaches, and how the model stands to it.


def strongest_check(run: RunData) -> Strongest | None:
    """Returns the strongest check that is better than the model or not surely worse; None if the model beats all.

    The checks are those that need no training of the model: guessing, frequent answers, classifiers of thumbnails or
    of the vision features. Those of the audit are compared by the interval of the paired difference, and one is better
    only where its p value among all checks says so too. Baselines without an audit are compared with the model's own
    interval, and none of them is called better. A surely better one comes first.
    """
    if run.audit is None:
        return _strongest_baseline(run)
    rows = [
        (row, row.gap)
        for row in run.audit.rows
        if row.metric == ACCURACY and row.gap is not None and row.phase == NO_MODEL
    ]
    left = [(row, gap) for row, gap in rows if gap.ci95.low <= 0]
    if not left:
        return None
    row, gap = min(left, key=lambda pair: (not pair[1].is_better, pair[1].value))
    free = ", whose features were trained with the model,"
    if row.name != LINEAR_PROBE or _is_vision_frozen(run):
        free = ", which needs no training of this model,"
    return _strongest(row, gap, free)


def _is_vision_frozen(run: RunData) -> bool:
    stages = run.setting("train", "stages")
    own = [each.get("tuning") for each in stages if isinstance(each, dict)] if isinstance(stages, list) else []
    tunings = [tuning for tuning in (run.setting("model", "tuning"), *own) if isinstance(tuning, dict)]
    modes = [vision.get("mode") for tuning in tunings if isinstance(vision := tuning.get("vision"), dict)]
    return run.gain is None or all(mode in (None, "frozen") for mode in modes)


def _strongest(row: AuditRow, gap: Gap, free: str) -> Strongest:
    standing = "it is better than the model" if gap.is_better else "the model is not surely better"
    p = gap.permutation_p_holm
    tested = "" if p is None else f"; {p_equals(p)} after Holm's correction over the checks"
    sentence = (
        f"{capital(row.title)}{free} reaches an accuracy of {plain(row.value, 2)} on {row.n:,} questions: {standing} "
        f"(model minus check {signed(gap.value, 2)}, 95 % interval {span(gap.ci95, 2, sign=True)}{tested})."
    )
    return Strongest(row.title, row.value, gap.is_better, sentence)


def _strongest_baseline(run: RunData) -> Strongest | None:
    level, sign = run.last.overall, 1 if run.higher_is_better else -1
    if level.ci95 is None:
        return None
    reached = [blind for blind in blind_scores(level) if blind.name not in UNSEEING and _reaches(blind.value, run)]
    if not reached:
        return None
    best = max(reached, key=lambda blind: sign * blind.value)
    # The interval of the model is no test of the difference, and the strongest of several is picked.
    beyond = best.value > level.ci95.high if run.higher_is_better else best.value < level.ci95.low
    test = "; the check lies beyond it, and medtune audit RUN tests that" if beyond else ""
    sentence = f"{best.title} reaches {plain(best.value, 2)}: the model is not surely better, whose interval is "
    return Strongest(best.title, best.value, is_better=False, sentence=f"{sentence}{span(level.ci95, 2)}{test}.")


def _reaches(value: float, run: RunData) -> bool:
    reach = run.last.overall.ci95
    return reach is not None and (value >= reach.low if run.higher_is_better else value <= reach.high)


def audit_table(run: RunData) -> ReportTable:
    """Returns the audit of the last phase as a table."""
    if run.audit is not None:
        rows = [_audited(row) for row in run.audit.rows]
        note = "The difference is paired by question: the model's accuracy minus that of the check."
        return ReportTable("Audit: what else reaches this score", _AUDITED_COLUMNS, tuple(rows), (note,))
    phase = run.last
    rows = [_blind_row(blind, phase, run) for blind in blind_scores(phase.overall)]
    rows += _other_readings(phase, run)
    if phase.overall.n:
        share = phase.overall.unparsable / (phase.overall.n * phase.overall.repeats)
        rows.append(
            (
                word("Answers that could not be read"),
                number(share),
                count(phase.overall.n),
                number(None),
                number(None),
                word(""),
            )
        )
    return ReportTable(
        f"Audit, {phase_title(list(run.phases)[-1])}: what else reaches this score",
        _COLUMNS,
        tuple(rows),
        ("From the baselines in results.json; medtune audit RUN adds more checks and paired intervals.",),
    )


def collapse_table(run: RunData) -> ReportTable | None:
    """Returns a table of the most frequent answer of each subtype and its share of the truth; None without an audit."""
    found = list(run.audit.collapse.items()) if run.audit else []
    if not found:
        return None
    columns = (
        SUBTYPE,
        "most frequent answer",
        "share of the answers",
        "share of the truth",
        "95 % interval of the difference",
        "n",
        "finding",
    )
    return ReportTable(
        "Collapse: is one answer given to everything?", columns, tuple(_collapse_row(kind, row) for kind, row in found)
    )


def _audited(row: AuditRow) -> tuple[Cell, ...]:
    gap = row.gap
    return (
        word(row.title),
        word(phase_title(row.phase)),
        word(row.metric),
        number(row.value),
        count(row.n),
        interval(row.ci95),
        change(gap.value if gap else None),
        interval(gap.ci95 if gap else None, sign=True),
        _finding(row.flag, row.note),
    )


def _collapse_row(kind: str, row: Collapse) -> tuple[Cell, ...]:
    return (
        word(spoken(kind)),
        word("could not be read" if row.answer is None else row.answer),
        number(row.share),
        number(row.truth_share),
        interval(row.excess_ci95, sign=True),
        count(row.n),
        _finding(row.flag, ""),
    )


def _finding(flag: str | None, note: str) -> Cell:
    if flag is None:
        return word(note)
    return word(f"{flag}. {note}".strip(), "flag")


def _blind_row(blind: BlindScore, phase: Phase, run: RunData) -> tuple[Cell, ...]:
    seen = [
        found.score
        for found in phase.every_metric()
        if (found.condition, found.parser, found.metric) == (blind.name, phase.parser, run.primary)
    ]
    n, reach = (seen[0].n, seen[0].ci95) if seen else (phase.overall.n, None)
    return (word(blind.title), number(blind.value), count(n), interval(reach), *_against(blind.value, phase, run))


def _other_readings(phase: Phase, run: RunData) -> list[tuple[Cell, ...]]:
    return [
        (
            word(f"Answers read by {spoken(found.parser)}"),
            number(found.score.value),
            count(found.score.n),
            interval(found.score.ci95),
            _difference(phase.overall.value, found.score.value),
            word(""),
        )
        for found in phase.every_metric()
        if found.condition == "image" and found.metric == run.primary and found.parser != phase.parser
    ]


def _difference(model: float | None, check: float | None) -> Cell:
    return change(None if model is None or check is None else model - check)


def _against(value: float, phase: Phase, run: RunData) -> tuple[Cell, ...]:
    own = phase.overall.value
    if own is None:
        return change(None), word("")
    if own > value if run.higher_is_better else own < value:
        return _difference(own, value), word("")
    return _difference(own, value), word(_NOT_BEATEN, "flag")
