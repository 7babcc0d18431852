"""`medtune score`: scores predictions that medtune or any other tool wrote."""

import argparse
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from medtune.benchmarks import find_benchmark
from medtune.data.files import replace_file
from medtune.data.prepared.origins import read_origins
from medtune.data.prepared.read import Prepared, open_prepared
from medtune.data.types import Prediction, PredictionKey, Question, Split
from medtune.eval.asking.prepared_prompts import with_prepared_prompts
from medtune.eval.benchmark import Benchmark
from medtune.eval.judge.verdicts import StoredVerdict, VerdictWriter, reply_hash, verdicts_path, with_verdicts
from medtune.eval.predictions.files import format_line, read_predictions
from medtune.eval.predictions.tool_files import ToolRow, ToolRows, read_tool_rows, safe_twin
from medtune.eval.predictions.tool_matching import match_rows
from medtune.eval.results.build import gain_table, scores_file
from medtune.eval.results.schema import FileRows
from medtune.eval.results.typed_json import write_document
from medtune.eval.scoring.bertscore import named_model
from medtune.eval.scoring.parse_replies import parse_all, write_parsed
from medtune.eval.scoring.score_prepared import score_prepared
from medtune.eval.scoring.tables import table_text
from medtune.trainer.commands.arguments import Commands, add_split, facet_value

MATCHED = "matched.jsonl"
FILES_JUDGE = "the files' own judge"


@dataclass(frozen=True, slots=True)
class GivenPredictions:
    """Predictions, with the verdicts that came with them, and what their files hold.

    `matched` holds what other tools' files were turned into, without the verdicts; None for a file in medtune's format.
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
    matched = match_rows(rows, asked, find=known.find)
    predictions, said = matched.predictions, matched.judge_replies if benchmark.judging else {}
    if benchmark.judging is not None and said:
        predictions = benchmark.judging.applied(predictions, said)
        notes.append(f"{len(said)} verdicts of {FILES_JUDGE} were taken.")
    num_rows = len(rows) + sum(left_out.values())
    counts = _counts(num_rows, predictions, asked, repeated=matched.repeated, left_out=left_out)
    return GivenPredictions(predictions, counts, matched.predictions, said, tuple(notes))


def write_matched(folder: Path, given: GivenPredictions) -> Path | None:
    """Writes other tools' predictions in medtune's own format, the verdicts beside them; None where there are none."""
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


def score_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("benchmark", metavar="BENCHMARK", help="The name of a benchmark; `medtune list benchmarks`.")
    parser.add_argument(
        "--predictions",
        type=Path,
        required=True,
        nargs="+",
        metavar="PATH",
        help="The predictions: JSON lines with question_id and text, files of lmms-eval or VLMEvalKit, or the files "
        "and folders in which the benchmark's own code writes its results.",
    )
    parser.add_argument(
        "--questions", type=Path, required=True, metavar="DIR", help="The prepared folder that holds the questions."
    )
    parser.add_argument(
        "--parser",
        metavar="NAME",
        help="The parser by whose readings the primary score goes (default: likelihood where the file holds that of "
        "options, with the benchmark's first parser of replies for questions without them, and else that parser).",
    )
    parser.add_argument(
        "--bertscore",
        metavar="MODEL[:LAYER]",
        help="The text model, a hub id or a folder, and the number of the layer that BERTScore is computed with "
        "(default: BERTScore is left out).",
    )
    parser.add_argument(
        "--out",
        type=Path,
        metavar="DIR",
        help="The folder to write parsed.jsonl, scores.json and matched.jsonl to "
        "(default: the one in which the predictions lie).",
    )
    add_split(parser, of="the prepared folder that was answered")
    parser.add_argument(
        "--only",
        metavar="FACET=VALUE",
        nargs="+",
        type=facet_value,
        default=[],
        help="Scores only the questions whose facets have these values (default: all questions of the split).",
    )


def score_command(options: argparse.Namespace, arguments: Sequence[str]) -> int:
    return score_file(
        options.benchmark,
        options.predictions,
        options.questions,
        split=options.split,
        out=options.out,
        parser=options.parser,
        bertscore=options.bertscore,
        only=options.only,
    )


def score_file(
    benchmark_name: str,
    predictions: Sequence[Path],
    questions: Path,
    *,
    split: Split,
    out: Path | None = None,
    parser: str | None = None,
    bertscore: str | None = None,
    only: Sequence[tuple[str, str]] = (),
) -> int:
    """Scores predictions; writes parsed.jsonl and scores.json, prints the tables and returns 0.

    Other tools' predictions are also written to matched.jsonl in medtune's own format.
    """
    prepared = open_prepared(questions)
    benchmark = with_prepared_prompts(find_benchmark(benchmark_name), prepared)
    if prepared.manifest.benchmark != benchmark_name:
        raise ValueError(
            f"{questions} was prepared for the benchmark {prepared.manifest.benchmark!r}, not {benchmark_name!r}. "
            "Name that benchmark, or give another folder with --questions."
        )
    asked = prepared.questions(split)
    if only:
        asked = tuple(q for q in asked if all(q.facets.get(facet) == value for facet, value in only))
        if not asked:
            wanted = ", ".join(f"{facet}={value}" for facet, value in only)
            raise ValueError(f"--only: no question of the split {split!r} has {wanted}")
    benchmark = benchmark.for_part(asked)
    given = given_predictions(predictions, asked, prepared, benchmark)
    found = given.predictions
    text_model = named_model(bertscore) if bertscore else None
    parsed = parse_all(asked, found, benchmark)
    scores, label, benchmark = score_prepared(
        prepared, asked, found, benchmark, parser=parser, text_model=text_model, parsed=parsed
    )
    first = predictions[0]
    folder = out or (first if first.is_dir() else first.parent)
    folder.mkdir(parents=True, exist_ok=True)
    write_parsed(folder / "parsed.jsonl", found, parsed, benchmark)
    write_document(folder / "scores.json", scores_file(scores, label, rows=given.rows))
    print(gain_table({first.stem: scores}, None, benchmark, label=label))
    matched = write_matched(folder, given)
    kept = (f"In medtune's own format, for `medtune judge` and `medtune compare`: {matched}",) if matched else ()
    print("\n".join((_described(given.rows, len(asked)), *given.notes, *kept)))
    for table in scores.tables:
        print(f"\n{table_text(table)}")
    return 0


def _described(rows: FileRows, num_questions: int) -> str:
    left_out = "".join(f", {count} left out ({why})" for why, count in rows.left_out.items())
    return (
        f"Rows: {rows.rows}{left_out}, {rows.repeated} that repeat a reply and count once; "
        f"{rows.unanswered} of {num_questions} questions are unanswered."
    )


COMMANDS: Commands = {"score": (score_arguments, score_command)}
