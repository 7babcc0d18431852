"""`medtune compare`: compares a run with another run, or with a file of predictions that any tool wrote."""

import argparse
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, cast

from medtune.data.types import Split
from medtune.eval.asking.official_prompts import FOREIGN_WORDING
from medtune.eval.comparing.compare import About, Side, check_comparable, compare
from medtune.eval.comparing.compare_file import compare_file
from medtune.eval.comparing.compare_text import (
    PLOT,
    comparison_markdown,
    comparison_plot,
    comparison_table,
)
from medtune.eval.judge.verdicts import with_verdicts
from medtune.eval.predictions.files import read_predictions, replace_file
from medtune.eval.results.schema import ResultsFile
from medtune.eval.results.typed_json import read_json, write_document
from medtune.eval.scoring.baselines import uncounted
from medtune.eval.scoring.parse_replies import parse_all
from medtune.eval.scoring.score import other_answers
from medtune.eval.scoring.tables import table_text
from medtune.trainer.experiment.run_folder import RunFolder
from medtune.trainer.series.finished_run import FinishedRun, open_finished

Phase = Literal["zero_shot", "final"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the arguments of `medtune compare`."""
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
        help="The prepared folder, where it was moved since RUN_A was made (default: the data.root of RUN_A).",
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
        help="The folder to write compare.json, compare.md and compare.svg to (default: nothing is written).",
    )


def command(options: argparse.Namespace, arguments: Sequence[str]) -> int:
    """Runs `medtune compare`: prints the comparison and returns 0."""
    return compare_runs(
        options.first,
        options.second,
        predictions=options.predictions,
        questions=options.questions,
        phase=options.phase,
        parser=options.parser,
        out=options.out,
    )


@dataclass(frozen=True)
class Answers:
    """One side of a comparison: a file of answers.

    Attributes:
        about: The facts that have to fit those of the other side, and the name in the table.
        predictions: The file of the answers.
        has_likelihood: Whether the model could give log-likelihoods.
    """

    about: About
    predictions: Path
    has_likelihood: bool = True


def compare_runs(
    first: Path,
    second: Path | None,
    *,
    predictions: Path | None,
    questions: Path | None,
    phase: Phase | None,
    parser: str | None,
    out: Path | None,
) -> int:
    """Prints the comparison of two runs, or of a run and a file of predictions, writes it to `out`, and returns 0.

    Args:
        first: The first run folder.
        second: The second run folder; None if `predictions` is given instead.
        predictions: JSON lines that answer questions of the first run's prepared folder; None if `second` is given.
        questions: That prepared folder, if it has been moved; None takes the recipe's `data.root`.
        phase: The phase of the runs; None takes the last phase that each run has.
        parser: The parser that reads the answers; None takes the one that gave the runs' results.
        out: The folder for compare.json, compare.md and compare.svg; None writes nothing.
    """
    if (second is None) == (predictions is None):
        raise ValueError("compare wants two run folders, or one run folder and --predictions FILE")
    one = read_run(first, phase=phase, parser=parser)
    if second is not None:
        other = read_run(second, phase=phase, parser=parser)
        if one.about.name == other.about.name:
            one, other = _renamed(one, str(first)), _renamed(other, str(second))
    else:
        assert predictions is not None
        other = _answers_of(predictions, like=one)
    if parser is None:
        one, other = _read_alike(one, other)
    check_comparable(one.about, other.about)
    run = open_finished(first, questions=questions)
    found = compare(_side(one, run), _side(other, run), run.benchmark)
    print(table_text(comparison_table(found)))
    if out:
        out.mkdir(parents=True, exist_ok=True)
        write_document(out / "compare.json", compare_file(found))
        replace_file(out / "compare.md", [comparison_markdown(found).encode()])
        replace_file(out / PLOT, [comparison_plot(found).encode()])
        print(f"written: {out / 'compare.json'}, compare.md, {PLOT}")
    return 0


def read_run(root: Path, *, phase: Phase | None, parser: str | None) -> Answers:
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
    trained = dict.fromkeys(("unofficial_training", "learnt_lookalikes", "seen_in_training", "changed_data"), "")
    label = replace(like.about.label, prompts=prompts, **trained)
    return replace(like, about=replace(like.about, name=predictions.name, label=label), predictions=predictions)


def _read_alike(one: Answers, other: Answers) -> tuple[Answers, Answers]:
    for given, asked in ((one, other), (other, one)):
        if not given.has_likelihood and asked.about.parser.startswith("likelihood"):
            parser = given.about.parser
            print(f"log-likelihood: n/a for {given.about.name}; generations of both are read by {parser!r}")
            return _read_by(one, parser), _read_by(other, parser)
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
    left_out = uncounted(asked, rows, benchmark.primary_metric)
    return Side(answers.about, rows, left_out, other_answers(predictions, parser, benchmark))


def _read_by(answers: Answers, parser: str) -> Answers:
    return replace(answers, about=replace(answers.about, parser=parser))


def _renamed(answers: Answers, name: str) -> Answers:
    return replace(answers, about=replace(answers.about, name=name))
