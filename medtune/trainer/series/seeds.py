"""Compares runs that differ only in `train.seed`: their common gain, with an interval for the recipe."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from medtune.eval.comparing.gain import MIN_SEEDS, SEEDS_METHOD, SeedsGain, seeds_gain
from medtune.eval.comparing.verdict import difference_word
from medtune.eval.metric import ParsedReply, num_passes, passes_text, scored_everywhere
from medtune.eval.scoring.score import levels
from medtune.eval.scoring.tables import Cell, Table, table_text
from medtune.eval.statistics.patient_swaps import holm, p_text, patient_p
from medtune.trainer.runs.answers import answered_rows
from medtune.trainer.runs.finished_run import open_finished
from medtune.trainer.runs.run_folder import write_json
from medtune.trainer.series.runs import PlannedRun, Series

SEEDS = "seeds.json"
VERSION = 1


@dataclass(frozen=True)
class SeedRun:
    seed: int  # The `train.seed` of the run.
    folder: Path
    phases: tuple[list[ParsedReply], list[ParsedReply]]  # The parsed replies before training, and those after training.


def seeds(out: Path, *, first_seed: int, number: int) -> Series:
    """Returns the runs OUT/seed_0, OUT/seed_1, ..., whose `train.seed` counts up from `first_seed`."""
    if number < MIN_SEEDS:
        raise ValueError(f"--seeds is {number}; the spread over seeds needs at least {MIN_SEEDS}")
    runs = [
        PlannedRun(f"seed {first_seed + index}", out / f"seed_{index}", (f"train.seed={first_seed + index}",))
        for index in range(number)
    ]
    return Series("--seeds", tuple(runs), lambda: f"{compare_seeds(out, number=number)}\nseeds: {out / SEEDS}")


def compare_seeds(out: Path, *, number: int) -> str:
    """Writes OUT/seeds.json from the folders seed_0 to seed_(N-1) and returns its table."""
    finished = [open_finished(out / f"seed_{index}") for index in range(number)]
    benchmark, label = finished[0].benchmark, finished[0].label
    runs, unscored = without_unscored(
        [SeedRun(run.recipe.train.seed, run.folder.root, answered_rows(run)) for run in finished]
    )
    if not runs[0].phases[0]:
        raise ValueError(f"{out}: all {unscored} answers wait for a judge; `medtune judge` each run, then --resume")
    metric = benchmark.primary_metric
    whole = seeds_gain([run.phases for run in runs], metric)
    tasks = _by_task(runs)
    by_task = {task: seeds_gain(phases, metric) for task, phases in tasks.items()}
    values = [[metric.value(rows) for rows in run.phases] for run in runs]
    tests = [patient_p(metric.on([*before, *after]), _patients(before)) for before, after in (r.phases for r in runs)]
    adjusted = holm(tests).p_values
    write_json(
        out / SEEDS,
        {
            "version": VERSION,
            **label.facts(),
            "metric": benchmark.primary,
            "interval_method": SEEDS_METHOD,
            "runs": [
                {
                    "seed": run.seed,
                    "folder": run.folder.name,
                    "zero_shot": before,
                    "final": after,
                    "permutation_p": p,
                    "permutation_p_holm": p_holm,
                }
                for run, (before, after), p, p_holm in zip(runs, values, tests, adjusted, strict=True)
            ],
            "gain": _json(whole),
            "unscored": unscored,
            "repeats": num_passes(runs[0].phases[0]),
            "by": {"task": {task: _json(found) for task, found in by_task.items()}},
        },
    )
    rows: list[tuple[Cell, ...]] = [
        (f"seed {run.seed}", before, after, f"{after - before:+.3f}", None, p_text(p_holm))
        for run, (before, after), p_holm in zip(runs, values, adjusted, strict=True)
    ]
    rows += [
        (name, None, None, f"{found.value:+.3f}", found.ci95 and found.ci95.text(signed=True), None)
        for name, found in {"all seeds": whole, **by_task}.items()
    ]
    difference = difference_word(higher_is_better=benchmark.higher_is_better)
    notes = [
        f"95 % intervals: {SEEDS_METHOD}. The {difference}'s standard deviation over seeds is {whole.seed_sd:.3f}.",
        "p of a seed: before and after of this run are swapped for whole patients; Holm's correction over the seeds. "
        "It is about that run; the interval is about the recipe.",
    ]
    if (repeats := num_passes(runs[0].phases[0])) > 1:
        notes.append(f"Each score is the {passes_text(repeats)}.")
    if unscored:
        notes.append(f"Unscored: {unscored} questions wait for a judge in some run, and are left out of all.")
    table = Table(
        f"{benchmark.primary} over {number} seeds, {whole.n} questions of {whole.num_patients} patients",
        ("", "zero-shot", "final", difference, "95 % interval", "p (patients, Holm)"),
        tuple(rows),
        (*notes, *label.notes()),
    )
    return table_text(table)


def _patients(rows: Sequence[ParsedReply]) -> list[str]:
    return [row.question.patient_id for row in rows]


def without_unscored(runs: Sequence[SeedRun]) -> tuple[list[SeedRun], int]:
    """Returns the runs without the questions that wait for a judge in any run, and the number of these questions."""
    ids = {tuple(row.question.id for row in phase) for run in runs for phase in run.phases}
    if len(ids) > 1:
        raise ValueError("the runs answered different questions; all seeds of a recipe have to answer the same ones")
    kept = scored_everywhere([phase for run in runs for phase in run.phases])
    left = [replace(run, phases=(kept[2 * i], kept[2 * i + 1])) for i, run in enumerate(runs)]
    return left, len(runs[0].phases[0]) - len(kept[0])


def _by_task(runs: Sequence[SeedRun]) -> dict[str, list[tuple[list[ParsedReply], list[ParsedReply]]]]:
    split = [(levels(before, "task"), levels(after, "task")) for before, after in (run.phases for run in runs)]
    return {task: [(before[task], after[task]) for before, after in split] for task in split[0][0]}


def _json(found: SeedsGain) -> dict[str, object]:
    return {**asdict(found), "ci95": list(found.ci95) if found.ci95 else None, "per_seed": list(found.per_seed)}
