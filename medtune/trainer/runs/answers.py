"""Reads the answers of a finished run as its primary parser reads them."""

from collections.abc import Sequence
from pathlib import Path

from medtune.data.types import Question
from medtune.eval.judge.verdicts import with_verdicts
from medtune.eval.metric import ParsedReply
from medtune.eval.predictions.files import MERGED
from medtune.eval.predictions.shards import stored_predictions
from medtune.eval.scoring.parse_replies import parse_all
from medtune.trainer.runs.finished_run import FinishedRun


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
