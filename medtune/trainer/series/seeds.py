"""Compares runs that differ only in `train.seed`: their common gain, with an interval for the recipe."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import NamedTuple

from medtune.eval.benchmark import Benchmark
from medtune.eval.comparing.gain import MIN_SEEDS, SEEDS_METHOD, SeedsGain, seeds_gain
from medtune.eval.comparing.verdict import difference_word
from medtune.eval.metric import Metric, ParsedReply, num_passes, passes_text, scored_everywhere
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


class _SeedScores(NamedTuple):
    """The scores of one run, as seeds.json has them."""

    seed: int
    folder: str
    zero_shot: float
    final: float
    permutation_p: float
    permutation_p_holm: float


def compare_seeds(out: Path, *, number: int) -> str:
    """Writes OUT/seeds.json from the folders seed_0 to seed_(N-1) and returns its table."""
    finished = [open_finished(out / f"seed_{index}") for index in range(number)]
    benchmark, label = finished[0].benchmark, finished[0].label
    runs, unscored = without_unscored(
        [SeedRun(run.recipe.train.seed, run.folder.root, answered_rows(run)) for run in finished]
    )
    if not runs[0].phases[0]:
        raise ValueError(f"{out}: all {unscored} answers wait for a judge; `medtune judge` each run, then --resume")
    scores = _scores(runs, benchmark.primary_metric)
    whole = seeds_gain([run.phases for run in runs], benchmark.primary_metric)
    by_task = {task: seeds_gain(phases, benchmark.primary_metric) for task, phases in _by_task(runs).items()}
    repeats = num_passes(runs[0].phases[0])
    write_json(
        out / SEEDS,
        {
            "version": VERSION,
            **label.facts(),
            "metric": benchmark.primary,
            "interval_method": SEEDS_METHOD,
            "runs": [each._asdict() for each in scores],
            "gain": _json(whole),
            "unscored": unscored,
            "repeats": repeats,
            "by": {"task": {task: _json(found) for task, found in by_task.items()}},
        },
    )
    notes = []
    if repeats > 1:
        notes.append(f"Each score is the {passes_text(repeats)}.")
    if unscored:
        notes.append(f"Unscored: {unscored} questions wait for a judge in some run, and are left out of all.")
    return table_text(_table(scores, whole, by_task, benchmark, notes=[*notes, *label.notes()]))


def _scores(runs: Sequence[SeedRun], metric: Metric) -> list[_SeedScores]:
    values = [[metric.value(rows) for rows in run.phases] for run in runs]
    tests = [
        patient_p(metric.on([*before, *after]), [row.question.patient_id for row in before])
        for before, after in (run.phases for run in runs)
    ]
    return [
        _SeedScores(run.seed, run.folder.name, before, after, p, p_holm)
        for run, (before, after), p, p_holm in zip(runs, values, tests, holm(tests).p_values, strict=True)
    ]


def _table(
    scores: Sequence[_SeedScores],
    whole: SeedsGain,
    by_task: Mapping[str, SeedsGain],
    benchmark: Benchmark,
    *,
    notes: Sequence[str],
) -> Table:
    rows: list[tuple[Cell, ...]] = [
        (f"seed {seed}", before, after, f"{after - before:+.3f}", None, p_text(p_holm))
        for seed, _, before, after, _, p_holm in scores
    ]
    rows += [
        (name, None, None, f"{found.value:+.3f}", found.ci95 and found.ci95.text(signed=True), None)
        for name, found in {"all seeds": whole, **by_task}.items()
    ]
    difference = difference_word(higher_is_better=benchmark.higher_is_better)
    return Table(
        f"{benchmark.primary} over {len(scores)} seeds, {whole.n} questions of {whole.num_patients} patients",
        ("", "zero-shot", "final", difference, "95 % interval", "p (patients, Holm)"),
        tuple(rows),
        (
            f"95 % intervals: {SEEDS_METHOD}. The {difference}'s standard deviation over seeds is {whole.seed_sd:.3f}.",
            "p of a seed: before and after of this run are swapped for whole patients; Holm's correction over the "
            "seeds. It is about that run; the interval is about the recipe.",
            *notes,
        ),
    )


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
