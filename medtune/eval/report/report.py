"""Assembles the parts of one run's report, which are the same in HTML and Markdown."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass

from medtune.data.progress import clock
from medtune.data.readable import spoken
from medtune.eval.benchmark import PaperOf
from medtune.eval.data_label import UNKNOWN
from medtune.eval.published import Paper
from medtune.eval.report.answer_classes import AnswerClasses, answer_classes
from medtune.eval.report.audit import audit_chart, audit_table, collapse_table
from medtune.eval.report.charts.bars import BarChart, facet_chart
from medtune.eval.report.charts.lines import LineChart
from medtune.eval.report.charts.rewards import reward_charts
from medtune.eval.report.charts.single_answers import (
    AgreementChart,
    ReliabilityChart,
    agreement_charts,
    reliability_charts,
)
from medtune.eval.report.charts.strips import StripChart
from medtune.eval.report.charts.training import training_charts
from medtune.eval.report.counts import counts_table
from medtune.eval.report.gallery import Gallery, gallery
from medtune.eval.report.headline import Headline, headline
from medtune.eval.report.result_tables import (
    answers_table,
    calibration_table,
    facet_table,
    gain_table,
    metrics_table,
    paper_tables,
)
from medtune.eval.report.run_data import RunData
from medtune.eval.report.shown_draws import draws_table
from medtune.eval.report.table import ReportTable

MAX_LEVELS = 40


@dataclass(frozen=True, slots=True)
class Facet:
    title: str
    chart: BarChart | None  # The scores as bars; None if there are more than `MAX_LEVELS` levels.
    table: ReportTable


@dataclass(frozen=True, slots=True)
class Reproduction:
    command: str
    # (name, value) of the recipe, the seed, the benchmark, the data and the training.
    facts: tuple[tuple[str, str], ...]
    versions: tuple[tuple[str, str], ...]  # (name, version) of medtune, Python and the packages, and the devices.
    weights: tuple[tuple[str, str], ...]  # (part of the model, origin of its weights).
    weight_notes: tuple[str, ...]  # The consequences of these origins for the scores, as sentences.
    recipe: str


@dataclass(frozen=True, slots=True)
class RunReport:
    run: RunData
    source: Paper
    headline: Headline
    gain: ReportTable  # The phases, the gain and the baselines.
    facets: tuple[Facet, ...]  # The scores by each facet that has several levels.
    answers: ReportTable | None  # The change by true answer; None if there is none.
    # The scores of single answers and the confusion matrices; None if no task has answer classes.
    classes: AnswerClasses | None
    curves: tuple[LineChart, ...]  # The charts of the training, as far as it was logged.
    draws: ReportTable | None  # What was drawn to the same few questions; None where nothing was.
    audit_chart: StripChart | None  # The checks of the audit on one axis with the model; None of fewer than two.
    audit: ReportTable
    collapse: ReportTable | None  # The most frequent answer of each subtype; None without an audit.
    counts: ReportTable  # The questions that the primary numbers count.
    metrics: ReportTable  # Every metric of every parser under every condition.
    agreements: tuple[AgreementChart, ...]  # Bland and Altman's figure of each kind of measured number.
    reliability: tuple[ReliabilityChart, ...]  # One reliability chart for each phase that has a calibration.
    calibration: ReportTable
    gallery: Gallery
    papers: tuple[ReportTable, ...]
    reproduction: Reproduction  # The facts with which the run can be reproduced.


def run_report(run: RunData, paper_of: PaperOf) -> RunReport:
    shown = gallery(run)
    return RunReport(
        run=run,
        source=paper_of(run.results.benchmark) or Paper(spoken(run.results.benchmark), "", "", None),
        headline=headline(run, num_patients=shown.num_patients),
        gain=gain_table(run),
        facets=tuple(_facet(run, name, shown) for name, levels in run.last.by.items() if len(levels) > 1),
        answers=answers_table(run),
        classes=answer_classes(run),
        curves=(*training_charts(run), *reward_charts(run.curves)),
        draws=draws_table(run.draws),
        audit_chart=audit_chart(run),
        audit=audit_table(run),
        collapse=collapse_table(run),
        counts=counts_table(run),
        metrics=metrics_table(run),
        agreements=tuple(agreement_charts(run)),
        reliability=tuple(reliability_charts(run)),
        calibration=calibration_table(run),
        gallery=shown,
        papers=tuple(paper_tables(run)),
        reproduction=reproduction(run),
    )


def reproduction(run: RunData) -> Reproduction:
    """Returns the facts with which the run can be reproduced."""
    seen, results = run.environment, run.results
    facts = {
        "recipe": results.recipe or UNKNOWN,
        "seed": str(run.setting("train", "seed")),
        "benchmark": f"{results.benchmark}, version {results.benchmark_version}",
        "split": str(run.setting("eval", "split")),
        "prompts": run.label.prompts,
        **({"trained on": results.trained_on} if results.trained_on else {}),
        "data": f"{run.label.provenance}, SHA-256 {results.data_hash or 'not recorded'}",
        **({"unofficial split": f"by {run.label.unofficial_split}"} if run.label.unofficial_split else {}),
        **({"patients": results.patient_unit} if results.patient_unit else {}),
        **_lookalikes(run),
        "training": _training(run),
        **({"early stopping": results.stopped_early} if results.stopped_early else {}),
        **({"time": _times(results.seconds)} if results.seconds else {}),
        "checkpoint": run.doctor.headline() if run.doctor else "not compared with plain transformers (medtune doctor)",
        "results written": run.written.isoformat(),
    }
    versions = {
        "medtune": seen.medtune or UNKNOWN,
        "git commit": seen.git_commit or "none: an installed wheel",
        "Python": seen.python or UNKNOWN,
        "platform": seen.platform or UNKNOWN,
        "devices": ", ".join(seen.devices),
        **{name: version or "not installed" for name, version in seen.packages.items()},
    }
    return Reproduction(
        command=shlex.join(seen.command),
        facts=tuple(facts.items()),
        versions=tuple(versions.items()),
        weights=tuple(run.weights.items()),
        weight_notes=tuple(_weight_notes(run)),
        recipe=run.recipe,
    )


def _lookalikes(run: RunData) -> dict[str, str]:
    label = run.label
    found = {
        "leaks of the data's own split": label.split_leaks,
        "look-alikes": label.split_lookalikes,
        "look-alikes learnt": label.learnt_lookalikes,
        "trained on before": label.seen_in_training,
        "data changed": label.changed_data,
    }
    return {name: text for name, text in found.items() if text}


def _times(seconds: Mapping[str, float]) -> str:
    return ", ".join(f"{phase.replace('_', '-')} {clock(took)}" for phase, took in seconds.items())


def _training(run: RunData) -> str:
    if "final" not in run.phases or "zero_shot" not in run.phases:
        return "none in this run: an evaluation alone"
    most = run.setting("train", "group_questions")
    asked = "with their questions" if most is None else f"with at most {most} questions each"
    own = run.setting("train", "stages")
    if not isinstance(own, list) or not own:
        if run.setting("train", "max_steps") is None:
            return run.results.trained_on or UNKNOWN
        return f"{run.setting('train', 'max_steps')} steps of {run.setting('train', 'batch_size')} images {asked}"
    phases = ", then ".join(
        f"{each['max_steps']} steps of {each['batch_size']} images ({each['name']})" for each in own
    )
    return f"{phases}, {asked}"


def _weight_notes(run: RunData) -> list[str]:
    notes = []
    for group, origin in run.weights.items():
        if "4-bit" in origin:
            notes.append(
                f"The {group} weights are quantised: a GGUF file that keeps each number in 4 bits. They are not the "
                "full-precision weights of that name, and a score here is not a score of those."
            )
        if "held in 4 bits" in origin:
            notes.append(
                f"The linear layers of the {group} model were rounded to 4 bits (NF4) for the whole run, before and "
                "after training alike. A score here is not one of the same model in full precision."
            )
        if origin.startswith("random"):
            notes.append(
                f"The {group} starts from random numbers, so the zero-shot score is that of an untrained {group}."
            )
    return notes


def _facet(run: RunData, name: str, shown: Gallery) -> Facet:
    levels = run.last.by[name]
    chart = facet_chart(run, name, shown.first_wrong(name)) if len(levels) <= MAX_LEVELS else None
    return Facet(spoken(name), chart, facet_table(run, name))
