"""The commands that need no model: prepare and score."""

from __future__ import annotations

from pathlib import Path

from medtune.data.prepared import open_prepared, prepare
from medtune.data.types import SPLITS, Split
from medtune.eval.benchmark import benchmark
from medtune.eval.bertscore import named_model
from medtune.eval.judging import write_parsed
from medtune.eval.predictions import read_predictions
from medtune.eval.results import gain_table, stage_json
from medtune.eval.scores import score_stage
from medtune.eval.tables import table_text
from medtune.trainer.evaluation import write_json


def prepare_folder(
    benchmark_name: str, *, source_name: str | None, root: Path | None, out: Path, limit: int | None, seed: int
) -> int:
    """Writes a prepared folder and says what is in it.

    Raises:
        ValueError: The benchmark does not take that source, or the source refuses the files.
    """
    accepted = benchmark(benchmark_name).sources
    name = accepted[0] if source_name is None else source_name
    if name not in accepted:
        raise ValueError(f"the benchmark {benchmark_name!r} takes the sources {', '.join(accepted)}, not {name!r}")
    prepared = prepare(name, benchmark=benchmark_name, root=root, out=out, seed=seed, limit=limit)
    manifest = prepared.manifest
    print(f"{out}: {manifest.source} ({manifest.provenance}), data hash {manifest.data_hash[:16]}")
    print(f"patients: {manifest.patient_unit}")
    for split in SPLITS:
        tasks = ", ".join(f"{task} {count}" for task, count in manifest.counts[split].items())
        print(f"  {split:<6}{prepared.num_questions(split):>7} questions  {tasks}")
    for note in manifest.notes:
        print(f"note: {note}")
    return 0


def score_file(
    benchmark_name: str, *, predictions: Path, questions: Path, parser: str | None, split: Split, bertscore: str | None
) -> int:
    """Scores a file of predictions; writes parsed.jsonl and scores.json beside it and prints the table.

    Raises:
        FileNotFoundError: No such file or folder.
        ValueError: A line cannot be read, or is about a question that the split does not have.
    """
    judged_by, prepared = benchmark(benchmark_name), open_prepared(questions)
    asked = prepared.questions(split)
    found = read_predictions(predictions)
    scores = score_stage(
        asked,
        found,
        judged_by,
        train=prepared.questions("train"),
        parser=parser,
        text_model=named_model(bertscore) if bertscore else None,
    )
    write_parsed(predictions.parent / "parsed.jsonl", asked, found, judged_by)
    write_json(predictions.parent / "scores.json", stage_json(scores))
    print(gain_table({predictions.stem: scores}, None, judged_by))
    for table in scores.tables:
        print(f"\n{table_text(table)}")
    return 0
