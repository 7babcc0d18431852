"""Reads the predictions that `medtune score` is given: our own lines, other tools' files, or the benchmark's own."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from medtune.benchmarks import find_source
from medtune.data.prepared.question_rows import read_origins
from medtune.data.prepared.read import Prepared
from medtune.data.types import Prediction, PredictionKey, Question
from medtune.eval.benchmark import Benchmark
from medtune.eval.judge.verdicts import StoredVerdict, VerdictWriter, reply_hash, verdicts_path, with_verdicts
from medtune.eval.predictions.files import format_line, read_predictions, replace_file
from medtune.eval.predictions.tool_files import ToolRow, ToolRows, read_tool_rows, safe_twin
from medtune.eval.predictions.tool_matching import match_rows
from medtune.eval.results.schema import FileRows

MATCHED = "matched.jsonl"
FILES_JUDGE = "the files' own judge"


@dataclass(frozen=True, slots=True)
class GivenPredictions:
    """Predictions, with the verdicts that came with them, and what their files hold.

    Attributes:
        predictions: The predictions as the parsers read them.
        matched: The predictions that other tools' files were turned into, without the verdicts; None for a file in
            medtune's own format.
        judge_replies: The judge's replies that came in the files, by the prediction that they are about.
        rows: The counts of the files' rows and of questions without an answer.
        notes: What else the user should know about the files.
    """

    predictions: Sequence[Prediction]
    rows: FileRows
    matched: Sequence[Prediction] | None = None
    judge_replies: Mapping[PredictionKey, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


def given_predictions(
    paths: Sequence[Path], asked: Sequence[Question], prepared: Prepared, benchmark: Benchmark
) -> GivenPredictions:
    """Returns the predictions in a file of medtune's own format, or in files or folders of other tools."""
    notes = [
        f"{path}: no .pkl is opened; {safe_twin(path).name} beside it was read instead"
        for path in paths
        if safe_twin(path) != path
    ]
    rows, left_out = list[ToolRow](), Counter[str]()
    for path in map(safe_twin, paths):
        found = _tool_rows(path, asked, benchmark)
        if found is None:
            if len(paths) > 1:
                raise ValueError(f"{path}: a file in medtune's own format (question_id, text) is scored alone.")
            return _own_lines(path, asked, benchmark)
        rows += found.rows
        left_out.update(found.left_out)
    known = read_origins(prepared.root, prepared.manifest.source)
    answer_in = find_source(prepared.manifest.source).answer_in
    matched = match_rows(rows, asked, find=known.find, places=known.places, answer_in=answer_in)
    predictions, said = matched.predictions, matched.judge_replies if benchmark.judging else {}
    if benchmark.judging is not None and said:
        predictions = benchmark.judging.applied(predictions, said)
        notes.append(f"{len(said)} verdicts of {FILES_JUDGE} were taken.")
    num_rows = len(rows) + sum(left_out.values())
    counts = _counts(num_rows, predictions, asked, repeated=matched.repeated, left_out=left_out)
    return GivenPredictions(predictions, counts, matched.predictions, said, tuple(notes))


def write_matched(folder: Path, given: GivenPredictions) -> Path | None:
    """Writes matched.jsonl, the other tools' predictions in medtune's own format, with the verdicts beside it.

    Returns:
        The file; None where the predictions were in medtune's own format already.
    """
    if given.matched is None:
        return None
    path = folder / MATCHED
    replace_file(path, map(format_line, given.matched))
    verdicts_path(path).unlink(missing_ok=True)
    if given.judge_replies:
        texts = {prediction.key: prediction.text or "" for prediction in given.matched}
        with VerdictWriter(verdicts_path(path)) as writer:
            for key, reply in given.judge_replies.items():
                writer.write(StoredVerdict(key, reply_hash(texts[key]), FILES_JUDGE, reply))
    return path


def _tool_rows(path: Path, asked: Sequence[Question], benchmark: Benchmark) -> ToolRows | None:
    if not path.exists():
        raise FileNotFoundError(f"{path}: there is no such file or folder of predictions. Check --predictions.")
    found = benchmark.result_rows(path, asked)
    if found is not None:
        return found
    if path.is_dir():
        raise ValueError(
            f"{path}: this folder holds no result files of {benchmark.title}. Give the file with the predictions."
        )
    rows = read_tool_rows(path)
    return None if rows is None else ToolRows(rows, {})


def _own_lines(path: Path, asked: Sequence[Question], benchmark: Benchmark) -> GivenPredictions:
    read = read_predictions(path)
    predictions = with_verdicts(read, path, benchmark)
    return GivenPredictions(predictions, _counts(len(read), predictions, asked, repeated=0, left_out={}))


def _counts(
    num_rows: int,
    predictions: Sequence[Prediction],
    asked: Sequence[Question],
    *,
    repeated: int,
    left_out: Mapping[str, int],
) -> FileRows:
    answered = {prediction.key.question_id for prediction in predictions if prediction.key.condition == "image"}
    unanswered = sum(question.id not in answered for question in asked)
    return FileRows(rows=num_rows, repeated=repeated, left_out=dict(left_out), unanswered=unanswered)
