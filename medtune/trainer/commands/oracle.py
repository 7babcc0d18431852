"""`medtune oracle`: answers a benchmark's questions from masks, with the programs that made the questions."""

import argparse
import base64
import io
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import PIL.Image
from numpy.typing import NDArray

from medtune.benchmarks import find_benchmark
from medtune.data.files import replace_file
from medtune.data.prepared.question_rows import hashed_patient, patient_key
from medtune.data.prepared.read import Prepared, open_prepared
from medtune.data.prepared.work.processes import in_processes, usable_cores
from medtune.data.types import MediaGroup, Prediction, PredictionKey, Question, Split
from medtune.eval.benchmark import Benchmark, Oracle
from medtune.eval.predictions.files import format_line
from medtune.eval.report.html import render
from medtune.eval.report.table import paper_table
from medtune.eval.results.phase_schema import Level
from medtune.eval.scoring.score_prepared import score_prepared
from medtune.eval.scoring.tables import Cell, Table, table_text
from medtune.trainer.commands.arguments import Commands, add_split, positive

_ENDINGS = (".nii.gz", ".nii")


def oracle_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("benchmark", metavar="BENCHMARK", help="The name of a benchmark; `medtune list benchmarks`.")
    parser.add_argument(
        "--questions", type=Path, required=True, metavar="DIR", help="The prepared folder that holds the questions."
    )
    parser.add_argument(
        "--masks",
        type=Path,
        metavar="DIR",
        help="A folder with predicted masks, NAME/*.nii.gz or NAME/segmentations/*.nii.gz for a scan, or NAME.nii.gz "
        "with nnU-Net's dataset.json; NAME is the scan's name in the raw data, or that of its file in the prepared "
        "folder (default: the masks of the prepared folder).",
    )
    parser.add_argument(
        "--out", type=Path, metavar="FILE", help="The file to write the predictions to (default: none)."
    )
    parser.add_argument(
        "--metadata",
        type=Path,
        metavar="FILE",
        help="Writes what the masks hold as a Parquet table too (default: none).",
    )
    parser.add_argument(
        "--program",
        metavar="QUESTION_ID",
        help="Shows the steps from voxels to the answer of one question (default: all questions are answered).",
    )
    parser.add_argument(
        "--report",
        type=Path,
        metavar="FILE",
        help="Writes an HTML page: for a question its slice with the masks and the steps, else how far the scores fall "
        "with --masks, by subtype and size of lesion (default: none).",
    )
    parser.add_argument(
        "-j", "--jobs", dest="processes", type=positive, default=1, metavar="N",
        help="Measures scans in N processes; the answers are the same with any number (default: %(default)s).",
    )  # fmt: skip
    add_split(parser, of="the prepared folder that is answered")


class _Look(NamedTuple):
    oracle: Oracle
    group: MediaGroup
    masks: Path | None
    case: str


def _look(task: _Look) -> Any:
    try:
        return task.oracle.look(task.group.media_id, task.group.media[0], task.masks, task.case)
    except (ValueError, FileNotFoundError) as error:
        return str(error)


