"""`medtune power`: computes how many patients are needed to detect a gain, from given numbers or from a run."""

import argparse
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from medtune.eval.parsed_reply import scored_everywhere
from medtune.eval.scoring.score import correctness
from medtune.eval.scoring.tables import Table, table_text
from medtune.eval.statistics.power import Plan, patients_needed, plan_from, power_of
from medtune.trainer.series.finished_run import open_finished
from medtune.trainer.series.seeds import answered_rows

DEFAULT_ICC = 0.1
_POWERS = (0.5, 0.8, 0.9, 0.95)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the arguments of `medtune power`."""
    parser.add_argument(
        "--gain",
        type=float,
        required=True,
        metavar="SHARE",
        help="The gain to detect, as a difference of two accuracies, for instance 0.05.",
    )
    parser.add_argument(
        "--run",
        type=Path,
        metavar="RUN",
        help="A finished run folder to take the other numbers from (default: none, and they have to be given).",
    )
    parser.add_argument(
        "--baseline",
        type=float,
        metavar="SHARE",
        help="The accuracy before training, from 0 to 1 (default: that of --run).",
    )
    parser.add_argument(
        "--questions-per-patient",
        type=float,
        metavar="NUMBER",
        help="The mean number of questions about one patient (default: that of --run).",
    )
    parser.add_argument(
        "--icc",
        type=float,
        metavar="NUMBER",
        help="The correlation, within one patient, of the change from before to after, at most 1 "
        f"(default: that of --run, or {DEFAULT_ICC}).",
    )
    parser.add_argument(
        "--discordant",
        type=float,
        metavar="SHARE",
        help="The share of answers that change between right and wrong, from 0 to 1 (default: that of --run, or what "
        "phases that err independently of each other give).",
    )
    parser.add_argument(
        "--power",
        type=float,
        default=0.8,
        metavar="SHARE",
        help="The probability, from 0 to 1, with which the gain is detected (default: %(default)s).",
    )
    parser.add_argument(
        "--alpha",
        type=float,
        default=0.05,
        metavar="SHARE",
        help="The two-sided significance level, from 0 to 1 (default: %(default)s).",
    )


def command(options: argparse.Namespace, arguments: Sequence[str]) -> int:
    """Runs `medtune power`: prints how many patients are needed to detect a gain, and returns 0."""
    return show_power(
        run=options.run,
        baseline=options.baseline,
        gain=options.gain,
        questions_per_patient=options.questions_per_patient,
        icc=options.icc,
        discordant=options.discordant,
        power=options.power,
        alpha=options.alpha,
    )


def plan_of_run(root: Path, *, gain: float) -> Plan:
    """Returns a plan for a gain whose other numbers are measured on a finished run."""
    before, after = scored_everywhere(answered_rows(open_finished(root)))
    if not before:
        raise ValueError(f"{root}: every answer waits for a judge; `medtune judge {root}` first")
    scores = correctness(before), correctness(after)
    if scores[0] is None or scores[1] is None:
        raise ValueError(f"{root}: some answers are not right or wrong; `medtune power` plans for shares of right ones")
    return plan_from(scores[0], scores[1], [row.question.patient_id for row in before], gain=gain)


def show_power(
    *,
    run: Path | None,
    baseline: float | None,
    gain: float,
    questions_per_patient: float | None,
    icc: float | None,
    discordant: float | None,
    power: float,
    alpha: float,
) -> int:
    """Prints how many patients are needed to detect a gain, and returns 0; given numbers override those of the run."""
    if run is None and (baseline is None or questions_per_patient is None):
        raise ValueError("give --baseline and --questions-per-patient, or --run RUN to take them from a run")
    start = Plan(0.0, gain, 1.0, DEFAULT_ICC) if run is None else plan_of_run(run, gain=gain)
    given = {
        "baseline": baseline,
        "questions_per_patient": questions_per_patient,
        "icc": icc,
        "discordant": discordant,
    }
    plan = replace(start, **{name: value for name, value in given.items() if value is not None})
    needed = patients_needed(plan, power=power, alpha=alpha)
    rows = [
        (each.patients, each.questions, power_of(plan, each.patients, alpha=alpha))
        for each in (patients_needed(plan, power=wanted, alpha=alpha) for wanted in sorted({*_POWERS, power}))
    ]
    notes = (
        f"A gain of {gain:+.3f} on {plan.baseline:.3f} needs {needed.patients} patients for a power of {power:g} "
        f"(two-sided, alpha {alpha:g}).",
        f"{plan.questions_per_patient:.1f} questions per patient, correlation {plan.icc:.3f}: a design effect of "
        f"{needed.design_effect:.2f}. {plan.changing:.0%} of the answers change"
        f"{'' if plan.discordant is not None else ' if the phases err independently of each other'}.",
    )
    print(table_text(Table("Patients for a gain", ("patients", "questions", "power"), tuple(rows), notes)))
    return 0
