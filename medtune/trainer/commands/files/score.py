"""`medtune score`: scores predictions that medtune or any other tool wrote."""

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path

from medtune.benchmarks import find_benchmark
from medtune.data.prepared.read import open_prepared
from medtune.data.types import Split
from medtune.eval.asking.prepared_prompts import with_prepared_prompts
from medtune.eval.results.build import scores_file
from medtune.eval.results.gain_table import gain_table
from medtune.eval.results.schema import FileRows
from medtune.eval.results.typed_json import write_document
from medtune.eval.scoring.bertscore import named_model
from medtune.eval.scoring.parse_replies import write_parsed
from medtune.eval.scoring.score_prepared import score_prepared
from medtune.eval.scoring.tables import table_text
from medtune.trainer.commands.arguments import add_split, facet_value
from medtune.trainer.commands.files.given_predictions import given_predictions, write_matched


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the arguments of `medtune score`."""
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
        "--parser", metavar="NAME", help="The parser that reads the replies (default: the benchmark's first parser)."
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


def command(options: argparse.Namespace, arguments: Sequence[str]) -> int:
    """Runs `medtune score`: scores the predictions and returns 0."""
    return score_file(
        options.benchmark,
        predictions=options.predictions,
        out=options.out,
        questions=options.questions,
        parser=options.parser,
        split=options.split,
        bertscore=options.bertscore,
        only=dict(options.only),
    )


def score_file(
    benchmark_name: str,
    *,
    predictions: Sequence[Path],
    out: Path | None,
    questions: Path,
    parser: str | None,
    split: Split,
    bertscore: str | None,
    only: Mapping[str, str],
) -> int:
    """Scores predictions; writes parsed.jsonl and scores.json, prints the tables and returns 0.

    Other tools' predictions are also written to matched.jsonl in medtune's own format.

    Args:
        benchmark_name: The benchmark that the questions belong to.
        predictions: A file of medtune's own format, or files and folders of other tools.
        out: The folder to write to; None takes the folder in which the predictions lie.
        questions: The prepared folder.
        parser: The parser that reads the replies; None takes the benchmark's first.
        split: The split that was answered.
        bertscore: The text model of BERTScore, MODEL or MODEL:LAYER; None leaves BERTScore out.
        only: Facets and the values that the questions to score have; empty takes all questions.
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
        asked = tuple(q for q in asked if all(q.facets.get(facet) == value for facet, value in only.items()))
        if not asked:
            wanted = ", ".join(f"{facet}={value}" for facet, value in only.items())
            raise ValueError(f"--only: no question of the split {split!r} has {wanted}")
    benchmark = benchmark.for_part(asked)
    given = given_predictions(predictions, asked, prepared, benchmark)
    found = given.predictions
    text_model = named_model(bertscore) if bertscore else None
    scores, label, benchmark = score_prepared(prepared, asked, found, benchmark, parser=parser, text_model=text_model)
    first = predictions[0]
    folder = out or (first if first.is_dir() else first.parent)
    folder.mkdir(parents=True, exist_ok=True)
    write_parsed(folder / "parsed.jsonl", asked, found, benchmark)
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
