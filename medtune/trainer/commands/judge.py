"""`medtune judge`: lets a judge give verdicts on free answers of a run or of any tool's file, and scores them."""

import argparse
import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from medtune.benchmarks import find_benchmark, paper_of
from medtune.data.prepared.read import open_prepared
from medtune.data.progress import progress
from medtune.data.types import PredictionKey, Question, Split
from medtune.eval.benchmark import Benchmark
from medtune.eval.comparing.gain import gain_between
from medtune.eval.judge.agreement import agreement, agreement_tables, read_human_scores
from medtune.eval.judge.task import Judge, JudgeTask, with_official_words
from medtune.eval.judge.verdicts import (
    Judging,
    judge_predictions,
    judge_replies,
    read_verdicts,
    verdicts_path,
    with_verdicts,
)
from medtune.eval.predictions.files import MERGED, read_predictions, stored_predictions
from medtune.eval.report.write import write_report
from medtune.eval.results.build import gain_table, rescored, scores_file
from medtune.eval.results.schema import ResultsFile
from medtune.eval.results.typed_json import read_json, write_document
from medtune.eval.scoring.parse_replies import write_parsed
from medtune.eval.scoring.score import PhaseScores, score_phase
from medtune.eval.scoring.tables import table_text
from medtune.models.endpoint.judging import EndpointJudge
from medtune.models.endpoint.served import Served, open_client
from medtune.models.endpoint.settings import Endpoint, check_endpoint
from medtune.models.local_judge import LocalJudge
from medtune.models.weights.loading_options import DtypeName
from medtune.trainer.commands.arguments import Commands, add_overrides, add_split
from medtune.trainer.commands.score import score_file
from medtune.trainer.devices.ranks import device_of_rank
from medtune.trainer.experiment.evaluate import departure
from medtune.trainer.experiment.experiment import Experiment, open_run
from medtune.trainer.experiment.run_folder import RunFolder
from medtune.trainer.recipe.check import text_model_at
from medtune.trainer.recipe.read import read_settings


def rescore_run(experiment: Experiment) -> str:
    """Writes parsed.jsonl, scores.json, results.json and the report of a finished run anew; returns its tables as text.

    The phases, the questions and the primary parser of the run are kept.
    """
    folder = experiment.folder
    results = read_json(folder.results, ResultsFile)
    paths = {"zero_shot": folder.zero_shot, "final": folder.final}
    phases: dict[str, PhaseScores] = {}
    for name, phase in results.phases.items():
        before = phases.get("zero_shot")
        phases[name] = _rescored(experiment, paths[name] / MERGED, parser=phase.parser, before=before)
    both = set(phases) == set(paths)
    gain = gain_between(phases["zero_shot"], phases["final"], experiment.benchmark) if both else None
    write_document(folder.results, rescored(results, phases, gain, experiment.benchmark))
    *_, last = phases.values()
    said = [gain_table(phases, gain, experiment.benchmark, label=experiment.label, unavailable=results.unavailable)]
    said += [table_text(table) for table in last.tables]
    return "\n\n".join([*said, f"report: {write_report(folder.root, paper_of)}"])


def _rescored(experiment: Experiment, path: Path, *, parser: str, before: PhaseScores | None) -> PhaseScores:
    stored = list(stored_predictions(path.parent).values())
    answered = {prediction.key.question_id for prediction in stored}
    questions: list[Question] = [
        question for question in experiment.prepared.questions(experiment.recipe.eval.split) if question.id in answered
    ]
    predictions = with_verdicts(stored, path, experiment.benchmark)
    scores = score_phase(
        questions,
        predictions,
        experiment.benchmark,
        train=experiment.train_split,
        parser=parser,
        unlike_published=departure(experiment, questions),
        before=None if before is None else before.overall.score.value,
        text_model=text_model_at(experiment.recipe.eval, path.parent.name),
    )
    write_parsed(path.parent / "parsed.jsonl", questions, predictions, experiment.benchmark)
    write_document(path.parent / "scores.json", scores_file(scores, experiment.label))
    return scores


@dataclass(frozen=True)
class LocalModel:
    """A text model of transformers: its hub id or folder, and the number format of the weights in memory."""

    weights: str
    dtype: DtypeName = "bfloat16"


