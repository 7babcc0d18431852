"""Collects the answers behind the rows of a study: from runs, predictions and masks, with what differs in them."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from medtune.data.prepared.read import Prepared, open_prepared
from medtune.data.types import Condition, Prediction, Question
from medtune.eval.asking.official_prompts import OUR_WORDING
from medtune.eval.asking.prepared_prompts import with_prepared_prompts
from medtune.eval.benchmark import Benchmark
from medtune.eval.data_label import NOT_RECORDED, DataLabel, label_of
from medtune.eval.evidence import Evidence
from medtune.eval.judge.verdicts import with_verdicts
from medtune.eval.predictions.files import MERGED
from medtune.eval.predictions.shards import stored_predictions
from medtune.eval.results.schema import ResultsFile
from medtune.eval.results.typed_json import read_json
from medtune.eval.scoring.bertscore import BertModel
from medtune.eval.scoring.parse_replies import parse_all, primary_parser
from medtune.eval.scoring.standing import departures, incomparable
from medtune.eval.studies.cells import StudyAnswers
from medtune.eval.studies.page import StudyRun
from medtune.eval.studies.published import Answers, Phase
from medtune.trainer.commands.oracle import predictions_from_masks
from medtune.trainer.commands.score import given_predictions
from medtune.trainer.recipe.check import departure_from_published, text_model_at
from medtune.trainer.recipe.schema import Recipe
from medtune.trainer.runs.finished_run import FinishedRun, open_finished
from medtune.trainer.runs.run_folder import RunFolder
from medtune.trainer.studies.study import OpenedStudy, StudyRow, StudySet

_WHOLE_PRECISIONS = ("auto", "32-true")


@dataclass(frozen=True)
class CollectedRow:
    """The answers of a row of a study, the runs behind them, and the label of their data."""

    answers: StudyAnswers
    runs: tuple[StudyRun, ...]
    label: DataLabel | None  # None where there are no answers yet.


def collected(
    opened: OpenedStudy, row: StudyRow, of: StudySet, folders: Sequence[Path], data: Path | None
) -> CollectedRow:
    """Returns the answers of a row to the questions of one of the study's benchmarks.

    Args:
        folders: The finished run of each seed, for a row with a recipe.
        data: The prepared folder in the place of that of every run, and of the study's; None leaves theirs.
    """
    if row.recipe is None:
        return _collected_row(opened, row, of, data or of.data)
    runs = [open_finished(folder, questions=data) for folder in folders]
    if not runs:
        return CollectedRow(StudyAnswers(row.name, row.published, (), benchmark=of.name), (), None)
    answers = [_of_run(opened, row, run) for run in runs]
    first = runs[0]
    asked = next(iter(answers[0].values())).questions
    parser = row.parser or first.primary_parser
    differs = tuple(_departures(first.label, first.benchmark, asked, parser, first.recipe))
    told = StudyAnswers(row.name, row.published, answers, differs, incomparable(first.label), of.name)
    return CollectedRow(told, tuple(_run(row, run) for run in runs), first.label)


def _of_run(opened: OpenedStudy, row: StudyRow, run: FinishedRun) -> Answers:
    split = run.prepared.questions(run.recipe.eval.split)
    folders: dict[Phase, Path] = {"zero_shot": run.folder.zero_shot, "final": run.folder.final}
    if opened.study.work == "eval" and not folders["zero_shot"].is_dir():
        # An evaluation of a checkpoint is one of trained weights.
        folders["zero_shot"] = run.folder.final
    found: dict[Phase, Evidence] = {}
    for phase in opened.phases:
        stored = stored_predictions(folders[phase])
        asked_ids = {key.question_id for key in stored}
        questions = [question for question in split if question.id in asked_ids]
        if not questions:
            raise ValueError(f"row {row.name!r}: {folders[phase]} holds no answers; make the run again")
        predictions = with_verdicts(list(stored.values()), folders[phase] / MERGED, run.benchmark)
        text_model = text_model_at(run.recipe.eval, phase)
        found[phase] = _evidence(run.benchmark, questions, predictions, row.parser or run.primary_parser, text_model)
    return found


def _evidence(
    benchmark: Benchmark,
    questions: Sequence[Question],
    predictions: Sequence[Prediction],
    parser: str,
    text_model: BertModel | None = None,
) -> Evidence:
    parsed = parse_all(questions, predictions, benchmark)
    return Evidence(questions, predictions, parsed, parser, text_model)


def _run(row: StudyRow, run: FinishedRun) -> StudyRun:
    results = read_json(run.folder.results, ResultsFile)
    values: Mapping[str, float | None] = {name: phase.overall.value for name, phase in results.phases.items()}
    return StudyRun(
        row.name,
        run.recipe.data.benchmark,
        run.recipe.train.seed,
        f"{row.recipe}: {run.recipe.model.shown_name}",
        str(run.folder.root),
        run.prepared.data_hash,
        results.primary.name,
        values.get("zero_shot"),
        values.get("final"),
        results.gain.value if results.gain else None,
    )


def _collected_row(opened: OpenedStudy, row: StudyRow, of: StudySet, data: Path) -> CollectedRow:
    prepared = open_prepared(data)
    if prepared.manifest.benchmark != of.name:
        raise ValueError(f"row {row.name!r}: {data} was prepared for {prepared.manifest.benchmark}, not for this study")
    benchmark = with_prepared_prompts(of.benchmark, prepared)
    asked = prepared.questions(opened.study.split)
    row = replace(row, predictions={key: _of_set(paths, of) for key, paths in row.predictions.items()})
    predictions = list(_predictions(opened, row, prepared, benchmark, asked))
    parser = row.parser or primary_parser((), benchmark)
    evidence = _evidence(benchmark, asked, predictions, parser)
    label = label_of(prepared.manifest, prompts=NOT_RECORDED)
    differs = tuple(_departures(label, benchmark, asked, parser, None))
    # Predictions are answers of a model as it is: after training where the study is about trained models.
    told = StudyAnswers(row.name, row.published, [{opened.phases[-1]: evidence}], differs, incomparable(label), of.name)
    metric = benchmark.for_part(asked).primary
    run = StudyRun(row.name, of.name, None, _what(row), str(data), prepared.data_hash, metric)
    return CollectedRow(told, (run,), label)


def _of_set(paths: Sequence[Path], of: StudySet) -> tuple[Path, ...]:
    return tuple(Path(str(path).replace("{set}", of.name)) for path in paths)


def _what(row: StudyRow) -> str:
    if row.masks is not None:
        return f"masks of {row.masks}"
    return "predictions of " + ", ".join(str(path) for paths in row.predictions.values() for path in paths)


def _predictions(
    opened: OpenedStudy, row: StudyRow, prepared: Prepared, benchmark: Benchmark, asked: Sequence[Question]
) -> Iterator[Prediction]:
    if row.masks is not None:
        yield from predictions_from_masks(benchmark, prepared, opened.study.split, row.masks)
        return
    for condition, paths in row.predictions.items():
        missing = [path for path in paths if not path.exists()]
        if missing:
            where = f"{opened.file}: row {row.name!r}, predictions.{condition}"
            raise FileNotFoundError(f"{where}: there is no {missing[0]}. {opened.study.fetch}")
        given = given_predictions(paths, asked, prepared, benchmark)
        yield from _under(given.predictions, condition)


def _under(predictions: Sequence[Prediction], condition: Condition) -> Iterator[Prediction]:
    for each in predictions:
        if each.key.condition == condition:
            yield each
        elif condition != "image" and each.key.condition == "image":
            yield replace(each, key=each.key._replace(condition=condition))


def _departures(
    label: DataLabel, benchmark: Benchmark, asked: Sequence[Question], parser: str, recipe: Recipe | None
) -> Iterator[str]:
    """Yields what differs from the paper, but for what `incomparable` says: questions, prompts, precision etc."""
    yield from (said for said in departures(label, benchmark, asked, parser=parser) if said != incomparable(label))
    if label.prompts == OUR_WORDING and benchmark.official is None:
        yield "the questions were asked in our words, as no official prompts are published"
    if label.prompts == NOT_RECORDED:
        yield "the prompts of the predictions are not recorded"
    if recipe is None:
        return
    if said := departure_from_published(recipe, benchmark):
        yield said
    if recipe.train.precision not in _WHOLE_PRECISIONS or recipe.model.dtype != "float32":
        yield f"the precision was {recipe.train.precision}, with weights in {recipe.model.dtype}"
    if recipe.model.language_bits is not None:
        yield f"the language model was in {recipe.model.language_bits} bits"
    if recipe.eval.judge is not None:
        yield f"free answers were judged by {recipe.eval.judge.model}"


def result_of(folder: Path) -> RunFolder | None:
    """Returns a run folder that is finished; None where it is not."""
    found = RunFolder(folder)
    return found if found.results.is_file() and found.recipe.is_file() else None
