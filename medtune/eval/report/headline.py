"""Words the first lines of a report: the score, the questions behind it, and what the gain shows and does not show."""

from dataclasses import dataclass
from typing import Literal

from medtune.data.readable import spoken
from medtune.eval.audit.row import NOT_BEATEN
from medtune.eval.comparing.verdict import (
    Fall,
    Verdict,
    fall_sentences,
    falls,
    grounds,
    leading_p,
    readability_text,
    verdict,
    verdict_text,
)
from medtune.eval.data_label import NOT_RECORDED, PATIENT, several
from medtune.eval.metric import passes_text
from medtune.eval.report.audit import Strongest, strongest_check
from medtune.eval.report.run_data import RunData
from medtune.eval.report.table import plain, signed, span
from medtune.eval.scoring.reply_ends import cut_text, refusals_text

MAX_FLAGS = 5
MOST_CHANCE = 0.5
"""The p value above which a fall is no caveat of a gain; it stands in the tables (our own choice)."""


@dataclass(frozen=True, slots=True)
class Headline:
    # The verdict on the gain (`comparing.verdict`); "single" if there is no gain to judge.
    verdict: Verdict | Literal["single"]
    verdict_said: str  # The verdict in words, of all questions together.
    caveats: tuple[str, ...]  # What stands against it: a check that is better, what was learnt before, a fall.
    before: str | None  # The primary metric before training as text; None without a gain.
    after: str  # The primary metric of the last phase as text.
    gain: str | None  # The gain with its sign as text; None without a gain.
    gain_interval: str | None  # The 95 % interval of the gain as text; None if there is none.
    plain: tuple[str, ...]  # The result in a physician's words, most important sentence first.
    tests: tuple[str, ...]  # The tests behind it, by name, as sentences.
    warnings: tuple[str, ...]
    banners: tuple[tuple[str, str], ...]  # (name, meaning) of each reason why the numbers are not the benchmark's own.

    @property
    def sentences(self) -> tuple[str, ...]:
        """All sentences."""
        return (*self.plain, *self.tests)

    @property
    def verdict_text(self) -> str:
        """The verdict with its caveats."""
        return "; ".join([self.verdict_said, *self.caveats])


def headline(run: RunData, *, num_patients: int | None) -> Headline:
    """Returns the first lines of the report; `num_patients` is None if the prepared folder is missing."""
    level = run.last.overall
    after = "no value" if level.value is None else plain(level.value, 2)
    subject, rival = _subject(run, num_patients), strongest_check(run)
    beside = [rival.sentence] if rival else []
    if run.gain is None:
        reach = f", 95 % interval {span(level.ci95, 2)}" if level.ci95 else ""
        phase = "with trained weights" if "final" in run.phases else "before any training"
        sentence = f"{_metric(run)} {phase} is {after}{reach}, {subject}."
        text = "One evaluation: there is no gain to judge"
        if len(run.phases) > 1:
            text = "No question has a scored answer both before and after training: there is no gain to judge"
        return Headline(
            "single",
            text,
            tuple(_better(rival)),
            None,
            after,
            None,
            None,
            (sentence, *_counted(run)),
            tuple(beside),
            tuple(_warnings(run)),
            run.label.banners(),
        )
    change = run.gain
    before = run.phases["zero_shot"].overall.value
    judged = verdict(change, higher_is_better=run.higher_is_better)
    said = verdict_text(change, higher_is_better=run.higher_is_better)
    worse = falls(judged, change.by, change.answers, higher_is_better=run.higher_is_better)
    verb = "went from" if change.value == 0 else "rose from" if change.value > 0 else "fell from"
    start = "no value" if before is None else plain(before, 2)
    fixed, broken = change.counts.only_after, change.counts.only_before
    plain_words = (
        f"{_metric(run)} {verb} {start} before training to {after} after it, a change of {signed(change.value, 2)}, "
        f"{subject}.",
        f"Training fixed {fixed:,} answers and broke {broken:,}.",
        *_counted(run),
    )
    return Headline(
        verdict=judged,
        verdict_said=said,
        caveats=(*_remembered(run), *_better(rival), *(_worst(worse) if judged in ("gain", "format") else ())),
        before=start,
        after=after,
        gain=signed(change.value, 2),
        gain_interval=span(change.ci95, 2, sign=True) if change.ci95 else None,
        plain=plain_words,
        tests=(*beside, *fall_sentences(worse), f"{grounds(change)}."),
        warnings=tuple(_warnings(run)),
        banners=run.label.banners(),
    )