def oracle_command(options: argparse.Namespace, arguments: Sequence[str]) -> int:
    """Writes the predictions and prints how many scans and questions had masks; 1 where no scan could be measured."""
    benchmark = find_benchmark(options.benchmark)
    prepared = open_prepared(options.questions)
    if prepared.manifest.benchmark != options.benchmark:
        raise ValueError(f"{options.questions} was prepared for {prepared.manifest.benchmark!r}: name that benchmark.")
    if benchmark.oracle is None:
        raise ValueError(f"no mask tells the answers of {options.benchmark}: this benchmark has no oracle.")
    groups = prepared.groups(options.split)
    cases = {} if options.masks is None else _cases(options.masks, prepared, groups)
    if options.program:
        return _show(benchmark.oracle, groups, options, cases)
    if options.out is None:
        raise ValueError("--out: name the file to write the predictions to, or a question with --program.")
    if options.report and options.masks is None:
        raise ValueError("--report: a page is about one question (--program) or about predicted masks (--masks).")
    options.out.parent.mkdir(parents=True, exist_ok=True)
    taken = [group for group in groups if options.masks is None or group.media_id in cases]
    processes = min(options.processes, usable_cores())
    found = _found_in_scans(
        [_Look(benchmark.oracle, g, options.masks, cases.get(g.media_id, "")) for g in taken], processes
    )
    predictions = _predictions(benchmark.oracle, groups, found)
    replace_file(options.out, map(format_line, predictions))
    good = {name: each for name, each in found.items() if not isinstance(each, str)}
    if options.metadata:
        benchmark.oracle.write_table(options.metadata, list(good.values()))
    empty = sum(not each.text for each in predictions)
    print(f"{options.out}: {len(predictions)} answers about {len(good)} of {len(groups)} scans, {empty} of them empty")
    for name, reason in ((name, each) for name, each in found.items() if isinstance(each, str)):
        print(f"scan {name} was left out: {reason}")
    if options.masks is not None and len(taken) < len(groups):
        print(f"{len(groups) - len(taken)} scans have no masks in {options.masks}; their questions are unanswered")
    if options.masks is not None and any(ref.masks for group in groups for ref in group.media):
        own = _predictions(
            benchmark.oracle, groups, _found_in_scans([_Look(benchmark.oracle, g, None, "") for g in groups], processes)
        )
        tables = _falls(prepared, [q for g in groups for q in g.questions], benchmark, own, predictions)
        print(*("\n" + table_text(table) for table in tables), sep="\n")
        if options.report:
            _write_page(
                options.report, f"{options.masks} as an oracle of {benchmark.title}", str(options.questions), tables
            )
    return 0 if good else 1


def predictions_from_masks(
    benchmark: Benchmark, prepared: Prepared, split: Split, masks: Path | None
) -> list[Prediction]:
    """Returns the answers that masks give to the questions of a split, as `medtune oracle` writes them.

    Args:
        masks: The folder of masks; None takes those of the prepared folder.
    """
    if benchmark.oracle is None:
        raise ValueError(f"no mask tells the answers of {benchmark.title}: this benchmark has no oracle.")
    groups = prepared.groups(split)
    cases = {} if masks is None else _cases(masks, prepared, groups)
    taken = [group for group in groups if masks is None or group.media_id in cases]
    found = _found_in_scans([_Look(benchmark.oracle, g, masks, cases.get(g.media_id, "")) for g in taken], 1)
    return _predictions(benchmark.oracle, groups, found)


def _predictions(oracle: Oracle, groups: Sequence[MediaGroup], found: Mapping[str, Any]) -> list[Prediction]:
    """Returns an answer to each question, "" where nothing is known of its scan."""
    return [
        Prediction(
            PredictionKey(question.id, "image", "generation", 0),
            text="" if isinstance(facts, str) else oracle.answer(question, facts).reply,
        )
        for group in groups
        for facts in (found.get(group.media_id, ""),)
        for question in group.questions
    ]


def _falls(
    prepared: Prepared,
    asked: Sequence[Question],
    benchmark: Benchmark,
    own: Sequence[Prediction],
    given: Sequence[Prediction],
) -> list[Table]:
    """Returns the scores of the prepared folder's masks and of the given ones, by every facet that questions have."""
    part = benchmark.for_part(asked)
    before, after = (score_prepared(prepared, asked, said, part).scores for said in (own, given))
    columns = ("questions", "prepared masks", "these masks", "difference")

    def row(name: str, one: Level, other: Level) -> tuple[Cell, ...]:
        values = one.number, other.number
        return name, one.n, *values, values[1] - values[0]

    facets = [facet for facet in (part.class_facet, *part.size_facets) if facet in before.by]
    whole = Table(part.primary, ("", *columns), (row("all", before.overall, after.overall),))
    return [
        whole,
        *(
            Table(f"{part.level_metric} by {facet}", (facet, *columns), tuple(
                row(level, before.by[facet][level], after.by[facet][level]) for level in before.by[facet]
            ))
            for facet in facets
        ),
    ]  # fmt: skip


