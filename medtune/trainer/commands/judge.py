"""`medtune judge`: lets a judge give verdicts on free answers of a run or of any tool's file, and scores them."""

import argparse
from collections.abc import Sequence
from pathlib import Path

from medtune.benchmarks import find_benchmark, paper_of
from medtune.data.prepared.read import open_prepared
from medtune.data.types import PredictionKey, Split
from medtune.eval.comparing.gain import gain_between
from medtune.eval.judge.agreement import agreement, agreement_tables, read_human_scores
from medtune.eval.judge.verdicts import Judging, judge_replies, read_verdicts, verdicts_path
from medtune.eval.predictions.files import MERGED, read_predictions
from medtune.eval.predictions.shards import stored_predictions
from medtune.eval.report.write import write_report
from medtune.eval.results.build import gain_table, rescored
from medtune.eval.results.schema import ResultsFile
from medtune.eval.results.typed_json import read_json, write_document
from medtune.eval.scoring.score import PhaseScores
from medtune.eval.scoring.tables import table_text
from medtune.trainer.commands.arguments import Commands, add_overrides, add_split
from medtune.trainer.commands.score import score_file
from medtune.trainer.experiment.evaluate import score_answers
from medtune.trainer.experiment.experiment import Experiment, open_run
from medtune.trainer.experiment.judging import (
    SPENDING,
    AnsweredFile,
    judge_answers,
    judge_command_line,
    judge_task,
    opened_judge,
    say,
)
from medtune.trainer.recipe.judge import JudgeSettings, check_judge
from medtune.trainer.recipe.read import read_settings, recipe_tree
from medtune.trainer.recipe.servers import addresses_in, refuse_unnamed_server
from medtune.trainer.runs.run_folder import RunFolder

UNJUDGED = 1
"""The exit status if some answers have no verdict."""


def rescore_run(experiment: Experiment) -> str:
    """Writes parsed.jsonl, scores.json, results.json and the report of a finished run anew; returns its tables as text.

    The phases, the questions and the primary parser of the run are kept.
    """
    folder = experiment.folder
    results = read_json(folder.results, ResultsFile)
    folders = {"zero_shot": folder.zero_shot, "final": folder.final}
    there = experiment.prepared.questions(experiment.recipe.eval.split)
    phases: dict[str, PhaseScores] = {}
    for name, phase in results.phases.items():
        stored = list(stored_predictions(folders[name]).values())
        answered = {prediction.key.question_id for prediction in stored}
        phases[name] = score_answers(
            experiment,
            [question for question in there if question.id in answered],
            stored,
            out_dir=folders[name],
            phase=name,
            parser=phase.parser,
            before=phases.get("zero_shot"),
        )
    both = set(phases) == set(folders)
    gain = gain_between(phases["zero_shot"], phases["final"], experiment.benchmark) if both else None
    write_document(folder.results, rescored(results, phases, gain, experiment.benchmark))
    *_, last = phases.values()
    judged_by = judge_command_line(folder.root, experiment.recipe)
    said = [
        gain_table(
            phases,
            gain,
            experiment.benchmark,
            label=experiment.label,
            unavailable=results.unavailable,
            judged_by=judged_by,
        )
    ]
    said += [table_text(table) for table in last.tables]
    return "\n\n".join([*said, f"report: {write_report(folder.root, paper_of, questions=experiment.prepared.root)}"])


def read_judge(file: Path | None, overrides: Sequence[str], *, run: Path | None) -> JudgeSettings:
    """Returns the settings of a YAML file, or else of the run's recipe, with `overrides` applied."""
    own = run and RunFolder(run)
    below = (recipe_tree(own.read_recipe())["eval"]["judge"] if own and own.recipe.is_file() else None) or {}
    settings = read_settings(JudgeSettings, file, overrides, below=below)
    if own and file is None:
        named = addresses_in(overrides, "endpoint")
        refuse_unnamed_server(settings.endpoint, named, folder=own.root, how="--set endpoint.base_url=")
    check_judge(settings, where="", how="give a file with --judge, or --set endpoint.base_url=... endpoint.model=...")
    return settings


def judge_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "target", metavar="RUN|BENCHMARK", help="A run folder, or with --predictions a benchmark's name."
    )
    parser.add_argument(
        "--predictions",
        type=Path,
        metavar="FILE",
        help="JSON lines with question_id and text to judge instead of a run's answers (default: none).",
    )
    parser.add_argument(
        "--questions",
        type=Path,
        metavar="DIR",
        help="The prepared folder that the file of --predictions answers, or that of the run, if it has been moved "
        "(default: none, and the data of a run are looked for).",
    )
    add_split(parser, of="that prepared folder")
    parser.add_argument(
        "--judge",
        type=Path,
        metavar="FILE",
        help="A YAML file that describes the judge: endpoint or local, and prompt or official, strict and "
        "max_new_tokens (default: eval.judge of the run's recipe, and what --set says).",
    )
    add_overrides(parser, of="judge's file", example="endpoint.model=gpt-5")
    parser.add_argument(
        "--agreement",
        type=Path,
        metavar="CSV",
        help="A person's scores, with the columns question_id and score: prints how far the verdicts agree with them "
        "as weighted kappa, and asks no judge (default: none).",
    )
    parser.add_argument(
        "--phase",
        choices=("zero_shot", "final"),
        help="The phase of the run whose verdicts --agreement takes (default: the last phase).",
    )


