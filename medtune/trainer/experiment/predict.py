"""Answers questions without truths with the model of a run, a recipe or an export: `medtune predict`."""

import csv
import hashlib
import json
import re
import shutil
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

from medtune.benchmarks import OWN_QUESTIONS
from medtune.data.control_characters import without_controls
from medtune.data.files import replace_file
from medtune.data.media.load import check_media
from medtune.data.prepared.decoded_content import shown_digest
from medtune.data.prepared.manifest import MANIFEST
from medtune.data.prepared.read import Prepared, open_prepared
from medtune.data.prepared.work.take import read_source
from medtune.data.raw.source import HubId, TableOptions
from medtune.data.raw.table_rows import parsed_hub_id
from medtune.data.readable import folded
from medtune.data.types import SPLITS, MediaGroup, MediaRef, Prediction, Question
from medtune.eval.learnt import learnt_before
from medtune.eval.scoring.label_sets import LABEL, SET
from medtune.eval.scoring.parse_replies import parse
from medtune.eval.statistics.calibration import option_probabilities
from medtune.models.contract import Transform
from medtune.models.weights.whole_folders import UNFINISHED
from medtune.trainer.experiment.evaluate import LoadedModel, answer_groups
from medtune.trainer.experiment.experiment import facts_before
from medtune.trainer.experiment.for_model import as_seen
from medtune.trainer.experiment.own_source import source_for
from medtune.trainer.experiment.predictor import Abstention, Predictor, abstention, load_predictor, open_predictor
from medtune.trainer.recipe.check import as_published, with_readings
from medtune.trainer.recipe.schema import ModelBlock

NOTICE = "For research only. Answers may be wrong in any way; they are neither a medical finding nor advice."
_MOST_OPTIONS = 26
"""Up to so many different options each has a column of its own; more stand in one cell as JSON (our own choice)."""
_MOST_NAMED = 5

_COLUMNS = (
    *("id", "media", "question", "answer", "unit", "probability", "p", "probabilities", "reply", "readable"),
    *("abstains", "options_that_hold", "error", "model", "trained_on"),
)
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n")
"""How a cell begins that spreadsheets take for a formula, which may run a program or send the table away.

Source: OWASP, CSV Injection.
"""


@dataclass(frozen=True)
class QuestionsToPredict:
    """Questions without truths."""

    groups: Sequence[MediaGroup]
    failed: Mapping[str, str]  # Why a row or an image cannot be asked about, by the id of the row or question.
    notes: Sequence[str] = ()
    order: Mapping[str, int] = field(default_factory=dict)  # The place of each question among the rows, by id.
    folders: Sequence[Path] = ()  # The folders to which the paths of media are relative.
    # The digest of what each media file of a prepared folder shows, by the file's name.
    contents: Mapping[str, str] = field(default_factory=dict)

    def written(self, path: Path) -> str:
        """Returns a path relative to the folder of the table or of the images."""
        inside = [path.relative_to(folder).as_posix() for folder in self.folders if path.is_relative_to(folder)]
        return min(inside, key=len, default=path.name)

    @property
    def questions(self) -> list[Question]:
        return [question for group in self.groups for question in group.questions]


class Known(NamedTuple):
    """What the model's own data ask."""

    texts: Sequence[str]  # All texts of questions.
    questions: Sequence[Question]  # A question for each text whose rows all have the same options, without its answer.


def known_questions(prepared: Prepared | None) -> Known:
    """Returns what a prepared folder asks; nothing where there is none."""
    found: dict[str, Question | None] = {}
    texts: dict[str, str] = {}
    for split in SPLITS if prepared is not None else ():
        for question in prepared.each_question(split) if prepared is not None else ():
            without = replace(question, answer=question.options[0] if question.options else "")
            texts.setdefault(folded(question.text), question.text)
            first = found.setdefault(folded(question.text), without)
            if first is not None and sorted(first.options) != sorted(question.options):
                found[folded(question.text)] = None
    return Known([*texts.values()], [question for question in found.values() if question is not None])