def _write_page(
    path: Path, title: str, said: str, tables: Sequence[Table], picture: NDArray[np.uint8] | None = None
) -> None:
    uri = ""
    if picture is not None:
        encoded = io.BytesIO()
        PIL.Image.fromarray(picture).save(encoded, "PNG")
        uri = "data:image/png;base64," + base64.b64encode(encoded.getvalue()).decode("ascii")
    page = render(
        "oracle.html.j2", title=title, said=said, tables=list(map(paper_table, tables)), picture=uri, sections=[]
    )
    replace_file(path, [page.encode()])
    print(f"report: {path}")


def _found_in_scans(tasks: Sequence[_Look], processes: int) -> dict[str, Any]:
    if processes == 1:
        return {task.group.media_id: _look(task) for task in tasks}
    died = "its process died: memory ran out, or a decoder crashed. Give fewer processes (-j)."
    return {
        tasks[done.number].group.media_id: died if done.result is None else done.result
        for done in in_processes(_look, tasks, processes=processes)
    }


def _cases(masks: Path, prepared: Prepared, groups: Sequence[MediaGroup]) -> dict[str, str]:
    """Returns the name in a folder of masks of each scan, by media id."""
    if not masks.is_dir():
        raise FileNotFoundError(f"{masks}: there is no such folder of masks. Check --masks.")
    names = {_without_ending(path.name) for path in masks.iterdir() if path.is_dir() or path.name.endswith(_ENDINGS)}
    named = partial(hashed_patient, patient_key(), prepared.manifest.source)
    by_patient = {named(name): name for name in names}
    found: dict[str, str] = {}
    for group in groups:
        name = _without_ending(group.media[0].path.name)
        if (case := by_patient.get(group.patient_id) or (name if name in names else None)) is not None:
            found[group.media_id] = case
    if not found:
        raise ValueError(
            f"{masks}: nothing here has the name of a scan of {prepared.root}. Name each as the raw data name the "
            "scan, or as its file in the prepared folder's media is named."
        )
    return found


def _without_ending(name: str) -> str:
    return next((name.removesuffix(ending) for ending in _ENDINGS if name.endswith(ending)), name)


def _show(oracle: Oracle, groups: Sequence[MediaGroup], options: argparse.Namespace, cases: Mapping[str, str]) -> int:
    asked: dict[str, tuple[Question, MediaGroup]] = {q.id: (q, group) for group in groups for q in group.questions}
    if options.program not in asked:
        raise ValueError(f"--program: the split {options.split!r} has no question {options.program!r}.")
    question, group = asked[options.program]
    case = cases.get(group.media_id, "")
    facts = oracle.look(group.media_id, group.media[0], options.masks, case)
    told = oracle.answer(question, facts)
    print(f"question: {question.text}\nprogram:  {told.program}")
    print("\n".join(f"  {number}. {call} -> {gave}" for number, (call, gave) in enumerate(told.steps, start=1)))
    print(f"answer:   {told.reply or 'none'}\ntruth:    {question.answer}")
    if options.report:
        steps = Table(
            told.program, ("step", "call", "gave"), tuple((n, *step) for n, step in enumerate(told.steps, start=1)),
            (f"Answer: {told.reply or 'none'}. Truth: {question.answer}.",),
        )  # fmt: skip
        seen = oracle.picture(question, group.media[0], options.masks, case, facts)
        _write_page(options.report, "One question, from voxels to the answer", question.text, [steps], seen)
    return 0


COMMANDS: Commands = {"oracle": (oracle_arguments, oracle_command)}
