"""Words the first lines of a report: the score, the questions behind it, and whether the gain is larger than chance."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from medtune.eval.report.audit import blind_scores
from medtune.eval.report.run_data import RunData
from medtune.eval.report.table import p_text, plain, signed, span, spoken
from medtune.eval.results.schema import LevelGain
from medtune.eval.scoring.refusals import refusals_text
from medtune.eval.scoring.uncounted_questions import uncounted_text

MAX_FLAGS = 5
Verdict = Literal["gain", "loss", "unclear", "single"]


@dataclass(frozen=True, slots=True)
class Headline:
    """The first lines of a report.

    Attributes:
        verdict: "gain", "loss" or "unclear"; "single" if there is no gain to judge.
        verdict_text: The verdict as a clause.
        before: The primary metric before training as text; None without a gain.
        after: The primary metric of the last phase as text.
        gain: The gain with its sign as text; None without a gain.
        gain_interval: The 95 % interval of the gain as text; None if there is none.
        sentences: The result in words, most important sentence first.
        warnings: The flags of the audit, or the baselines that the model does not clearly exceed.
        banners: (name, meaning) of each reason why the numbers are not the benchmark's own.
    """

    verdict: Verdict
    verdict_text: str
    before: str | None
    after: str
    gain: str | None
    gain_interval: str | None
    sentences: tuple[str, ...]
    warnings: tuple[str, ...]
    banners: tuple[tuple[str, str], ...]


def headline(run: RunData, *, num_patients: int | None) -> Headline:
    """Returns the first lines of the report; `num_patients` is None if the prepared folder is missing."""
    level = run.last.overall
    after = "no value" if level.value is None else plain(level.value, 2)
    subject = _subject(run, num_patients)
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
            None,
            after,
            None,
            None,
            (sentence, *_counted(run)),
            tuple(_warnings(run)),
            run.label.banners(),
        )
    change = run.gain
    before = run.phases["zero_shot"].overall.value
    verdict, text = _verdict(change, run.higher_is_better)
    verb = "went from" if change.value == 0 else "rose from" if change.value > 0 else "fell from"
    reach = f" (95 % interval {span(change.ci95, 2, sign=True)})" if change.ci95 else ""
    start = "no value" if before is None else plain(before, 2)
    sentences = (
        f"{_metric(run)} {verb} {start} before training to {after} after it, a change of {signed(change.value, 2)}"
        f"{reach}, {subject}.",
        _evidence(verdict, change),
        *_counted(run),
    )
    return Headline(
        verdict=verdict,
        verdict_text=text,
        before=start,
        after=after,
        gain=signed(change.value, 2),
        gain_interval=span(change.ci95, 2, sign=True) if change.ci95 else None,
        sentences=sentences,
        warnings=tuple(_warnings(run)),
        banners=run.label.banners(),
    )


def _metric(run: RunData) -> str:
    name = spoken(run.primary)
    direction = "" if run.higher_is_better else " (lower is better)"
    return name[:1].upper() + name[1:] + direction


def _subject(run: RunData, num_patients: int | None) -> str:
    questions = f"measured on {run.last.overall.n:,} questions"
    split = run.setting("eval", "split")
    unseen = {"test": "whom training never saw", "val": "on whom the checkpoint was chosen"}.get(str(split))
    whom = f" {unseen}" if unseen and run.gain else ""
    if num_patients is None:
        return f"{questions} of the {split} split, about patients{whom}" if whom else questions
    kind = "simulated patient" if run.label.provenance == "synthetic" else "patient"
    patients = f"{num_patients:,} {kind}{'' if num_patients == 1 else 's'}"
    return f"{questions} about {patients}{whom}"


def _verdict(change: LevelGain, higher_is_better: bool) -> tuple[Verdict, str]:
    if change.ci95 is None:
        return "unclear", "The gain has no interval"
    low, high = change.ci95 if higher_is_better else (-change.ci95[1], -change.ci95[0])
    if low > 0:
        return "gain", "The gain is larger than chance explains"
    if high < 0:
        return "loss", "Training made it worse"
    return "unclear", "The change cannot be told from chance"


def _evidence(verdict: Verdict, change: LevelGain) -> str:
    fixed, broken = change.counts.only_after, change.counts.only_before
    exact = _equals(change.mcnemar_p)
    who = f"Training fixed {fixed:,} answers and broke {broken:,}; McNemar's exact test gives p {exact}"
    if change.permutation_p is not None:
        who += f", a permutation of whole patients p {_equals(change.permutation_p)}"
    meaning = {
        "gain": f"The interval over patients lies {'above' if change.value > 0 else 'below'} zero",
        "loss": "The interval over patients lies on the side of a loss",
        "unclear": "The interval over patients includes zero: more patients or a larger effect are needed",
        "single": "",
    }[verdict]
    return f"{meaning}. {who}."


def _equals(p: float) -> str:
    text = p_text(p)
    return text if text.startswith("<") else f"= {text}"


def _counted(run: RunData) -> tuple[str, ...]:
    level, refusals = run.last.overall, run.last.refusals
    found = []
    if level.unparsable or level.unanswered:
        found.append(f"Counted as wrong: {level.unparsable:,} unreadable and {level.unanswered:,} missing answers.")
    if run.last.uncounted:
        found.append(uncounted_text(run.last.uncounted))
    if run.last.unscored:
        found.append(
            f"Unscored: {run.last.unscored:,} free answers wait for a judge (medtune judge); no score counts them."
        )
    if refusals and refusals.total:
        found.append(refusals_text(refusals))
    return tuple(found)


def _warnings(run: RunData) -> list[str]:
    """Returns the flags of the audit; without an audit, a warning if a blind baseline comes too close to the model."""
    if run.audit is not None:
        flagged = [row for row in run.audit.rows if row.flag is not None]
        found = [f"Audit, {row.title}: {row.flag}." for row in flagged[:MAX_FLAGS]]
        more = len(flagged) - len(found)
        return found + ([f"{more} more findings stand in the audit below."] if more > 0 else [])
    level, sign = run.last.overall, 1 if run.higher_is_better else -1
    found = []
    if level.ci95 is not None:
        worst_case = sign * (level.ci95[0] if run.higher_is_better else level.ci95[1])
        reached = [blind for blind in blind_scores(level) if sign * blind.value >= worst_case]
        if reached:
            best = max(reached, key=lambda blind: sign * blind.value)
            found.append(
                f"Not clearly better than an answer without the image: {best.title.lower()} reaches "
                f"{plain(best.value, 2)}, the interval of the model is {span(level.ci95, 2)}."
            )
    return found
