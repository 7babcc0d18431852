"""Makes the N runs of `medtune run RECIPE --seeds N`, which differ in `train.seed`, and computes their common gain."""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from medtune.data.types import Interval, Question
from medtune.eval.comparing.seeds import MIN_SEEDS, SEEDS_METHOD, SeedsGain, seeds_gain
from medtune.eval.judge.verdicts import with_verdicts
from medtune.eval.parsed_reply import ParsedReply, num_passes, passes_text, scored_everywhere
from medtune.eval.predictions.shards import MERGED, stored_predictions
from medtune.eval.scoring.parse_replies import parse_all
from medtune.eval.scoring.score import levels
from medtune.eval.scoring.tables import Cell, Table, table_text
from medtune.eval.statistics.patient_swaps import holm, p_text, patient_p
from medtune.trainer.commands.arguments import ACCEPT_CHANGED_DATA
from medtune.trainer.experiment.run_folder import RunFolder, write_json
from medtune.trainer.launch.started import how_started
from medtune.trainer.series.finished_run import FinishedRun, open_finished

SEEDS = "seeds.json"
VERSION = 1


@dataclass(frozen=True)
class SeedRun:
    """One of the runs.

    Attributes:
        seed: The `train.seed` of the run.
        folder: The run folder.
        phases: The parsed replies before training, and those after training.
    """

    seed: int
    folder: Path
    phases: tuple[list[ParsedReply], list[ParsedReply]]


def run_seeds(
    start: Callable[[Sequence[str]], int], arguments: Sequence[str], *, out: Path, first_seed: int, number: int
) -> int:
    """Starts the runs one after another, writes OUT/seeds.json and prints its table; returns the exit status.

    A folder OUT/seed_I that holds a run is resumed if `arguments` contain --resume. If a run fails, the series ends
    with its exit status.

    Args:
        start: Runs `medtune ARGUMENTS` and returns the exit status.
        arguments: The arguments of a run, without --out and --seeds; they may hold --resume.
        out: The folder that holds seed_0, seed_1, ...
        first_seed: `train.seed` of the first run; the others count up from it.
        number: The number of runs.
    """
    if how_started().how != "alone":
        raise ValueError(
            "--seeds starts its own processes; leave torchrun and srun with several tasks out and set train.devices"
        )
    if number < MIN_SEEDS:
        raise ValueError(f"--seeds is {number}; the spread over seeds needs at least {MIN_SEEDS}")
    for index in range(number):
        folder = out / f"seed_{index}"
        goes_on = RunFolder(folder).recipe.is_file()
        mine = [each for each in arguments if goes_on or each not in ("--resume", ACCEPT_CHANGED_DATA)]
        status = start([*mine, "--out", str(folder), "--set", f"train.seed={first_seed + index}"])
        if status:
            return status
    print(f"\n{compare_seeds(out, number=number)}")
    print(f"seeds: {out / SEEDS}")
    return 0


def compare_seeds(out: Path, *, number: int) -> str:
    """Writes OUT/seeds.json from the folders seed_0 to seed_(N-1) and returns its table."""
    finished = [open_finished(out / f"seed_{index}") for index in range(number)]
    benchmark, label = finished[0].benchmark, finished[0].label
    runs, unscored = without_unscored([_read(run) for run in finished])
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
        (name, None, None, f"{found.value:+.3f}", _interval(found.ci95), None)
        for name, found in {"all seeds": whole, **by_task}.items()
    ]
    notes = [
        f"95 % intervals: {SEEDS_METHOD}. The gain's standard deviation over seeds is {whole.seed_sd:.3f}.",
        "p of a seed: before and after of this run are swapped for whole patients; Holm's correction over the seeds. "
        "It is about that run; the interval is about the recipe.",
    ]
    if (repeats := num_passes(runs[0].phases[0])) > 1:
        notes.append(f"Each score is the {passes_text(repeats)}.")
    if unscored:
        notes.append(f"Unscored: {unscored} questions wait for a judge in some run, and are left out of all.")
    table = Table(
        f"{benchmark.primary} over {number} seeds, {whole.n} questions of {whole.num_patients} patients",
        ("", "zero-shot", "final", "gain", "95 % interval", "p (patients, Holm)"),
        tuple(rows),
        (*notes, *label.notes()),
    )
    return table_text(table)


def phase_rows(run: FinishedRun, folder: Path, questions: Sequence[Question]) -> list[ParsedReply]:
    """Returns the replies of a phase that the primary metric covers, as the primary parser reads them."""
    benchmark = run.benchmark
    predictions = with_verdicts(list(stored_predictions(folder).values()), folder / MERGED, benchmark)
    parsed = parse_all(questions, predictions, benchmark)["image"]
    parser = run.primary_parser
    if parser not in parsed:
        raise ValueError(f"{folder}: no answers that {parser!r} could read; finish the run first")
    return benchmark.primary_metric.covered(parsed[parser])


def answered_rows(run: FinishedRun) -> tuple[list[ParsedReply], list[ParsedReply]]:
    """Returns the parsed replies of a run before and after training."""
    folder = run.folder
    asked = {key.question_id for key in stored_predictions(folder.zero_shot)}
    questions = [question for question in run.prepared.questions(run.recipe.eval.split) if question.id in asked]
    return phase_rows(run, folder.zero_shot, questions), phase_rows(run, folder.final, questions)


def _patients(rows: Sequence[ParsedReply]) -> list[str]:
    return [row.question.patient_id for row in rows]


def _read(run: FinishedRun) -> SeedRun:
    return SeedRun(run.recipe.train.seed, run.folder.root, answered_rows(run))


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


def _interval(interval: Interval | None) -> str | None:
    return f"{interval.low:+.3f} to {interval.high:+.3f}" if interval else None
