"""Scores a finished run again from the answers on disk, for instance after its free answers were judged."""

from pathlib import Path

from medtune.benchmarks import paper_of
from medtune.data.types import Question
from medtune.eval.comparing.gain import gain_between
from medtune.eval.judge.verdicts import with_verdicts
from medtune.eval.predictions.shards import MERGED, stored_predictions
from medtune.eval.report.write import write_report
from medtune.eval.results.build import rescored, scores_file
from medtune.eval.results.gain_table import gain_table
from medtune.eval.results.schema import ResultsFile
from medtune.eval.results.typed_json import read_json, write_document
from medtune.eval.scoring.parse_replies import write_parsed
from medtune.eval.scoring.score import PhaseScores, score_phase
from medtune.eval.scoring.tables import table_text
from medtune.trainer.experiment.evaluate import departure
from medtune.trainer.experiment.experiment import Experiment


def rescore_run(experiment: Experiment) -> str:
    """Writes parsed.jsonl, scores.json, results.json and the report of a finished run anew; returns its tables as text.

    The phases, the questions and the primary parser of the run are kept.
    """
    folder = experiment.folder
    results = read_json(folder.results, ResultsFile)
    paths = {"zero_shot": folder.zero_shot, "final": folder.final}
    phases = {
        name: _rescored(experiment, paths[name] / MERGED, parser=phase.parser) for name, phase in results.phases.items()
    }
    both = set(phases) == set(paths)
    gain = gain_between(phases["zero_shot"], phases["final"], experiment.benchmark) if both else None
    write_document(folder.results, rescored(results, phases, gain, experiment.benchmark))
    *_, last = phases.values()
    said = [gain_table(phases, gain, experiment.benchmark, label=experiment.label, unavailable=results.unavailable)]
    said += [table_text(table) for table in last.tables]
    return "\n\n".join([*said, f"report: {write_report(folder.root, paper_of)}"])


def _rescored(experiment: Experiment, path: Path, *, parser: str) -> PhaseScores:
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
    )
    write_parsed(path.parent / "parsed.jsonl", questions, predictions, experiment.benchmark)
    write_document(path.parent / "scores.json", scores_file(scores, experiment.label))
    return scores