def read_questions(
    root: Path | HubId, said: TableOptions, known: Known, scratch: Path, model: ModelBlock, source: str | None = None
) -> QuestionsToPredict:
    """Returns the questions of a table, a folder of images or a prepared folder, without their answers.

    A question in the words of one that the model's own data ask has its options and unit, unless the row has its own.
    Where the rows have no question, the only one of the model's own data is asked.
    """
    if isinstance(root, Path) and (root / MANIFEST).is_file():
        prepared = as_seen(open_prepared(root), model)
        groups = [group for split in SPLITS for group in prepared.groups(split)]
        return QuestionsToPredict(groups, {}, contents=prepared.contents)
    if model.crop_organs is not None:
        raise ValueError(f"{root}: model.crop_organs needs masks of organs; name a prepared folder that has them")
    chosen = source_for(OWN_QUESTIONS, root, replace(said, unanswered=True), named=source)
    table = read_source(chosen, root, 0, scratch)
    failed = {f"{each.file}, {each.row}": str(each) for each in table.rejects}
    by_text = {folded(question.text): question for question in known.questions}
    by_media: dict[str, list[Question]] = {}
    order: dict[str, int] = {}
    for question in table.questions:
        own = by_text.get(folded(question.text))
        asked_here = [question if own is None else _as_known(question, own)]
        if said.question is None and any(note.startswith("asked of every row:") for note in table.notes):
            asked_here = [_as_known(question, each) for each in _asked_of_rows(known)]
            if len(asked_here) > 1:
                asked_here = [replace(each, id=f"{each.id}, {each.printed[LABEL]}") for each in asked_here]
        by_media.setdefault(question.media_id, []).extend(asked_here)
        for each in asked_here:
            order[each.id] = len(order)
    asked, notes = [], _notes(table.notes, [q for questions in by_media.values() for q in questions], known)
    for media_id, questions in by_media.items():
        media = table.media[media_id]
        try:
            for ref in media:
                check_media(ref)
            asked.append(MediaGroup(media_id, media, tuple(questions)))
        except (ValueError, FileNotFoundError) as error:
            failed |= {question.id: str(error) for question in questions}
    own_folder = [root if root.is_dir() else root.parent] if isinstance(root, Path) else []
    return QuestionsToPredict(asked, failed, notes, order, [*said.media_folders, *own_folder])


def _trained_on(predictor: Predictor, asked: QuestionsToPredict) -> list[str]:
    """Returns a note with the number of media that the model learnt from, in whatever file format; none without any."""
    learnt = learnt_before(facts_before(replace(predictor.recipe.model, checkpoint=predictor.checkpoint)))
    media = {ref.path: ref for group in asked.groups for ref in group.media} if learnt.media else {}
    again = sum(learnt.knows(asked.contents.get(path.name) or _digest_or_none(ref)) for path, ref in media.items())
    return [
        f"TRAINED ON: {again:,} of the {len(media):,} pictures (films, scans) are among those that the model learnt "
        "from: what it says of them may be remembered, and says nothing about new patients"
    ] * bool(again)


def _digest_or_none(ref: MediaRef) -> str:
    try:
        return shown_digest(ref.kind, ref.path)
    except ValueError:
        return ""  # Its row will say why it cannot be read.


def _notes(notes: Sequence[str], questions: Sequence[Question], known: Known) -> list[str]:
    closed = sum(bool(question.options) for question in questions)
    said = [note for note in notes if not note.startswith(("kind", "asked of every row"))]
    said.append(f"{closed:,} questions with options, {len(questions) - closed:,} that are answered freely")
    texts = {*map(folded, known.texts)}
    if texts and (strange := {q.text: q for q in questions if folded(q.text) not in texts and not q.options}):
        said.append(
            f"the model's own data do not ask {', '.join(map(repr, [*strange][:_MOST_NAMED]))}, but "
            f"{', '.join(map(repr, known.texts[:_MOST_NAMED]))}; --columns question= asks the only one of these, and "
            "--options gives others their options"
        )
    return said