@dataclass(frozen=True)
class JudgeSettings:
    """A judge, which is either served (`endpoint`) or a model in this process (`local`).

    Attributes:
        prompt: Files whose texts are sent verbatim, one after the other, instead of the benchmark's instructions; for
            users who have the official ones as text.
        official: The benchmark's own evaluation script, or the folder that holds it, from which the instructions and
            the text around question and answer are read, never run; for ReXSonoVQA its evaluate_results.py. None uses
            `prompt` or our own words.
        official_strict: Whether the script's block on strictness is appended to the instructions, as by its option
            --strict_judge.
        strict: Whether the temperature is 0 and a server is asked to keep to the verdict's JSON schema. The reply is
            checked either way.
        max_new_tokens: Largest number of tokens in a verdict, including those of the model's reasoning.
    """

    endpoint: Endpoint | None = None
    local: LocalModel | None = None
    prompt: tuple[Path, ...] = ()
    official: Path | None = None
    official_strict: bool = False
    strict: bool = True
    max_new_tokens: int = 512


def read_judge(file: Path | None, overrides: Sequence[str]) -> JudgeSettings:
    """Returns the settings of a YAML file with `overrides` applied; without a file, the defaults are overridden."""
    settings = read_settings(JudgeSettings, file, overrides)
    if (settings.endpoint is None) == (settings.local is None):
        raise ValueError(
            "a judge needs one of endpoint (base_url, model, ...) and local (weights); give a file with --judge, or "
            "--set endpoint.base_url=... endpoint.model=..."
        )
    if settings.official is not None and settings.prompt:
        raise ValueError("official and prompt both give the judge's instructions; leave one of them out")
    if settings.official is None and settings.official_strict:
        raise ValueError("official_strict needs official, the script whose block on strictness is meant")
    if settings.max_new_tokens < 1:
        raise ValueError(f"max_new_tokens is {settings.max_new_tokens}; it must be at least 1")
    if settings.endpoint is not None:
        check_endpoint(settings.endpoint, where="endpoint")
        if settings.strict and settings.endpoint.temperature != 0:
            raise ValueError(
                f"endpoint.temperature is {settings.endpoint.temperature}: a strict judge has 0; for a model that "
                "takes no temperature set strict=false"
            )
    return settings


def instructions(settings: JudgeSettings, own: str) -> str:
    """Returns the texts of the user's files or, without files, the benchmark's `own` instructions."""
    texts = []
    for path in settings.prompt:
        if not path.is_file():
            raise FileNotFoundError(f"prompt: no file {path}")
        try:
            texts.append(path.read_text("utf-8").strip())
        except UnicodeDecodeError as error:
            raise ValueError(f"{path}: not UTF-8; save the prompt as UTF-8") from error
        if not texts[-1]:
            raise ValueError(f"{path}: the prompt is empty")
    return "\n\n".join(texts) if texts else own


