"""Has a judge look at the free answers of a phase, of a finished run or of any tool's file."""

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from medtune.data.progress import progress
from medtune.data.types import Question
from medtune.eval.benchmark import Benchmark
from medtune.eval.judge import Judge, JudgeTask
from medtune.eval.judge.verdicts import Judging, judge_predictions
from medtune.eval.predictions.files import MERGED, read_predictions
from medtune.trainer.devices.ranks import device_of_rank
from medtune.trainer.experiment.experiment import Experiment
from medtune.trainer.recipe.check import judge_at
from medtune.trainer.recipe.judge import JudgeSettings, worded
from medtune.trainer.recipe.schema import Recipe

SPENDING = "judge_spending.jsonl"
"""The file with what verdicts have cost, in a run folder or beside a file of predictions."""


@dataclass(frozen=True)
class AnsweredFile:
    """A file of predictions with the questions that it answers, and what they ask of a judge."""

    title: str
    predictions: Path
    questions: Sequence[Question]
    task: JudgeTask


def judge_task(benchmark: Benchmark, name: str) -> JudgeTask:
    """Returns how a benchmark has its free answers judged; one without such answers is refused."""
    if benchmark.judging is None:
        raise ValueError(f"{name}: no answer of this benchmark needs a judge; `medtune score` scores all of them")
    return benchmark.judging


def judge_command_line(root: Path, recipe: Recipe) -> str:
    """Returns the command that has the answers of a run judged which wait for it."""
    return f"medtune judge {root}" + ("" if recipe.eval.judge else " --judge judge.yaml")


@contextlib.contextmanager
def opened_judge(settings: JudgeSettings, ledger: Path, *, says_rounds: bool = True) -> Iterator[Judge]:
    """Opens a judge, whose connections end with the context.

    Args:
        ledger: File with a line for each verdict that was charged.
        says_rounds: Whether each round of questions is printed with its cost, and each answer without a verdict.
    """
    tokens = settings.max_new_tokens
    if settings.local is not None:
        from medtune.models.weights.causal_language import LocalJudge

        local = settings.local
        yield LocalJudge(local.weights, dtype=local.dtype, max_new_tokens=tokens, device=device_of_rank(0))
        return
    from medtune.models.endpoint.judge import EndpointJudge
    from medtune.models.endpoint.served import Served, open_client

    assert settings.endpoint is not None
    with open_client(Served(settings.endpoint, ledger, where="endpoint"), say=say) as client:
        told = say if says_rounds else _nobody
        yield EndpointJudge(settings.endpoint, client, max_new_tokens=tokens, strict=settings.strict, say=told)


def judge_answers(judge: Judge, settings: JudgeSettings, answered: AnsweredFile) -> Judging:
    """Has the free answers of a file judged that have no verdict yet, and says how many have one."""
    task, system = worded(answered.task, settings)
    with progress(f"judge {answered.title}", unit="answers") as on_verdict:
        found = judge_predictions(
            judge,
            read_predictions(answered.predictions),
            answered.questions,
            task,
            system=system,
            path=answered.predictions,
            on_verdict=on_verdict,
        )
    own = "files of the user" if settings.prompt or settings.official else "medtune's own"
    say(f"{answered.title}: judged by {found.judge} ({own})")
    say(
        f"  {found.free} free answers: {found.judged} judged, {found.empty} empty (no points), {len(found.failed)} "
        f"without a verdict{'' if task.is_extra else ' (unscored)'}"
    )
    return found


def judge_phase(experiment: Experiment, phase: str, questions: Sequence[Question], *, out_dir: Path) -> None:
    """Has the free answers in `out_dir` judged if the recipe asks for it at this phase (zero_shot, val, final).

    Nothing is lost where the judge fails: what it did not judge stays without a verdict, and it is said why.
    """
    settings, task = judge_at(experiment.recipe.eval, phase), experiment.benchmark.judging
    if settings is None or task is None or experiment.rank != 0:
        return
    root, title = experiment.folder.root, phase.replace("_", "-")
    if not any(map(task.covers, questions)):
        return
    later = "" if phase == "val" else f"; `{judge_command_line(root, experiment.recipe)}` asks for these alone"
    try:
        with opened_judge(settings, root / SPENDING) as judge:
            found = judge_answers(judge, settings, AnsweredFile(title, out_dir / MERGED, questions, task))
        if found.failed:
            say(f"{title}: {len(found.failed)} answers have no verdict{later}")
    except (ValueError, OSError, torch.OutOfMemoryError) as error:
        say(f"{title}: not all free answers were judged: {error}{later}")


def _nobody(text: str) -> None:
    """Takes a line that would stand once in every step."""


def say(text: str) -> None:
    print(text, flush=True)
