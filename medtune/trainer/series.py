"""Makes several runs of one recipe: with `--seeds`, over a grid, or with `--folds`, and says what they have in common.

Runs of `--seeds N` differ in `train.seed` and have a common gain. Those of a cross-validation are each asked one fold
of the patients and learn from the others; their answers, pooled by question, make a run folder of their own.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any

from medtune.data.types import Interval, Question
from medtune.eval.comparing.gain import MIN_SEEDS, SEEDS_METHOD, SeedsGain, seeds_gain
from medtune.eval.comparing.verdict import difference_word
from medtune.eval.data_label import recorded_label
from medtune.eval.judge.verdicts import verdicts_path, with_verdicts
from medtune.eval.metric import ParsedReply, num_passes, passes_text, scored_everywhere
from medtune.eval.predictions.files import MERGED, format_line, replace_file, stored_predictions
from medtune.eval.results.metrics_file import read_metrics
from medtune.eval.results.schema import ResultsFile
from medtune.eval.results.typed_json import read_json, write_document
from medtune.eval.scoring.parse_replies import parse_all
from medtune.eval.scoring.score import levels
from medtune.eval.scoring.tables import Cell, Table, table_text
from medtune.eval.statistics.patient_swaps import holm, p_text, patient_p
from medtune.trainer.commands.arguments import ACCEPT_CHANGED_DATA
from medtune.trainer.launch.started import how_started
from medtune.trainer.recipe.read import recipe_to_yaml
from medtune.trainer.recipe.schema import Recipe
from medtune.trainer.runs.finished_run import FinishedRun, open_finished
from medtune.trainer.runs.run_folder import RunFolder, write_json

SEEDS = "seeds.json"
VERSION = 1


@dataclass(frozen=True)
class SeedRun:
    seed: int  # The `train.seed` of the run.
    folder: Path
    phases: tuple[list[ParsedReply], list[ParsedReply]]  # The parsed replies before training, and those after training.


def run_seeds(
    start: Callable[[Sequence[str]], int], arguments: Sequence[str], *, out: Path, first_seed: int, number: int
) -> int:
    """Starts the runs one after another, writes OUT/seeds.json and prints its table; returns the exit status.

    A folder OUT/seed_I that holds a run is resumed if `arguments` contain --resume. If a run fails, the series ends
    with its exit status.

    Args:
        first_seed: `train.seed` of the first run; the others count up from it.
    """
    _refuse_launchers("--seeds")
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


def _refuse_launchers(what: str) -> None:
    if how_started().how != "alone":
        raise ValueError(
            f"{what} starts its own processes; leave torchrun and srun with several tasks out and set train.devices"
        )


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


GRID = "grid.json"
_LOSS = "train/loss"
_ENDS = 5
"""The number of logged points at the beginning and at the end over which the table averages the loss."""


def run_grid(
    start: Callable[[Sequence[str]], int],
    arguments: Sequence[str],
    *,
    out: Path,
    grid: Mapping[str, Sequence[str]],
    resume: bool,
) -> int:
    """Starts the runs one after another, writes OUT/grid.json and prints its table; returns the exit status.

    Each run has the folder OUT/VALUE-VALUE-... With `resume`, finished runs are kept and an unfinished one is
    continued. If a run fails, the series ends with its exit status.
    """
    _refuse_launchers("a grid")
    cells = [dict(zip(grid, values, strict=True)) for values in product(*grid.values())]
    for cell in cells:
        settings = [f"{key}={value}" for key, value in cell.items()]
        print(f"\n{', '.join(settings)}", flush=True)
        if status := _run_unfinished(start, arguments, out / cell_name(cell), ["grid=null", *settings], resume=resume):
            return status
    rows = [_measured(out, cell) for cell in cells]
    write_json(out / GRID, {"version": 1, "runs": rows})
    print(f"\n{table_text(grid_table(rows))}\ngrid: {out / GRID}")
    return 0


def _run_unfinished(
    start: Callable[[Sequence[str]], int],
    arguments: Sequence[str],
    root: Path,
    settings: Sequence[str],
    *,
    resume: bool,
) -> int:
    folder = RunFolder(root)
    if resume and folder.results.is_file():
        return 0
    again = ["--resume"] if resume and folder.recipe.is_file() else []
    mine = [each for each in arguments if again or each != ACCEPT_CHANGED_DATA]
    return start([*mine, *again, "--out", str(root), "--set", *settings])


def cell_name(cell: Mapping[str, str]) -> str:
    """Returns the name of the folder of a combination."""
    return "-".join(str(value).replace("/", "_") for value in cell.values())


def _measured(out: Path, cell: Mapping[str, str]) -> dict[str, Any]:
    folder = RunFolder(out / cell_name(cell))
    results = read_json(folder.results, ResultsFile)
    losses = [float(row[_LOSS]) for row in read_metrics(folder.root / "metrics.csv") if row.get(_LOSS)]
    ends = min(_ENDS, len(losses))
    zero_shot, final = results.phases["zero_shot"], results.phases["final"]
    return {
        "settings": dict(cell),
        **results.label.facts(),
        "loss": [sum(part) / ends for part in (losses[:ends], losses[-ends:])],
        "metric": results.primary.name,
        "higher_is_better": results.primary.higher_is_better,
        "zero_shot": zero_shot.overall.value,
        "final": final.overall.value,
        "gain": results.gain.value if results.gain else None,
        "permutation_p": results.gain.permutation_p if results.gain else None,
        "repeats": final.overall.repeats,
        "by_task": {task: found.value for task, found in final.by.get("task", {}).items()},
    }


def grid_table(rows: Sequence[Mapping[str, Any]]) -> Table:
    """Returns a table with one row for each combination: first and last loss, the scores, also by task, and the gain.

    The p values of the gains are from swaps of whole patients, after Holm's correction over the combinations.

    Source: section 4.2 b of CTLesionVQA, arXiv 2505.18915, which compares architectures by type of question.
    """
    first = rows[0]
    tasks = sorted({task for row in rows for task in row["by_task"]})
    tested = [place for place, row in enumerate(rows) if row["permutation_p"] is not None]
    adjusted = dict(zip(tested, holm([rows[place]["permutation_p"] for place in tested]).p_values, strict=True))
    body: list[tuple[Cell, ...]] = [
        (
            *row["settings"].values(),
            *row["loss"],
            row["zero_shot"],
            row["final"],
            row["gain"],
            p_text(adjusted[place]) if place in adjusted else None,
            *(row["by_task"].get(task) for task in tasks),
        )
        for place, row in enumerate(rows)
    ]
    names = [key.rpartition(".")[2] for key in first["settings"]]
    difference = difference_word(higher_is_better=first["higher_is_better"])
    columns = (*names, "first loss", "last loss", "zero-shot", "final", difference, "p (patients, Holm)", *tasks)
    note = f"Losses are means of {_ENDS} steps; scores are {first['metric']}, by task those of the final model."
    tests = "p: before and after are swapped for whole patients; Holm's correction over the runs."
    note += "".join(f" Scores: {passes_text(repeats)}." for repeats in {row["repeats"] for row in rows} if repeats > 1)
    said = dict.fromkeys(text for row in rows for text in recorded_label(row).notes())
    return Table(f"{len(rows)} runs", columns, tuple(body), (note, tests, *said))


def run_folds(
    start: Callable[[Sequence[str]], int],
    arguments: Sequence[str],
    command: Sequence[str],
    *,
    out: Path,
    recipe: Recipe,
    resume: bool,
) -> int:
    """Makes the runs OUT/fold-1, OUT/fold-2, ..., pools them in OUT and prints the scores; returns the exit status.

    With `resume`, finished runs are kept and an unfinished one is continued. If a run fails, the series ends with its
    exit status.

    Args:
        command: The arguments of the whole cross-validation, for the record.
    """
    _refuse_launchers("--folds")
    number = recipe.data.folds or 0
    for fold in range(1, number + 1):
        print(f"\nfold {fold} of {number}", flush=True)
        if status := _run_unfinished(start, arguments, fold_folder(out, fold), [f"data.fold={fold}"], resume=resume):
            return status
    print(f"\n{pool_folds(out, number=number, command=['medtune', *command])}\nresults: {out / 'results.json'}")
    return 0


def fold_folder(out: Path, fold: int) -> Path:
    return out / f"fold-{fold}"


def pool_folds(out: Path, *, number: int, command: Sequence[str]) -> str:
    """Writes the run folder OUT with the answers of all folds, their scores and the report; returns the scores."""
    # These imports load torch.
    from medtune.trainer.commands.judge import rescore_run
    from medtune.trainer.experiment.experiment import open_run

    runs, whole = [RunFolder(fold_folder(out, fold)) for fold in range(1, number + 1)], RunFolder(out)
    for name in ("zero_shot", "final"):
        phases = [run.root / name for run in runs]
        (out / name).mkdir(exist_ok=True)
        answers = (each for phase in phases for each in stored_predictions(phase).values())
        replace_file(out / name / MERGED, map(format_line, answers))
        verdicts = [path for phase in phases if (path := verdicts_path(phase / MERGED)).is_file()]
        if verdicts:
            replace_file(verdicts_path(out / name / MERGED), (path.read_bytes() for path in verdicts))
    recipe = runs[0].read_recipe()
    replace_file(whole.recipe, [recipe_to_yaml(replace(recipe, data=replace(recipe.data, fold=None))).encode()])
    labels = [asdict(run.recorded_label()) for run in runs]
    label = {name: "; ".join(dict.fromkeys(each[name] for each in labels if each[name])) for name in labels[0]}
    found = [read_json(run.results, ResultsFile) for run in runs]
    about: dict[str, Any] = {
        **label,
        "trained_on": f"in {number} runs what is not in their fold; the first: {found[0].trained_on}",
    }
    write_json(whole.environment, {**runs[0].recorded(), **about, "command": list(command)})
    write_json(whole.weights, read_json(runs[0].weights, dict[str, str]))
    stops = [f"fold {place}: {each.stopped_early}" for place, each in enumerate(found, 1) if each.stopped_early]
    # `rescore_run` takes the facts of a run from its results, and puts the scores of all answers in place of these.
    write_document(whole.results, replace(found[0], **about, stopped_early="; ".join(stops)))
    return rescore_run(open_run(out))
