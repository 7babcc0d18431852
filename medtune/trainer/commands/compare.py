"""`medtune compare`: compares a run with another run, or with a file of predictions that any tool wrote."""

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, cast

from medtune.data.types import Split
from medtune.eval.asking.official_prompts import FOREIGN_WORDING
from medtune.eval.comparing.compare import About, Side, check_comparable, compare
from medtune.eval.comparing.compare_file import CompareFile
from medtune.eval.comparing.compare_text import comparison_table
from medtune.eval.data_label import OF_TRAINING
from medtune.eval.judge.verdicts import with_verdicts
from medtune.eval.metric import scored_everywhere
from medtune.eval.predictions.files import read_predictions
from medtune.eval.report.runs.differences import PairedRuns, pairs_to_compare
from medtune.eval.report.write import write_runs
from medtune.eval.results.schema import ResultsFile
from medtune.eval.results.typed_json import read_json, write_document
from medtune.eval.scoring.parse_replies import parse_all
from medtune.eval.scoring.score import correctness, other_answers
from medtune.eval.scoring.tables import Table, table_text
from medtune.eval.statistics.power import PowerPlan, patients_needed, plan_from, power_of
from medtune.trainer.commands.arguments import Commands, add_questions
from medtune.trainer.runs.answers import answered_rows
from medtune.trainer.runs.finished_run import FinishedRun, open_finished
from medtune.trainer.runs.run_folder import RunFolder

Phase = Literal["zero_shot", "final"]
DEFAULT_ICC = 0.1
_POWERS = (0.5, 0.8, 0.9, 0.95)


def compare_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("first", type=Path, metavar="RUN_A", help="The first run folder.")
    parser.add_argument(
        "second",
        type=Path,
        metavar="RUN_B",
        nargs="?",
        help="The second run folder (default: none, and --predictions takes its place).",
    )
    parser.add_argument(
        "--predictions",
        type=Path,
        metavar="FILE",
        help="JSON lines with question_id and text to compare with instead of RUN_B (default: none).",
    )
    parser.add_argument(
        "--questions",
        type=Path,
        metavar="DIR",
        help="The prepared folder, where it was moved since RUN_A was made (default: the data.root of RUN_A, or a "
        "folder with the same data beside it).",
    )
    parser.add_argument(
        "--phase", choices=("zero_shot", "final"), help="The phase of the runs (default: the last that each run has)."
    )
    parser.add_argument(
        "--parser", metavar="NAME", help="The parser that reads the replies (default: the one of the runs' results)."
    )
    parser.add_argument(
        "--out",
        type=Path,
        metavar="DIR",
        help="The folder to write compare.json and the page of `medtune report RUN_A RUN_B` to (default: nothing is "
        "written).",
    )


@dataclass(frozen=True)
class Answers:
    """One side of a comparison: a file of answers, what has to fit the other side, and if it may hold likelihoods."""

    about: About
    predictions: Path
    has_likelihood: bool = True


def compare_command(options: argparse.Namespace, arguments: Sequence[str]) -> int:
    first, second, predictions, parser = options.first, options.second, options.predictions, options.parser
    if (second is None) == (predictions is None):
        raise ValueError("compare wants two run folders, or one run folder and --predictions FILE")
    one = _read_run(first, phase=options.phase, parser=parser)
    if second is not None:
        other = _read_run(second, phase=options.phase, parser=parser)
        if one.about.name == other.about.name:
            one, other = _with(one, name=str(first)), _with(other, name=str(second))
    else:
        other = _answers_of(predictions, like=one)
    if parser is None:
        one, other = _read_alike(one, other)
    check_comparable(one.about, other.about)
    run = open_finished(first, questions=options.questions)
    found = compare(_side(one, run), _side(other, run), run.benchmark)
    print(table_text(comparison_table(found)))
    if out := options.out:
        out.mkdir(parents=True, exist_ok=True)
        write_document(out / "compare.json", found, CompareFile)
        runs = [first] if second is None else [first, second]
        page = write_runs(runs, out, lambda folders: PairedRuns([found] if first in folders.values() else []))
        print(f"written: {out / 'compare.json'}, {page.name}")
    return 0


def paired_runs(folders: Mapping[str, Path], *, questions: Path | None) -> PairedRuns:
    """Returns the comparisons of runs that were asked the same questions, each by its last phase.

    Args:
        folders: Name of each run -> its folder.
        questions: The prepared folder, where it was moved; with None it is looked for.
    """
    if len(folders) < 2:
        return PairedRuns(())
    try:
        run = open_finished(next(iter(folders.values())), questions=questions)
        asked = {name: _with(_read_run(folder, phase=None, parser=None), name=name) for name, folder in folders.items()}
        found = []
        for first, second in pairs_to_compare(list(folders)):
            one, other = _read_alike(asked[first], asked[second])
            found.append(compare(_side(one, run), _side(other, run), run.benchmark))
    except (FileNotFoundError, ValueError) as error:
        return PairedRuns((), str(error))
    return PairedRuns(found)