UNJUDGED = 1
"""The exit status if some answers have no verdict."""
SPENDING = "judge_spending.jsonl"


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
        help="The prepared folder that the file of --predictions answers (default: none).",
    )
    add_split(parser, of="that prepared folder")
    parser.add_argument(
        "--judge",
        type=Path,
        metavar="FILE",
        help="A YAML file that describes the judge: endpoint or local, and prompt or official, strict and "
        "max_new_tokens (default: only what --set says).",
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
    if (options.predictions is None) != (options.questions is None):
        raise ValueError("--predictions and --questions go together: a file, and the prepared folder that it answers")
    of_file = {"predictions": options.predictions, "questions": options.questions, "split": options.split}
    if options.agreement is not None:
        if options.predictions is not None:
            return show_agreement(answered_file(options.target, **of_file), options.agreement)
        return show_agreement(answered_phase(Path(options.target), options.phase), options.agreement)
    settings = read_judge(options.judge, options.overrides)
    if options.predictions is not None:
        return judge_file(options.target, **of_file, settings=settings)
    return judge_run(Path(options.target), settings)


@dataclass(frozen=True)
class AnsweredFile:
    """A file of predictions with the questions that it answers, and what they ask of a judge."""

    title: str
    predictions: Path
    questions: tuple[Question, ...]
    benchmark: Benchmark
    task: JudgeTask


def judge_run(root: Path, settings: JudgeSettings) -> int:
    """Judges every phase of a run, scores it again and writes its report anew; returns the exit status."""
    experiment = _open_finished(root)
    phases = answered_phases(experiment)
    with _opened(settings, root / SPENDING) as judge:
        found = [_judged(judge, settings, phase) for phase in phases]
    print(f"\n{rescore_run(experiment)}")
    return _status(found)


def judge_file(
    benchmark_name: str, *, predictions: Path, questions: Path, split: Split, settings: JudgeSettings
) -> int:
    """Judges a file of predictions and scores it; returns the exit status."""
    answered = answered_file(benchmark_name, predictions=predictions, questions=questions, split=split)
    with _opened(settings, predictions.parent / SPENDING) as judge:
        found = _judged(judge, settings, answered)
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
    task = _task(benchmark, experiment.recipe.data.benchmark)
    questions = experiment.prepared.questions(experiment.recipe.eval.split)
    paths = [phase / MERGED for phase in (folder.zero_shot, folder.final) if (phase / MERGED).is_file()]
    return [AnsweredFile(path.parent.name.replace("_", "-"), path, questions, benchmark, task) for path in paths]


def answered_phase(root: Path, name: str | None) -> AnsweredFile:
    """Returns one phase of a run; None takes the last one."""
    phases = answered_phases(_open_finished(root))
    fitting_name = [phase for phase in phases if name is None or phase.predictions.parent.name == name]
    if not fitting_name:
        raise FileNotFoundError(f"{root}: the run has no phase {name!r}")
    return fitting_name[-1]


def _open_finished(root: Path) -> Experiment:
    if not RunFolder(root).results.is_file():
        raise FileNotFoundError(f"{root}: no finished run (no results.json); judge when it has ended")
    return open_run(root)


def answered_file(name: str, *, predictions: Path, questions: Path, split: Split) -> AnsweredFile:
    """Returns a file of predictions that any tool wrote, with the questions of a prepared folder."""
    benchmark = find_benchmark(name)
    task = _task(benchmark, name)
    return AnsweredFile(predictions.name, predictions, open_prepared(questions).questions(split), benchmark, task)


def _task(benchmark: Benchmark, name: str) -> JudgeTask:
    if benchmark.judging is None:
        raise ValueError(f"{name}: no answer of this benchmark needs a judge; `medtune score` scores all of them")
    return benchmark.judging


@contextlib.contextmanager
def _opened(settings: JudgeSettings, ledger: Path) -> Iterator[Judge]:
    tokens = settings.max_new_tokens
    if settings.local is not None:
        local = settings.local
        yield LocalJudge(local.weights, dtype=local.dtype, max_new_tokens=tokens, device=device_of_rank(0))
        return
    assert settings.endpoint is not None
    with open_client(Served(settings.endpoint, ledger, where="endpoint"), say=_say) as client:
        yield EndpointJudge(settings.endpoint, client, max_new_tokens=tokens, strict=settings.strict, say=_say)


def _judged(judge: Judge, settings: JudgeSettings, answered: AnsweredFile) -> Judging:
    task = answered.task
    if settings.official is not None:
        task = with_official_words(task, settings.official, is_strict=settings.official_strict)
    with progress(f"judge {answered.title}", unit="answers") as on_verdict:
        found = judge_predictions(
            judge,
            read_predictions(answered.predictions),
            answered.questions,
            task,
            system=instructions(settings, task.system),
            path=answered.predictions,
            on_verdict=on_verdict,
        )
    own = "files of the user" if settings.prompt or settings.official else "medtune's own"
    _say(f"{answered.title}: judged by {found.judge} ({own})")
    _say(
        f"  {found.free} free answers: {found.judged} judged, {found.empty} empty (no points), {len(found.failed)} "
        f"without a verdict{'' if answered.task.is_extra else ' (unscored)'}"
    )
    return found


def _status(found: list[Judging]) -> int:
    failed = sum(len(each.failed) for each in found)
    if failed:
        _say(f"{failed} answers have no verdict; the same command asks for these alone")
    return UNJUDGED if failed else 0


def _say(text: str) -> None:
    print(text, flush=True)


COMMANDS: Commands = {"judge": (judge_arguments, judge_command)}