def _asked_of_rows(known: Known) -> Sequence[Question]:
    """Returns the only question of the model's own data, or those about the labels of one set."""
    sets = {question.printed.get(SET, question.text) for question in known.questions}
    if len(known.texts) == len(known.questions) and len(sets) == 1:
        return known.questions
    listed, number = "; ".join(map(repr, known.texts[:_MOST_NAMED])), len(known.texts)
    there = f"The model's own data ask {number} different ones: {listed}" if number else "Its own data are not here"
    raise ValueError(f'the rows have no question, and which one is meant is not known. {there}. Give --question "..."')


def _as_known(question: Question, own: Question) -> Question:
    if question.options or question.unit:
        return replace(question, facets={**own.facets, **question.facets}, language=own.language)
    return replace(
        own,
        id=question.id,
        media_id=question.media_id,
        patient_id=question.patient_id,
        turns=question.turns,
        split=None,
    )


def answer_rows(
    predictor: Predictor, asked: QuestionsToPredict, answers: Sequence[Prediction], abstains: Abstention | None
) -> Iterator[dict[str, Any]]:
    """Yields a row for each question: answer, probability of each option, reply, and whether it was readable."""
    by_key = {(answer.key.question_id, answer.key.reading): answer for answer in answers}
    first = next(iter(predictor.benchmark.parsers))
    about = {"model": predictor.name, "trained_on": predictor.trained_on}
    for group in asked.groups:
        shown = "; ".join(asked.written(ref.path) for ref in group.media)
        for question in group.questions:
            likely, reply = by_key.get((question.id, "likelihood")), by_key.get((question.id, "generation"))
            read = None if reply is None else parse(question, reply, predictor.benchmark)[first]
            shares: dict[str, float] = {}
            if likely is not None and likely.option_logprobs is not None:
                shares = dict(zip(likely.options_shown, option_probabilities(likely.option_logprobs), strict=True))
            row: dict[str, Any] = {"id": question.id, "media": shown, "question": question.text}
            row["answer"] = max(shares, key=lambda option: shares[option]) if shares else read or ""
            row["probability"] = round(max(shares.values()), 4) if shares else ""
            row["probabilities"] = {option: round(share, 4) for option, share in shares.items()}
            row |= {
                "reply": "" if reply is None else reply.text,
                "readable": "" if reply is None else _yes(read is not None),
            }
            row["unit"] = question.unit or ""
            if abstains is not None:
                row["abstains"] = _yes(max(shares.values()) < abstains.least) if shares else ""
                row["options_that_hold"] = " | ".join(each for each, p in shares.items() if p >= abstains.in_set)
            yield {**row, "error": "", **about}
    for id_, why in asked.failed.items():
        yield {"id": id_, "error": why, **about}


