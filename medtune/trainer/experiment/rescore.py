"""Scores a run again from what lies on disk: after its free answers were judged."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from medtune.benchmarks import paper_of
from medtune.data.types import Question
from medtune.eval.comparing.gain import gain_between
from medtune.eval.judge.verdicts import with_verdicts
from medtune.eval.predictions.shards import MERGED, stored_predictions
from medtune.eval.report.write import write_report
from medtune.eval.results import gain_table, results_json, scores_json
from medtune.eval.scoring.parse_replies import write_parsed
from medtune.eval.scoring.score import StageScores, score_stage
from medtune.eval.scoring.tables import table_text
from medtune.trainer.experiment.evaluate import Bench, train_questions, write_json
from medtune.trainer.experiment.run_folder import RunFolder


def rescore_run(bench: Bench, folder: RunFolder) -> str:
    """Writes parsed.jsonl, scores.json, results.json and the report of a finished run anew; returns what to print.

    The stages, the questions and the primary parser stay those of the run.

    Raises:
        FileNotFoundError: The run has no results.
        ValueError: Its answers do not fit the prepared folder.
    """
    results: dict[str, Any] = json.loads(folder.results.read_text("utf-8"))
    paths = {"zero_shot": folder.zero_shot, "final": folder.final}
    stages = {
        name: _rescored(bench, paths[name] / MERGED, parser=stage["parser"])
        for name, stage in results["stages"].items()
    }
    both = set(stages) == set(paths)
    gain = gain_between(stages["zero_shot"], stages["final"], bench.benchmark) if both else None
    unavailable = results.get("unavailable", {})
    fresh = results_json(
        stages,
        gain,
        bench.benchmark,
        benchmark_name=results["benchmark"],
        model=results["model"],
        unavailable=unavailable,
    )
    write_json(folder.results, {**results, **fresh})
    *_, last = stages.values()
    said = [gain_table(stages, gain, bench.benchmark, label=bench.label, unavailable=unavailable)]
    said += [table_text(table) for table in last.tables]
    return "\n\n".join([*said, f"report: {write_report(folder.root, paper_of)}"])


def _rescored(bench: Bench, path: Path, *, parser: str) -> StageScores:
    stored = list(stored_predictions(path.parent).values())
    answered = {prediction.key.question_id for prediction in stored}
    questions: list[Question] = [
        question for question in bench.prepared.questions(bench.recipe.eval.split) if question.id in answered
    ]
    predictions = with_verdicts(stored, path, bench.benchmark)
    scores = score_stage(questions, predictions, bench.benchmark, train=train_questions(bench.prepared), parser=parser)
    write_parsed(path.parent / "parsed.jsonl", questions, predictions, bench.benchmark)
    write_json(path.parent / "scores.json", scores_json(scores, bench.label))
    return scores
