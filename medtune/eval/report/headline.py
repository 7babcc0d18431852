"""Words the first lines of a report: the score, the questions behind it, and what the result does not show."""

from dataclasses import dataclass, replace
from typing import Literal

from medtune.data.readable import capital, spoken
from medtune.eval.audit.row import NOT_BEATEN
from medtune.eval.comparing.falls import fall_sentences, falls
from medtune.eval.comparing.verdict import Verdict, grounds, leading_p, readability_text, verdict, verdict_text
from medtune.eval.data_label import NOT_RECORDED, PATIENT, several
from medtune.eval.metric import passes_text
from medtune.eval.report.audit import UNSEEING, ImageUse, Strongest, image_use, strongest_check
from medtune.eval.report.run_data import RunData
from medtune.eval.report.table import plain, signed, span
from medtune.eval.scoring.reply_ends import cut_text, refusals_text

MAX_FLAGS = 5
MOST_CHANCE = 0.5
"""The p value above which a fall is no caveat of a gain; it stands in the tables (our own choice)."""


@dataclass(frozen=True, slots=True)
class Caveat:
    """What stands against a result: in a physician's words, and the numbers behind it."""

    lead: str  # A sentence.
    detail: str  # Sentences; "" for none.


@dataclass(frozen=True, slots=True)
class Headline:
    # The verdict on the gain (`comparing.verdict`); "single" if there is no gain to judge.
    verdict: Verdict | Literal["single"]
    verdict_said: str  # The verdict in words, of all questions together.
    metric: str  # The primary metric in words.
    before: str | None  # The primary metric before training as text; None without a gain.
    after: str  # The primary metric of the last phase as text.
    gain: str | None  # The gain with its sign as text; None without a gain.
    interval: str | None  # The 95 % interval of the gain, or of the score without one, as text; None if there is none.
    measured: str  # What was asked about whom, as a sentence.
    test: str  # The test behind the verdict as a sentence; "" without a gain.
    image: ImageUse | None  # What the model scores without its own image; None if that was not asked.
    caveats: tuple[Caveat, ...]  # What stands against the result, the most important first.
    notes: tuple[str, ...]  # How the answers were counted, as sentences.
    banners: tuple[tuple[str, str], ...]  # (name, meaning) of each reason why the numbers are not the benchmark's own.

    @property
    def result(self) -> str:
        """The numbers as one line."""
        if self.gain is None:
            return f"{self.metric} {self.after}" + (f", 95 % interval {self.interval}" if self.interval else "")
        reach = f", 95 % interval {self.interval}" if self.interval else ""
        return f"{self.metric} {self.before} to {self.after} ({self.gain}{reach})"

    @property
    def sentences(self) -> tuple[str, ...]:
        """All sentences, each of which says what no other does."""
        image = (self.image.sentence,) if self.image else ()
        said = (part for caveat in self.caveats for part in (caveat.lead, caveat.detail))
        return tuple(filter(None, (self.measured, self.test, *image, *said, *self.notes)))


def headline(run: RunData, *, num_patients: int | None) -> Headline:
    """Returns the first lines of the report; `num_patients` is None if the prepared folder is missing."""
    level, change, better = run.last.overall, run.gain, run.higher_is_better
    before = run.phases["zero_shot"].overall.value if change else None
    found = Headline(
        verdict="single",
        verdict_said="One evaluation: there is no gain to judge",
        metric=_metric(run),
        before=None,
        after=_value_text(level.value),
        gain=None,
        interval=span(level.ci95, 2) if level.ci95 else None,
        measured=f"{_phase(run)}{_subject(run, num_patients)}.",
        test="",
        image=image_use(run),
        caveats=_caveats(run),
        notes=_counted(run),
        banners=run.label.banners(),
    )
    if change is None:
        text = "No question has a scored answer both before and after training: there is no gain to judge"
        return replace(found, verdict_said=text) if len(run.phases) > 1 else found
    return replace(
        found,
        verdict=verdict(change, higher_is_better=better),
        verdict_said=verdict_text(change, higher_is_better=better),
        before=_value_text(before),
        gain=signed(change.value, 2),
        interval=span(change.ci95, 2, sign=True) if change.ci95 else None,
        measured=f"{capital(_subject(run, num_patients))}.",
        test=f"{grounds(change)}.",
    )


def _value_text(value: float | None) -> str:
    return "no value" if value is None else plain(value, 2)


def _phase(run: RunData) -> str:
    return "With trained weights, " if "final" in run.phases else "Before any training, "


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


_UNSURE_SITE = Caveat(
    "One set of data is not a ward.",
    "Other scanners, hospitals and rarer findings were not asked about; nothing here clears the model for patients.",
)


def _caveats(run: RunData) -> tuple[Caveat, ...]:
    image, rival = image_use(run), strongest_check(run)
    change, judged = run.gain, verdict(run.gain, higher_is_better=run.higher_is_better) if run.gain else "unclear"
    fell = falls(judged, change.by, change.answers, higher_is_better=run.higher_is_better) if change else ()
    sure = any(fall.certainty == "sure" for fall in fell)
    told = sure or any((leading_p(fall.change) or 0.0) <= MOST_CHANCE for fall in fell)
    found = [*_remembered(run)]
    if image and not image.is_shown:
        found.append(Caveat("It is not shown that the model looks at the patient's image.", ""))
    strong = [] if rival is None else [_rival(rival)]
    title = "It got worse at something." if sure else "It may have got worse at something."
    worse = [Caveat(title, " ".join(fall_sentences(fell)))] if fell and (told or judged != "gain") else []
    found += [*strong, *worse] if rival and rival.is_better else [*worse, *strong] if sure else [*strong, *worse]
    found += _flagged(run, rival)
    return tuple(found) or (() if run.label.banners() else (_UNSURE_SITE,))


def _rival(rival: Strongest) -> Caveat:
    if rival.is_better:
        return Caveat("A shortcut without this model does better.", rival.sentence)
    return Caveat("A shortcut without this model may do as well.", rival.sentence)


def _remembered(run: RunData) -> list[Caveat]:
    label, memory = run.label, "A score may then be memory and not reading."
    if label.seen_in_training == NOT_RECORDED:
        return [Caveat("On which patients the weights were trained before is not recorded.", memory)]
    seen = [Caveat(f"The weights were trained on {label.seen_in_training}.", memory)] if label.seen_in_training else []
    if label.learnt_lookalikes:
        seen.append(Caveat(f"{capital(label.learnt_lookalikes)}.", "" if seen else memory))
    return [*seen, *([Caveat("The data changed during the run.", "")] if label.changed_data else [])]


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


def _flagged(run: RunData, rival: Strongest | None) -> list[Caveat]:
    """Returns the findings of the audit that no other caveat tells of."""
    told = (
        {rival.title if rival else "", *(row.title for row in run.audit.rows if row.name in UNSEEING)}
        if run.audit
        else set()
    )
    rows = [row for row in run.audit.rows if row.flag is not None and row.title not in told] if run.audit else []
    alike = [row.title for row in rows if row.flag == NOT_BEATEN]
    others = [Caveat(f"Audit, {row.title}: {row.flag}.", "") for row in rows if row.flag != NOT_BEATEN]
    found = [Caveat(f"Not surely better{' either' if rival else ''} than {'; '.join(alike)}.", "")] if alike else []
    more = len(others) - MAX_FLAGS
    return [
        *found,
        *others[:MAX_FLAGS],
        *([Caveat(f"{more} more findings stand in the audit below.", "")] if more > 0 else []),
    ]
