"""`medtune explain`: says why an answer of a run counted as it did, or which questions a number counts."""

import argparse
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from medtune.data.catalog import nearest
from medtune.data.types import MediaGroup, Question
from medtune.eval.audit.row import AuditRow
from medtune.eval.audit.run_rows import audit_of
from medtune.eval.evidence import Evidence
from medtune.eval.explaining.audit_rows import AUDIT, audit_paths, find_row, row_lines
from medtune.eval.explaining.numbers import GAIN, PHASES, explained, find_number, number_lines, numbers_of
from medtune.eval.explaining.questions import answer_lines, asked_lines
from medtune.eval.judge.verdicts import with_verdicts
from medtune.eval.predictions.files import MERGED
from medtune.eval.predictions.shards import stored_predictions
from medtune.eval.report.run_data import read_run
from medtune.eval.results.schema import AuditFile, ResultsFile
from medtune.eval.results.typed_json import read_json
from medtune.eval.scoring.parse_replies import parse_all
from medtune.trainer.commands.arguments import Commands, add_questions
from medtune.trainer.commands.explain.tokens import tokens_text
from medtune.trainer.runs.audited import answered_phase, audited, audited_media, image_probes
from medtune.trainer.runs.finished_run import FinishedRun, open_finished

SHOWN = 10
"""The number of ids that are named of each kind without --all."""


def explain_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("run", type=Path, metavar="RUN", help="The folder of a run.")
    parser.add_argument(
        "what",
        nargs="?",
        metavar="QUESTION_ID|NUMBER",
        help="The id of a question, or a number of results.json by its keys, such as phases.final.by.task.diagnosis, "
        "or a row of audit.json, such as audit.text_only "
        "(default: the primary number of the last evaluation).",
    )
    parser.add_argument("--numbers", action="store_true", help="Lists the numbers that can be explained.")
    parser.add_argument("--all", action="store_true", dest="every_id", help="Names all questions instead of the first.")
    add_questions(parser)


def explain_command(options: argparse.Namespace, arguments: Sequence[str]) -> int:
    """Runs `medtune explain`, which loads no weights and asks no model."""
    run = open_finished(options.run, questions=options.questions)
    what: str | None = options.what
    groups = {
        each.id: (group, each) for group in run.prepared.groups(run.recipe.eval.split) for each in group.questions
    }
    if what in groups and not options.numbers:
        lines = _question_lines(run, *groups[what])
    elif what and what.startswith(f"{AUDIT}.") and not options.numbers:
        lines = _audit_lines(run, what, most=None if options.every_id else SHOWN)
    elif options.numbers or what is None or what.startswith((f"{PHASES}.", GAIN)):
        lines = _numbers(run, what, list_all=options.numbers, most=None if options.every_id else SHOWN)
    else:
        raise ValueError(
            f"{options.run}: {what!r} is no question of the split {run.recipe.eval.split!r}.{nearest(what, groups)} A "
            f"number begins with {PHASES}., {GAIN} or {AUDIT}.; --numbers lists them"
        )
    for line in lines:
        print(line)
    return 0


def _question_lines(run: FinishedRun, group: MediaGroup, question: Question) -> Iterator[str]:
    prompt = run.benchmark.render(question, run.recipe.model.answer_format)
    yield from asked_lines(question, prompt)
    for ref in group.media:
        yield f"shows      {ref.path}"
    yield f"tokens     [[learnt]], (visual tokens): {tokens_text(run.recipe, group, question, prompt)}"
    results = read_json(run.folder.results, ResultsFile) if run.folder.results.is_file() else None
    yield from answer_lines(question, _phases(run, results), run.benchmark)


def _numbers(run: FinishedRun, what: str | None, *, list_all: bool, most: int | None) -> Iterator[str]:
    results = read_run(run.folder.root).results
    if list_all:
        yield from numbers_of(results)
        yield from audit_paths(_audit_rows(run))
        return
    number = find_number(what or f"{PHASES}.{[*results.phases][-1]}.overall", results)
    phases = _phases(run, results)
    for name in (number.phase,) if number.phase else ("zero_shot", "final"):
        if name not in phases:
            raise ValueError(
                f"{run.folder.root / name / MERGED}: the answers that this number counts are not here. Copy the run "
                "again as a whole, or finish it with --resume"
            )
    found = explained(number, phases, run.benchmark)
    yield from number_lines(number, found, results, most=most)


def _audit_rows(run: FinishedRun) -> Sequence[AuditRow]:
    return read_json(run.folder.audit, AuditFile).rows if run.folder.audit.is_file() else ()


def _audit_lines(run: FinishedRun, what: str, *, most: int | None) -> Iterator[str]:
    row, phase = find_row(what, _audit_rows(run)), answered_phase(run)
    subject = audited(run, phase, list(stored_predictions(run.folder.audit_answers).values()))
    again = {each.name: each for each in audit_of(subject).rows}
    if row.name not in again:
        probes = image_probes(subject, audited_media(run, phase.groups))
        again = {each.name: each for each in audit_of(subject, probes).rows}
    asked = [question for group in phase.groups for question in group.questions]
    yield from row_lines(row, again.get(row.name), subject, asked, most=most)


def _phases(run: FinishedRun, results: ResultsFile | None) -> Mapping[str, Evidence]:
    """Returns the answers of each evaluation, with the verdicts of a judge."""
    found: dict[str, Evidence] = {}
    for name, folder in (("zero_shot", run.folder.zero_shot), ("final", run.folder.final)):
        said = with_verdicts(list(stored_predictions(folder).values()), folder / MERGED, run.benchmark)
        if not said:
            continue
        ids = {each.key.question_id for each in said}
        asked = [each for each in run.prepared.questions(run.recipe.eval.split) if each.id in ids]
        known = None if results is None else results.phases.get(name)
        parser = run.primary_parser if known is None else known.parser
        found[name] = Evidence(asked, said, parse_all(asked, said, run.benchmark), parser)
    if not found:
        raise ValueError(f"{run.folder.root}: no answers are here; finish the run first")
    return found


COMMANDS: Commands = {"explain": (explain_arguments, explain_command)}
