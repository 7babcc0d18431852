"""`medtune compare`: a run against a run, or against a file of predictions that any tool wrote."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, cast

from medtune.benchmarks import find_benchmark
from medtune.data.prepared.folder import Prepared, open_prepared
from medtune.data.types import Split
from medtune.eval.asking.official_prompts import FOREIGN
from medtune.eval.benchmark import Benchmark
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
from medtune.eval.scoring.left_out import uncounted
from medtune.eval.scoring.score import parse_all
from medtune.eval.scoring.tables import table_text
from medtune.trainer.experiment.run_folder import RunFolder
from medtune.trainer.recipe.read import read_recipe

Phase = Literal["zero_shot", "final"]


@dataclass(frozen=True)
class Answers:
    """A set of answers on disk.

    Attributes:
        has_likelihood: False where the model could give none.
    """

    about: About
    benchmark_name: str
    data_root: Path
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
    """Prints the comparison of two runs, or of a run and a prediction file; writes it where `out` says.

    Args:
        first: A run folder.
        second: Another one; None where there is a file.
        predictions: JSON lines that answer questions of the first run's prepared folder.
        questions: That folder, where it is not at the recipe's `data.root` any more.
        phase: Of the runs; by default the last that each has.
        parser: Who reads the answers; by default the one that a run's results go by.
        out: Folder for compare.json, compare.md and compare.svg.

    Raises:
        FileNotFoundError: A run, its results, its data or the file is missing.
        ValueError: The sides cannot be compared.
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
    prepared, benchmark = _questions(one, questions), find_benchmark(one.benchmark_name)
    found = compare(_side(one, prepared, benchmark), _side(other, prepared, benchmark), benchmark)
    print(table_text(comparison_table(found)))
    if out:
        out.mkdir(parents=True, exist_ok=True)
        write_document(out / "compare.json", compare_file(found))
        replace_file(out / "compare.md", [comparison_markdown(found).encode()])
        replace_file(out / PLOT, [comparison_plot(found).encode()])
        print(f"written: {out / 'compare.json'}, compare.md, {PLOT}")
    return 0


def read_run(root: Path, *, phase: Phase | None, parser: str | None) -> Answers:
    """Returns what a run answered.

    Raises:
        FileNotFoundError: It is no run folder, is not finished, or has no such phase.
    """
    folder = RunFolder(root)
    if not folder.recipe.is_file():
        raise FileNotFoundError(f"{root}: no run folder (no recipe.yaml); give the folder that `medtune run` wrote")
    if not folder.results.is_file():
        raise FileNotFoundError(f"{folder.results}: the run is not finished; continue it with --resume --out {root}")
    recipe = read_recipe(str(folder.recipe))
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
    return Answers(about, recipe.data.benchmark, recipe.data.root, path, has_likelihood)


def _answers_of(predictions: Path, *, like: Answers) -> Answers:
    """Returns a file's answers to the questions of a run; whose words asked is known where medtune wrote the file."""
    own = all(each.prompt_hash is not None for each in read_predictions(predictions))
    label = replace(like.about.label, prompts=like.about.label.prompts if own else FOREIGN, unofficial_training="")
    return replace(like, about=replace(like.about, name=predictions.name, label=label), predictions=predictions)


def _read_alike(one: Answers, other: Answers) -> tuple[Answers, Answers]:
    """Lets generations stand for a side whose model gives no log-likelihood, on both sides."""
    for given, asked in ((one, other), (other, one)):
        if not given.has_likelihood and asked.about.parser.startswith("likelihood"):
            parser = given.about.parser
            print(f"log-likelihood: n/a for {given.about.name}; generations of both are read by {parser!r}")
            return _read_by(one, parser), _read_by(other, parser)
    return one, other


def _questions(run: Answers, moved: Path | None) -> Prepared:
    root = moved or run.data_root
    prepared = open_prepared(root)
    if prepared.data_hash != run.about.data_hash:
        raise ValueError(
            f"{root} has the data hash {prepared.data_hash[:16]}, but {run.about.name} was asked that of "
            f"{run.about.data_hash[:16]}; give the folder of that run with --questions"
        )
    return prepared


def _side(answers: Answers, prepared: Prepared, benchmark: Benchmark) -> Side:
    asked = prepared.questions(cast("Split", answers.about.split))
    predictions = with_verdicts(read_predictions(answers.predictions), answers.predictions, benchmark)
    verdicts = parse_all(asked, predictions, benchmark)["image"]
    parser = answers.about.parser
    if parser not in verdicts:
        raise ValueError(
            f"{answers.predictions}: nothing there that the parser {parser!r} reads; name with --parser one that both "
            f"sides have; here: {', '.join(verdicts)}"
        )
    rows = tuple(verdicts[parser])
    return Side(answers.about, rows, uncounted(asked, rows, benchmark.scale(benchmark.primary)))


def _read_by(answers: Answers, parser: str) -> Answers:
    return replace(answers, about=replace(answers.about, parser=parser))


def _renamed(answers: Answers, name: str) -> Answers:
    return replace(answers, about=replace(answers.about, name=name))