def write_rows(path: Path, rows: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Writes the rows as CSV, or as JSON lines under the name .jsonl, and returns them as they were written.

    In CSV each option has a column "p: OPTION", where there are few.
    """
    kept = [dict(row) for row in rows]
    if path.suffix.lower() == ".jsonl":
        text = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in kept)
    else:
        options = list(dict.fromkeys(option for row in kept for option in row.get("probabilities", ())))
        for row in kept:
            shares = row.pop("probabilities", {})
            if len(options) <= _MOST_OPTIONS:
                row |= {f"p: {option}": shares.get(option, "") for option in options}
            else:
                row["probabilities"] = json.dumps(shares, ensure_ascii=False)
        names = sorted({name for row in kept for name in row}, key=_column_order)
        with tempfile.SpooledTemporaryFile(mode="w+", newline="", encoding="utf-8") as made:
            writer = csv.DictWriter(made, names, restval="")
            writer.writeheader()
            writer.writerows({name: _cell(value) for name, value in row.items()} for row in kept)
            made.seek(0)
            text = made.read()
    replace_file(path, [text.encode()])
    return kept


def _cell(value: object) -> object:
    """Returns a value for a cell, with an apostrophe in front of a text that a spreadsheet would calculate."""
    if not isinstance(value, str):
        return value
    text = without_controls(value)
    return f"'{text}" if text.startswith(_FORMULA) and not _is_number(text) else text


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _column_order(name: str) -> tuple[int, str]:
    return _COLUMNS.index("p" if name.startswith("p: ") else name), name


def predict(
    model: str | Path,
    questions: str | Path,
    *,
    images: str | Path | None = None,
    out: str | Path | None = None,
    question: str | None = None,
    options: Sequence[str] = (),
    columns: Mapping[str, str] | None = None,
    patient: str | re.Pattern[str] | None = None,
    frames_per_s: float | None = None,
    sheet: str | None = None,
    header: int | None = None,
    source: str | None = None,
    overrides: Sequence[str] = (),
    error_rate: float | None = None,
) -> list[dict[str, Any]]:
    """Returns the answers of a model to questions without truths, a row for each, as `medtune predict` writes them.

    Args:
        model: A run folder, an exported folder, or the name or file of a recipe.
        questions: A table, a folder of images, a prepared folder, or hf:ID.
        images: The folder to which the paths in a table are relative; None for that of the table.
        out: The file to write, .csv or .jsonl, which must not exist. Beside it, answers are kept until all are there,
            so that the same call goes on after a stop; None writes nothing.
        question: The question that is asked of every row; None takes the row's, or the only one that the model knows.
        options: The options, in their order, of every row that lists none.
        columns: The column of each role, as --columns of `medtune prepare` says.
        patient: A pattern that finds the patient in the path of a row's file.
        frames_per_s: The frames a second of DICOM cines whose files do not say it; None refuses these.
        sheet: The sheet of a workbook; None for the first with rows.
        header: The row of a workbook, or the line of a text file, with the names of the columns; None for the first.
        overrides: Values that replace those of the recipe, e.g. "eval.batch_size=4".
        error_rate: The largest share of a new patient's questions that may be answered wrongly, by which the model
            abstains; None lets it answer all.

    Raises:
        FileExistsError: `out` exists.
        ValueError: No question can be asked, or the questions need what the model does not read.
    """
    target = None if out is None else Path(out).expanduser()
    if target is not None and target.exists():
        raise FileExistsError(f"{target} exists and is left as it is; name another file with --out")
    if error_rate is not None and not 0 < error_rate < 1:
        raise ValueError(f"--error-rate {error_rate:g}: wanted a share between 0 and 1, e.g. 0.05")
    predictor = open_predictor(str(model), overrides)
    said = TableOptions(
        media_folder=None if images is None else Path(images).expanduser(),
        columns=columns or {},
        question=question,
        options=tuple(options),
        patient=None if patient is None else re.compile(patient),
        frames_per_s=frames_per_s,
        sheet=sheet,
        header=header,
    )
    with tempfile.TemporaryDirectory(prefix="medtune-") as folder:
        scratch = Path(folder)
        known = known_questions(predictor.prepared)
        asked = _read(predictor, questions, said, known, scratch, source)
        recipe = with_readings(as_published(predictor.recipe, predictor.benchmark), asked.questions)
        predictor = replace(predictor, recipe=recipe).for_own_texts({*known.texts})
        work = scratch / "work" if target is None else target.with_name(f".{target.name}{UNFINISHED}")
        _same_model(predictor, work)
        asked, answers, abstains = _answered(predictor, asked, work, error_rate)
    order, given = asked.order, answer_rows(predictor, asked, answers, abstains)
    rows = sorted(given, key=lambda row: order.get(row["id"], len(order)))
    if abstains is not None:
        predictor.say(f"abstention: {abstains.said}")
    if target is not None:
        rows = write_rows(target, rows)
        shutil.rmtree(work)
        predictor.say(_summary(target, rows, predictor))
    return rows


def _read(
    predictor: Predictor, questions: str | Path, said: TableOptions, known: Known, scratch: Path, source: str | None
) -> QuestionsToPredict:
    if known.questions:
        usual, _ = Counter(question.language for question in known.questions).most_common(1)[0]
        said = replace(said, language=usual)
    root = parsed_hub_id(str(questions)) or Path(questions).expanduser()
    asked = read_questions(root, said, known, scratch, predictor.recipe.model, source)
    for note in (*asked.notes, *_trained_on(predictor, asked)):
        predictor.say(f"note: {note}")
    if not asked.groups:
        why = next(iter(asked.failed.values()), "there are no rows")
        raise ValueError(f"{questions}: no question can be asked; the first reason: {why}")
    return asked


def _answered(
    predictor: Predictor, asked: QuestionsToPredict, work: Path, error_rate: float | None
) -> tuple[QuestionsToPredict, list[Prediction], Abstention | None]:
    """Returns what was asked, without the media that the model does not read, the answers and how it abstains."""
    model = load_predictor(predictor, work / "spending.jsonl")
    if isinstance(model, LoadedModel):
        asked = _that_fit(asked, model.assembled.transform)
    readings = predictor.recipe.eval.known_readings
    abstains = None
    if error_rate is not None:
        if "likelihood" not in readings:
            raise ValueError("--error-rate needs questions with options, and a model that gives their likelihoods")
        abstains = abstention(predictor, model, rate=error_rate, work=work / "val")
    answers = answer_groups(
        predictor, model, asked.groups, out_dir=work, readings=readings, conditions=["image"], title="predict"
    )
    return asked, answers, abstains


def _that_fit(asked: QuestionsToPredict, transform: Transform) -> QuestionsToPredict:
    """Returns what is asked about media that the model takes; the other rows have failed, each for its own reason."""
    failed, groups = dict(asked.failed), list[MediaGroup]()
    reads = " and ".join(f"{kind}s" for kind in transform.kinds)
    for group in asked.groups:
        if odd := sorted({ref.kind for ref in group.media} - {*transform.kinds}):
            why = f"the row shows a {odd[0]}; the model reads {reads} only"
        else:
            try:
                for ref in group.media:
                    transform.shape(ref)
            except ValueError as error:
                why = str(error)
            else:
                groups.append(group)
                continue
        failed |= {question.id: why for question in group.questions}
    if not groups:
        raise ValueError(f"no row shows what the model takes: {next(iter(failed.values()))}")
    return replace(asked, groups=groups, failed=failed)


def _same_model(predictor: Predictor, work: Path) -> None:
    """Notes which model answers in a work folder, and refuses one that holds the answers of another."""
    weights = predictor.checkpoint
    when = weights.stat().st_mtime_ns if weights is not None else 0
    said = repr((predictor.recipe.model, predictor.recipe.train.precision, str(weights), when))
    digest = hashlib.sha256(said.encode()).hexdigest()
    noted = work / "model.txt"
    if noted.is_file() and noted.read_text() != digest:
        raise ValueError(f"{work} holds answers of another model; remove it, or name another file with --out")
    work.mkdir(parents=True, exist_ok=True)
    noted.write_text(digest)


def _summary(target: Path, rows: Sequence[Mapping[str, Any]], predictor: Predictor) -> str:
    given = [row for row in rows if not row["error"]]
    counts = Counter(str(row["answer"]) for row in given).most_common(_MOST_NAMED)
    unread = sum(row["readable"] == "no" for row in given)
    lines = [
        f"{target}: {len(given):,} questions answered, {len(rows) - len(given):,} could not be asked (column error)",
        f"  most frequent  {', '.join(f'{answer[:40]!r} {count:,}' for answer, count in counts)}",
        f"  unreadable     {unread:,} replies",
        f"  model          {predictor.name}, trained on {predictor.trained_on}",
    ]
    return "\n".join(lines)


def _yes(is_so: bool) -> str:
    return "yes" if is_so else "no"
