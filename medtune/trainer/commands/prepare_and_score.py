"""The commands that need no model: prepare and score."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from medtune.benchmarks import find_benchmark, find_source
from medtune.data.prepared import rejects
from medtune.data.prepared.folder import Prepared, Prompts, open_prepared, prepare
from medtune.data.prepared.question_origins import read_origins
from medtune.data.types import SPLITS, Prediction, Question, Split, UnofficialSplit
from medtune.eval.asking.official_prompts import FOREIGN, official_for, read_official, worded
from medtune.eval.data_label import label_of
from medtune.eval.judge.verdicts import with_verdicts
from medtune.eval.predictions.files import read_predictions
from medtune.eval.predictions.tool_files import read_tool_rows
from medtune.eval.predictions.tool_matching import matched
from medtune.eval.results.build import scores_file
from medtune.eval.results.gain_table import gain_table
from medtune.eval.results.typed_json import write_document
from medtune.eval.scoring.bertscore import named_model
from medtune.eval.scoring.parse_replies import write_parsed
from medtune.eval.scoring.score import score_phase
from medtune.eval.scoring.tables import table_text


def prepare_folder(
    benchmark_name: str,
    *,
    source_name: str | None,
    root: Path | None,
    out: Path,
    limit: int | None,
    seed: int,
    max_rejected: float,
    unofficial_split: UnofficialSplit | None,
    prompts: Path | None,
) -> int:
    """Writes a prepared folder and says what is in it, and what was rejected and why.

    `prompts` is a folder with the benchmark's own prompts; None is our wording.

    Raises:
        ValueError: The benchmark does not take that source, or the source refuses the files.
    """
    name = _source_name(benchmark_name, source_name)
    prepared = prepare(
        find_source(name),
        benchmark=benchmark_name,
        root=root,
        out=out,
        seed=seed,
        limit=limit,
        max_rejected=max_rejected,
        unofficial_split=unofficial_split,
        prompts=_official(benchmark_name, prompts),
    )
    manifest = prepared.manifest
    print(f"{out}: {manifest.source} ({manifest.provenance}), data hash {manifest.data_hash[:16]}")
    print(f"patients: {manifest.patient_unit}")
    for split in SPLITS:
        tasks = ", ".join(f"{task} {count}" for task, count in manifest.counts[split].items())
        print(f"  {split:<6}{prepared.num_questions(split):>7} questions  {tasks}")
    if manifest.unofficial_split:
        print(f"unofficial split by {manifest.unofficial_split}: the benchmark itself is for evaluation alone")
    print(f"prompts: {manifest.prompts}")
    if manifest.identical_media:
        print(f"identical images: {manifest.identical_media}; their patients share a split")
    for note in manifest.notes:
        print(f"note: {note}")
    if manifest.rejected:
        print(rejects.table(manifest.rejected, sum(map(prepared.num_questions, SPLITS))))
        print(f"one by one: {out / rejects.REJECTS}")
    return 0


def list_missing(benchmark_name: str, *, source_name: str | None, root: Path | None, seed: int) -> int:
    """Prints the media files that the source's questions need and its folder lacks: where each belongs, and its origin.

    Raises:
        ValueError: The benchmark does not take that source, or the source refuses the files.
    """
    with tempfile.TemporaryDirectory() as scratch:
        table = find_source(_source_name(benchmark_name, source_name)).read(root, seed, Path(scratch))
    for item in table.missing:
        print(f"{item.file}\t{item.fetch}")
    print(f"{len(table.missing)} media files are missing", file=sys.stderr)
    return 0


def _any_predictions(path: Path, asked: Sequence[Question], prepared: Prepared) -> list[Prediction]:
    """Returns predictions of medtune's own format or of another tool's file."""
    rows = read_tool_rows(path)
    if rows is None:
        return read_predictions(path)
    known = read_origins(prepared.root, prepared.manifest.source)
    answer_in = find_source(prepared.manifest.source).answer_in
    return matched(rows, asked, find=known.find, places=known.places, answer_in=answer_in)


def _official(benchmark_name: str, folder: Path | None) -> Callable[[Sequence[Question]], Prompts] | None:
    if folder is None:
        return None
    benchmark = find_benchmark(benchmark_name)
    templates = read_official(benchmark, folder)
    return lambda questions: Prompts(*official_for(benchmark, templates, questions))


def _source_name(benchmark_name: str, source_name: str | None) -> str:
    accepted = find_benchmark(benchmark_name).sources
    name = accepted[0] if source_name is None else source_name
    if name not in accepted:
        raise ValueError(f"the benchmark {benchmark_name!r} takes the sources {', '.join(accepted)}, not {name!r}")
    return name


def score_file(
    benchmark_name: str,
    *,
    predictions: Path,
    questions: Path,
    parser: str | None,
    split: Split,
    bertscore: str | None,
    only: Mapping[str, str],
) -> int:
    """Scores a file of predictions, ours or another tool's; writes parsed.jsonl and scores.json, and prints the table.

    Raises:
        FileNotFoundError: No such file or folder.
        ValueError: A line cannot be read, or is about a question that the split does not have.
    """
    prepared = open_prepared(questions)
    benchmark = worded(find_benchmark(benchmark_name), prepared)
    asked = prepared.questions(split)
    if only:
        asked = tuple(q for q in asked if all(q.facets.get(facet) == value for facet, value in only.items()))
        if not asked:
            wanted = ", ".join(f"{facet}={value}" for facet, value in only.items())
            raise ValueError(f"--only: no question of the split {split!r} has {wanted}")
        benchmark = benchmark.for_part(asked)
    found = with_verdicts(_any_predictions(predictions, asked, prepared), predictions, benchmark)
    if any(prediction.prompt_hash is None for prediction in found):
        benchmark = replace(benchmark, wording=FOREIGN)
    scores = score_phase(
        asked,
        found,
        benchmark,
        train=prepared.questions("train"),
        parser=parser,
        text_model=named_model(bertscore) if bertscore else None,
    )
    label = label_of(prepared.manifest, prompts=benchmark.wording)
    write_parsed(predictions.parent / "parsed.jsonl", asked, found, benchmark)
    write_document(predictions.parent / "scores.json", scores_file(scores, label))
    print(gain_table({predictions.stem: scores}, None, benchmark, label=label))
    for table in scores.tables:
        print(f"\n{table_text(table)}")
    return 0