def _metric(run: RunData) -> str:
    name = spoken(run.primary)
    direction = "" if run.higher_is_better else " (lower is better)"
    return name[:1].upper() + name[1:] + direction


def _subject(run: RunData, num_patients: int | None) -> str:
    split, unit = str(run.setting("eval", "split")), run.label.stands_for_patient
    unseen = {
        "test": f"{'whom' if unit == PATIENT else 'that'} training never saw",
        "val": f"on {'whom' if unit == PATIENT else 'which'} the checkpoint was chosen",
    }.get(split)
    seen = run.label.seen_in_training or run.label.changed_data
    whom = f" {unseen}" if unseen and unit and run.gain and not seen else ""
    of = f" of the {split} split" if num_patients is None else ""
    kind = f"simulated {unit}" if unit and run.label.provenance == "synthetic" else unit
    about = several(kind, num_patients or 2) if kind else "patients or what stands for them, which is not recorded"
    number = "" if num_patients is None else f"{num_patients:,} "
    note, level = run.label.patient_note(), run.last.overall
    asked = f"{run.last.counted} questions" + (f" ({passes_text(level.repeats)})" if level.repeats > 1 else "")
    return f"measured on {asked}{of} about {number}{about}{whom}{note and f' ({note})'}"


def _remembered(run: RunData) -> list[str]:
    label = run.label
    if label.seen_in_training == NOT_RECORDED:
        return ["on which patients the weights were trained before is not recorded"]
    seen = [f"the weights were trained on {label.seen_in_training}"] if label.seen_in_training else []
    if label.learnt_lookalikes:
        seen.append(label.learnt_lookalikes)
    return [*seen, *(["the data changed during the run"] if label.changed_data else [])]


def _better(rival: Strongest | None) -> list[str]:
    return [f"{rival.title} is better than the model ({plain(rival.value, 2)})"] if rival and rival.is_better else []


def _worst(worse: tuple[Fall, ...]) -> list[str]:
    """Returns the worst fall in words, unless chance gives one like it more often than not."""
    told = [fall for fall in worse if fall.certainty == "sure" or (leading_p(fall.change) or 0.0) <= MOST_CHANCE]
    if not told:
        return []
    return [told[0].words if told[0].certainty == "sure" else f"{told[0].words} (chance may explain it)"]


def wrong_text(unreadable: int, missing: int) -> str:
    """Returns the answers that count as wrong without being read, as a sentence; "" if there are none.

    >>> wrong_text(0, 1), wrong_text(2, 1), wrong_text(0, 0)
    ('Counted as wrong: 1 missing answer.', 'Counted as wrong: 2 unreadable and 1 missing answers.', '')
    """
    told = [f"{number:,} {what}" for what, number in (("unreadable", unreadable), ("missing", missing)) if number]
    return f"Counted as wrong: {' and '.join(told)} answer{'' if unreadable + missing == 1 else 's'}." if told else ""


def _counted(run: RunData) -> tuple[str, ...]:
    level, refusals = run.last.overall, run.last.refusals
    found = []
    if wrong := wrong_text(level.unparsable, level.unanswered):
        found.append(wrong)
    if run.gain and run.gain.readability:
        found.append(readability_text(run.gain.readability))
    if level.repeats > 1:
        found.append(
            f"Scores are the {passes_text(level.repeats, level.repeat_sd)}; whether a question counts as right, fixed "
            "or broken is decided by more than half of its answers."
        )
    if run.last.outside_text:
        found.append(run.last.outside_text)
    if run.last.unscored:
        found.append(
            f"Unscored: {run.last.unscored:,} free answers wait for a judge (medtune judge); no score counts them."
        )
    if cut := cut_text({name: phase.cut for name, phase in run.results.phases.items()}):
        found.append(cut)
    if refusals and refusals.total:
        found.append(refusals_text(refusals))
    return tuple(found)


def _warnings(run: RunData) -> list[str]:
    flagged = [row for row in run.audit.rows if row.flag is not None] if run.audit else []
    found = [
        f"Audit: the model is not surely better than {row.title}."
        if row.flag == NOT_BEATEN
        else f"Audit, {row.title}: {row.flag}."
        for row in flagged[:MAX_FLAGS]
    ]
    more = len(flagged) - len(found)
    return found + ([f"{more} more findings stand in the audit below."] if more > 0 else [])