def _read_run(root: Path, *, phase: Phase | None, parser: str | None) -> Answers:
    folder = RunFolder(root)
    recipe = folder.read_recipe()
    if not folder.results.is_file():
        raise FileNotFoundError(f"{folder.results}: the run is not finished; continue it with --resume --out {root}")
    results = read_json(folder.results, ResultsFile)
    phases = results.phases
    chosen = phase or ("final" if "final" in phases else "zero_shot")
    if chosen not in phases:
        raise FileNotFoundError(f"{root}: the run has no phase {chosen!r}; there are: {', '.join(phases)}")
    about = About(
        name=f"{root.resolve().name} ({chosen.replace('_', '-')})",
        benchmark=f"{results.benchmark} {results.benchmark_version}",
        data_hash=results.data_hash,
        split=recipe.eval.split,
        parser=parser or phases[chosen].parser,
        label=results.label,
        thinking=results.protocol.used.thinking if results.protocol else "",
    )
    path = {"zero_shot": folder.zero_shot, "final": folder.final}[chosen] / "predictions.jsonl"
    has_likelihood = "likelihood" not in results.unavailable
    return Answers(about, path, has_likelihood)


def _answers_of(predictions: Path, *, like: Answers) -> Answers:
    """Returns the answers of a file to the questions of a run.

    The wording of the prompts is known only if medtune wrote the file.
    """
    own = all(each.prompt_hash is not None for each in read_predictions(predictions))
    prompts = like.about.label.prompts if own else FOREIGN_WORDING
    label = replace(like.about.label, prompts=prompts, **dict.fromkeys(OF_TRAINING, ""))
    return replace(
        like, about=replace(like.about, name=predictions.name, label=label, thinking=""), predictions=predictions
    )


def _read_alike(one: Answers, other: Answers) -> tuple[Answers, Answers]:
    for given, asked in ((one, other), (other, one)):
        if not given.has_likelihood and asked.about.parser.startswith("likelihood"):
            parser = given.about.parser
            print(f"log-likelihood: n/a for {given.about.name}; generations of both are read by {parser!r}")
            return _with(one, parser=parser), _with(other, parser=parser)
    return one, other


def _side(answers: Answers, run: FinishedRun) -> Side:
    benchmark = run.benchmark
    asked = run.prepared.questions(cast("Split", answers.about.split))
    predictions = with_verdicts(read_predictions(answers.predictions), answers.predictions, benchmark)
    parsed = parse_all(asked, predictions, benchmark)["image"]
    parser = answers.about.parser
    if parser not in parsed:
        raise ValueError(
            f"{answers.predictions}: nothing there that the parser {parser!r} reads; name with --parser one that both "
            f"sides have; here: {', '.join(parsed)}"
        )
    rows = tuple(parsed[parser])
    return Side(answers.about, rows, other_answers(predictions, parser, benchmark))


def _with(answers: Answers, **about: Any) -> Answers:
    return replace(answers, about=replace(answers.about, **about))


def power_arguments(parser: argparse.ArgumentParser) -> None:
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
    add_questions(parser)


def _plan_of_run(root: Path, *, questions: Path | None, gain: float) -> PowerPlan:
    """Returns a plan for a gain whose other numbers are measured on a finished run."""
    before, after = scored_everywhere(answered_rows(open_finished(root, questions=questions)))
    if not before:
        raise ValueError(f"{root}: every answer waits for a judge; `medtune judge {root}` first")
    scores = correctness(before), correctness(after)
    if scores[0] is None or scores[1] is None:
        raise ValueError(f"{root}: some answers are not right or wrong; `medtune power` plans for shares of right ones")
    return plan_from(scores[0], scores[1], [row.question.patient_id for row in before], gain=gain)


def power_command(options: argparse.Namespace, arguments: Sequence[str]) -> int:
    """Runs `medtune power`: prints how many patients are needed to detect a gain, and returns 0."""
    run, gain, power, alpha = options.run, options.gain, options.power, options.alpha
    if run is None and (options.baseline is None or options.questions_per_patient is None):
        raise ValueError("give --baseline and --questions-per-patient, or --run RUN to take them from a run")
    nothing = PowerPlan(0.0, gain, 1.0, DEFAULT_ICC)
    start = nothing if run is None else _plan_of_run(run, questions=options.questions, gain=gain)
    names = ("baseline", "questions_per_patient", "icc", "discordant")
    plan = replace(start, **{name: value for name in names if (value := getattr(options, name)) is not None})
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


COMMANDS: Commands = {"compare": (compare_arguments, compare_command), "power": (power_arguments, power_command)}