def judge_command(options: argparse.Namespace, arguments: Sequence[str]) -> int:
    """Runs `medtune judge`: judges a run's answers, or compares the verdicts with a person's scores."""
    if options.predictions is not None and options.questions is None:
        raise ValueError("--predictions needs --questions: the prepared folder that the file answers")
    of_file = {"predictions": options.predictions, "questions": options.questions, "split": options.split}
    if options.agreement is not None:
        if options.predictions is not None:
            return show_agreement(answered_file(options.target, **of_file), options.agreement)
        of_run = answered_phase(Path(options.target), options.phase, questions=options.questions)
        return show_agreement(of_run, options.agreement)
    run = Path(options.target) if options.predictions is None else None
    settings = read_judge(options.judge, options.overrides, run=run)
    if options.predictions is not None:
        return judge_file(options.target, **of_file, settings=settings)
    return judge_run(Path(options.target), settings, questions=options.questions)


def judge_run(root: Path, settings: JudgeSettings, *, questions: Path | None = None) -> int:
    """Judges every phase of a run, scores it again and writes its report anew; returns the exit status."""
    experiment = _open_finished(root, questions)
    phases = answered_phases(experiment)
    with opened_judge(settings, root / SPENDING) as judge:
        found = [judge_answers(judge, settings, phase) for phase in phases]
    print(f"\n{rescore_run(experiment)}")
    return _status(found)


def judge_file(
    benchmark_name: str, *, predictions: Path, questions: Path, split: Split, settings: JudgeSettings
) -> int:
    answered = answered_file(benchmark_name, predictions=predictions, questions=questions, split=split)
    with opened_judge(settings, predictions.parent / SPENDING) as judge:
        found = judge_answers(judge, settings, answered)
    print()
    score_file(benchmark_name, [predictions], questions, split=split)
    return _status([found])


def show_agreement(answered: AnsweredFile, human: Path) -> int:
    """Prints how far the verdicts on a file agree with a person's scores, and returns 0."""
    beside, task = verdicts_path(answered.predictions), answered.task
    if not beside.is_file():
        raise FileNotFoundError(f"{beside}: no verdicts yet; judge the answers first, without --agreement")
    stored = read_verdicts(beside)
    said = judge_replies(read_predictions(answered.predictions), stored)
    points: dict[PredictionKey, int] = {key: task.points(text) for key, text in said.items()}
    patients = {question.id: question.patient_id for question in answered.questions}
    found = agreement(read_human_scores(human, levels=task.levels), points, patients, levels=task.levels)
    judges = sorted({verdict.judge for verdict in stored.values()})
    for table in agreement_tables(found, judge=", ".join(judges)):
        print(table_text(table))
        print()
    return 0


def answered_phases(experiment: Experiment) -> list[AnsweredFile]:
    """Returns the answered phases of a run, zero_shot first."""
    benchmark, folder = experiment.benchmark, experiment.folder
    task = judge_task(benchmark, experiment.recipe.data.benchmark)
    questions = experiment.prepared.questions(experiment.recipe.eval.split)
    paths = [phase / MERGED for phase in (folder.zero_shot, folder.final) if (phase / MERGED).is_file()]
    return [AnsweredFile(path.parent.name.replace("_", "-"), path, questions, task) for path in paths]


def answered_phase(root: Path, name: str | None, *, questions: Path | None = None) -> AnsweredFile:
    """Returns one phase of a run; None takes the last one."""
    phases = answered_phases(_open_finished(root, questions))
    fitting_name = [phase for phase in phases if name is None or phase.predictions.parent.name == name]
    if not fitting_name:
        raise FileNotFoundError(f"{root}: the run has no phase {name!r}")
    return fitting_name[-1]


def _open_finished(root: Path, questions: Path | None) -> Experiment:
    if not RunFolder(root).results.is_file():
        raise FileNotFoundError(f"{root}: no finished run (no results.json); judge when it has ended")
    return open_run(root, questions=questions)


def answered_file(name: str, *, predictions: Path, questions: Path, split: Split) -> AnsweredFile:
    """Returns a file of predictions that any tool wrote, with the questions of a prepared folder."""
    benchmark = find_benchmark(name)
    task = judge_task(benchmark, name)
    return AnsweredFile(predictions.name, predictions, open_prepared(questions).questions(split), task)


def _status(found: list[Judging]) -> int:
    failed = sum(len(each.failed) for each in found)
    if failed:
        say(f"{failed} answers have no verdict; the same command asks for these alone")
    return UNJUDGED if failed else 0


COMMANDS: Commands = {"judge": (judge_arguments, judge_command)}
