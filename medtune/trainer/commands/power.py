"""`medtune power`: how many patients a gain needs, from numbers or from a run."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from medtune.eval.benchmark import scored_everywhere
from medtune.eval.scoring.score import correctness
from medtune.eval.scoring.tables import Table, table_text
from medtune.eval.statistics.power import Plan, patients_needed, plan_from, power_of
from medtune.trainer.experiment.experiment import open_run
from medtune.trainer.series.seeds import answered_rows

DEFAULT_ICC = 0.1
_POWERS = (0.5, 0.8, 0.9, 0.95)


def plan_of_run(root: Path, *, gain: float) -> Plan:
    """Returns the plan that a finished run suggests for another gain.

    Raises:
        FileNotFoundError: No run is there.
        ValueError: A phase has no answers, or answers are not right or wrong.
    """
    before, after = scored_everywhere(answered_rows(open_run(root)))
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
    """Prints how many patients the gain needs and returns 0; what is given overrides what the run suggests.

    Raises:
        ValueError: A number is missing or impossible.
    """
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
