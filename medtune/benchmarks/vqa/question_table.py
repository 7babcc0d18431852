"""Collects the questions of tables: their media, patients and facets, what was ignored and what could not be read."""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal, NamedTuple

from medtune.benchmarks.vqa import columns as roles
from medtune.benchmarks.vqa.facet_columns import Levels
from medtune.benchmarks.vqa.kinds import is_label_column, of_one_kind
from medtune.benchmarks.vqa.label_questions import asked_of_labels
from medtune.benchmarks.vqa.row_answers import PlaceAnswerError
from medtune.benchmarks.vqa.row_questions import NO_ANSWER, QUESTION, RowQuestion, RowReader
from medtune.benchmarks.vqa.spreadsheet_changes import (
    are_made,
    is_date,
    made_a_date,
    one_or_two_patients,
    same_but_for_zeros,
)
from medtune.data.catalog import nearest
from medtune.data.kept_rows import Digests, KeptRows, digest, repeated
from medtune.data.languages import languages_of, said_of_languages
from medtune.data.progress import counted
from medtune.data.raw.folder import check_all_used, file_stem, unread_files, unread_note
from medtune.data.raw.named_files import notes_on_names
from medtune.data.raw.rows import Row
from medtune.data.raw.source import Place, Reject, RowError, SourceTable, TableOptions, missing_media
from medtune.data.types import MediaRef, Question, Split
from medtune.eval.scoring.number_errors import TOLERANCE, is_measured

MOST_NAMED = 50
"""The most rows that a note names (our own choice)."""
_UNITS = {"image": "image", "video": "film", "volume": "scan"}
_NOTHING = "row"
WITHOUT_ANSWERS = "Rows whose answers nobody knows are for `medtune predict MODEL --from FILE --out answers.csv`"
_NO_MEDIA = "no column holds images, films or volumes: all is asked without. Name one with --columns image=COLUMN"


class LeftOut(NamedTuple):
    """A row that is left out on purpose; the manifest counts such rows by reason."""

    why: str


@dataclass(frozen=True, slots=True)
class ReadSet:
    """The rows of one file or split, with their split and the function that reads them."""

    # Reads the rows; a row that is broken is an error of its own.
    rows: Callable[[], Iterator[Row | RowError | LeftOut]]
    split: Split | None  # The split that the file's name or the data set states; None without one.
    reader: RowReader
    notes: tuple[str, ...] = ()  # What had to be told from the file itself.


class _ReadQuestion(NamedTuple):
    question: Question
    place: Place
    deciding_answer: str | None  # As in `RowQuestion`.

    @property
    def text(self) -> str:
        return " ".join(self.question.text.casefold().split())


@dataclass(slots=True)
class _Collected:
    rows: KeptRows[_ReadQuestion] = field(default_factory=KeptRows)
    media: dict[str, tuple[MediaRef, ...]] = field(default_factory=dict)
    owner: dict[str, tuple[str, Place]] = field(default_factory=dict)
    # The spelling of each patient, and its first row, by what it is without leading zeros.
    patients: dict[str, tuple[str, Place]] = field(default_factory=dict)
    continued: dict[str, str] = field(default_factory=dict)
    rejects: list[Reject] = field(default_factory=list)
    left_out: Counter[str] = field(default_factory=Counter)
    split_names: set[str] = field(default_factory=set)
    by_place: list[PlaceAnswerError] = field(default_factory=list)
    by_words: int = 0
    is_cut: bool = False
    # Whether a rejected row names images, films or volumes.
    has_rejected_media: bool = False


def question_table(
    sets: Iterable[ReadSet],
    origin: Path,
    *,
    options: TableOptions,
    split_names: Iterable[str],
    read_files: Collection[Path] | None,
    limit: int | None = None,
    notes: tuple[str, ...] = (),
) -> SourceTable:
    """Returns the questions of all sets with their media, and notes on the mapping and on what was ignored.

    Args:
        origin: The file or the folder that is read, which refusals name.
        split_names: The names of files, folders or parts that may state a split, which `options.splits` may name.
        read_files: The files of the folder that are read, beside which no other data file may be lost; None where the
            source reads a single file or a data set.
        limit: The number of patients of each set after which it is read no further; None reads all.
    """
    sets = list(sets)
    folder = origin.parent if origin.is_file() else origin
    unread = [] if read_files is None else unread_files(folder, read_files)
    notes = (*notes, *unread_note(folder, unread, options.splits), *(note for each in sets for note in each.notes))
    names = list(dict.fromkeys(name for each in sets for name in each.reader.columns.others))
    sets, found, levels, counting = _read(sets, names, options, limit)
    if not found.is_cut:
        check_all_used(options.splits, {*split_names, *map(file_stem, unread), *found.split_names})
    _check_found(found, sets, origin, options)
    repeats: list[str] = []
    if not options.unanswered:
        _reject_dates(found, sets[0].reader)
        repeats = _without_repeats(found, options.keep)
    kept = levels.kept()
    questions, said = _of_one_kind(found, sets, origin, options, facets=kept)
    if options.tolerance and not any(TOLERANCE in question.printed for question in questions):
        raise ValueError(f"--tolerance {options.tolerance}: it fits no number of the table; write 2, '2 mm' or '10 %'.")
    has_media = any(found.media.values())
    ignored = [name for name in names if name not in kept]
    return SourceTable(
        questions,
        found.media,
        (
            *notes,
            *counting,
            *notes_on_names(each.reader.media.named for each in sets),
            *said,
            *repeats,
            *(f"rows left out, {why}: {count}" for why, count in sorted(found.left_out.items())),
            *dict.fromkeys(doubt for each in sets if (doubt := _doubt_of_options(each.reader))),
            *dict.fromkeys(f"columns: {line}" for each in sets if (line := each.reader.columns.line())),
            *([] if has_media or not questions else [_NO_MEDIA]),
            *_note_of_names("no facets, as they hold the answer", levels.holding_answers()),
            *_note_of_names("facets", sorted(kept)),
            *_note_of_names("ignored columns", ignored),
        ),
        tuple(found.rejects),
        missing_media(found.rejects, folder, fetch="the data set's owner"),
        stands_for_patient=_unit([each.reader.patient_unit for each in sets], found.media.values()),
    )


def _doubt_of_options(reader: RowReader) -> str:
    return "" if reader.said.options else roles.doubt_of_options(reader.columns, reader.said.columns)


def _note_of_names(what: str, names: Collection[str]) -> list[str]:
    return [f"{what}: {', '.join(names)}"] if names else []


def _read(
    sets: list[ReadSet], names: Sequence[str], options: TableOptions, limit: int | None
) -> tuple[list[ReadSet], _Collected, Levels, list[str]]:
    """Reads all sets; returns them as they were read, what was found, the levels of their facets, and notes.

    Where only the first reading shows from where places of options count, all is read once more.
    """
    mapped = {name for each in sets for of_role in each.reader.columns.found.values() for name in of_role}
    facets = _checked(options.facets, [*names, *mapped])
    found, levels = _collected(sets, names, facets, limit)
    first = _counted_from(found)
    if first is None:
        return sets, found, levels, []
    counted = replace(options, index_from=first)
    sets = [replace(each, reader=replace(each.reader, said=counted)) for each in sets]
    said = f"the answers are the places of options, which count from {first}; --index-from says otherwise"
    return sets, *_collected(sets, names, facets, limit), [said]


def _check_found(found: _Collected, sets: Sequence[ReadSet], origin: Path, options: TableOptions) -> None:
    """Refuses tables that give no question, name media that none of them has, or hold boxes of another form."""
    has_media = any(found.media.values())
    if found.rejects and not found.rows and all(each.reason.startswith(NO_ANSWER) for each in found.rejects):
        raise ValueError(f"{origin}: no row has an answer. {WITHOUT_ANSWERS}")
    if not found.rows and not found.rejects:
        left_out = f" Left out: {dict(found.left_out)}." if found.left_out else ""
        raise ValueError(f"{origin}: no row gives a question.{left_out} Check the columns and the splits.")
    if options.media_folder is not None and found.rows and not has_media:
        raise ValueError(f"{origin}: {no_column_of_media(sets[0].reader.columns)}")
    tables = [each.reader.columns for each in sets if each.reader.columns.of(roles.TURNS) is None]
    named = [name for columns in tables for role in roles.MEDIA for name in columns.found.get(role, ())]
    if found.rows and named and not has_media and not found.has_rejected_media:
        raise ValueError(
            f"{origin}: the column {named[0]!r} is empty in all rows. Fill it in; where it holds formulas, open the "
            "table and save it in Excel, which keeps their values."
        )
    _check_boxes(found, sets, origin)


def _of_one_kind(
    found: _Collected, sets: Sequence[ReadSet], origin: Path, options: TableOptions, *, facets: Collection[str]
) -> tuple[KeptRows[Question], list[str]]:
    """Returns the questions with language, kind of answer, facets and patient, and notes on how they are asked."""
    codes = languages_of((each.question.text for each in found.rows), options.language)
    asked = KeptRows(
        (replace(each.question, language=code), each.deciding_answer)
        for each, code in zip(found.rows, codes, strict=True)
    )
    of_labels = any(each.reader.of_labels for each in sets)
    labels = of_labels or all(
        is_label_column(each.reader.columns.of(roles.ANSWER) or "") and each.reader.question for each in sets
    )
    has_turns = any(each.reader.columns.of(roles.TURNS) for each in sets)
    questions, kinds = of_one_kind(
        asked, labels=labels, has_turns=has_turns, at=lambda n: _place_text(found.rows[n].place)
    )
    if of_labels:
        if not options.unanswered:
            _check_labels(questions, origin, sets[0].reader.columns.names)
        kinds = (f'asked of every row: {QUESTION!r}; --question "..." asks in your words', *kinds)
    questions = KeptRows(_completed(each, found, {*facets, "task"}) for each in questions)
    questions, labels_said = asked_of_labels(questions, options)
    return questions, [*labels_said, *kinds, *(said_of_languages(codes) if options.language is None else [])]


def _completed(question: Question, found: _Collected, facets: Collection[str]) -> Question:
    own = {name: text for name, text in question.facets.items() if name in facets}
    # Another row may say whose an image is; where none does, the image stands for its patient.
    shown = found.continued.get(question.media_id, question.media_id)
    patient, _ = found.owner.get(shown, (shown, None))
    # What a number may be off by is of no question that turned out to have another kind of answer.
    printed = dict(question.printed)
    if not is_measured(question):
        printed.pop(TOLERANCE, None)
    return replace(question, facets=own, patient_id=question.patient_id or patient, printed=printed)


def _check_boxes(found: _Collected, sets: Sequence[ReadSet], origin: Path) -> None:
    """Refuses a column of boxes, which no one named, where some end before they begin: it holds widths and heights."""
    column = next((name for each in sets if (name := each.reader.columns.of(roles.BOX))), None)
    if column is None or roles.BOX in sets[0].reader.said.columns:
        return
    refs = (ref for items in found.media.values() for ref in items)
    boxes = [box for ref in refs for box in (*ref.boxes, *((ref.region,) if ref.region else ()))]
    if turned := sum(box.x1 <= box.x0 or box.y1 <= box.y0 for box in boxes):
        raise ValueError(
            f"{origin}: {turned} of {len(boxes)} boxes in the column {column!r} end before they begin: does it hold x, "
            "y, width and height, as COCO and BUS-BRA write them? medtune draws x0, y0, x1, y1. Leave the column out: "
            f"--columns {roles.BOX}= (or convert it, and say --columns {roles.BOX}={column})."
        )


def no_column_of_media(columns: roles.Columns, leading: Sequence[str] = ()) -> str:
    """Returns what is wrong where pictures are given and no column names any.

    Args:
        leading: The columns whose cells lead to files, although their names do not say so.
    """
    hint = f"; the cells of {' and of '.join(map(repr, leading))} lead to files" if leading else ""
    return (
        "--images names a folder, and no column was found that names images, films or volumes. The columns are: "
        f"{', '.join(columns.names)}. Say which it is with --columns image={leading[0] if leading else 'NAME'}{hint}."
    )


def _collected(
    sets: Sequence[ReadSet], names: Sequence[str], facets: Sequence[str] | None, limit: int | None
) -> tuple[_Collected, Levels]:
    found, levels = _Collected(), Levels(names, facets)
    for each in sets:
        _collect(each, found, levels, limit)
    if again := repeated(found.rows, lambda row: row.question.id):
        one, other = (found.rows[place].place for place in next(iter(again.values())))
        raise ValueError(
            f"{_place_text(other)}: its id stands in {_place_text(one)} too. Make ids unique, or leave the column out: "
            f"--columns {roles.ID}="
        )
    return found, levels


def _counted_from(found: _Collected) -> int | None:
    """Returns from where answers that are places of options count, if all are and only 0 or only 1 fits; else None."""
    if not found.by_place or found.by_words:
        return None
    from_0 = all(error.index < error.number for error in found.by_place)
    from_1 = all(error.index > 0 for error in found.by_place)
    return None if from_0 == from_1 else int(from_1)


def _asks(row: _ReadQuestion) -> tuple[object, ...]:
    question = row.question
    return question.split, question.media_id, row.text, *sorted({*question.options}), question.turns


def _without_repeats(found: _Collected, keep: Literal["first", "all"] | None) -> list[str]:
    """Leaves out rows that ask the same of the same media in one split, and returns notes that count and name them.

    Free texts may differ, as several descriptions of one image do, unless all are answers about other media, too.
    """
    again = Digests(repr(_asks(row)) for row in found.rows).repeated()
    asked: dict[object, list[tuple[int, _ReadQuestion]]] = {}
    for number, row in enumerate(found.rows if again else ()):
        if digest(repr(key := _asks(row))) in again:
            asked.setdefault(key, []).append((number, row))
    # Two of the media that each of these answers is about.
    words: dict[str, set[str]] = {
        _folded_answer(row.question.answer): set() for rows in asked.values() for _, row in rows
    }
    for row in found.rows if words else ():
        shown = words.get(_folded_answer(row.question.answer))
        if shown is not None and len(shown) < 2:
            shown.add(row.question.media_id)
    same, other, left = 0, list[str](), set[int]()
    for rows in (rows for rows in asked.values() if len(rows) > 1):
        numbers, answers = [number for number, _ in rows], dict[str, int]()
        for number, row in rows:
            answers.setdefault(_folded_answer(row.question.answer), number)
        copies = {*numbers} - {*answers.values()}
        is_free = rows[0][1].question.answer_kind == "text" and min(len(words[said]) for said in answers) < 2
        if len(answers) > 1 and not is_free:
            other.append(f"{rows[0][1].place.file} {' and '.join(str(row.place.row) for _, row in rows)}")
            left |= {*numbers[1:]} if keep == "first" else {*numbers}
        else:
            same += len(copies)
            left |= copies
    notes = []
    if same:
        what = "are kept (--keep all)" if keep == "all" else "are left out; --keep all keeps them"
        notes.append(f"duplicates: {same} rows ask and answer the same of the same media as an earlier row and {what}")
    if other:
        how = {
            None: "are left out; --keep first keeps the first row of each, --keep all every row",
            "first": "keep their first row (--keep first)",
            "all": "keep all rows (--keep all)",
        }[keep]
        named = "; ".join(other[:MOST_NAMED]) + (f"; and {len(other) - MOST_NAMED} more" * (len(other) > MOST_NAMED))
        notes.append(
            f"contradictions: {len(other)} questions about the same media have different answers and {how}: {named}"
        )
    _leave_out(found, left if keep != "all" else set())
    return notes


def _reject_dates(found: _Collected, reader: RowReader) -> None:
    """Takes the questions whose answers a spreadsheet made dates out of those that were read."""
    dates = Counter(row.text for row in found.rows if row.deciding_answer is not None and is_date(row.deciding_answer))
    if not dates:
        return
    asked = Counter(row.text for row in found.rows if row.deciding_answer is not None and row.text in dates)
    made = {text for text, number in dates.items() if are_made(number, of=asked[text])}
    dated = [
        (number, row.place, row.deciding_answer)
        for number, row in enumerate(found.rows)
        if row.deciding_answer is not None and row.text in made and is_date(row.deciding_answer)
    ]
    # A date of several media is no one's birthday, and may be named.
    shown = Counter(date for _, _, date in dated)
    for _, place, date in dated:
        reason = made_a_date("this answer", date if shown[date] > 1 else "DATE")
        found.rejects.append(place.error(reason, field=reader.columns.of(roles.ANSWER), cell=date).reject)
    _leave_out(found, {number for number, _, _ in dated})


def _leave_out(found: _Collected, left: set[int]) -> None:
    if not left:
        return
    found.rows = found.rows.chosen(number for number in range(len(found.rows)) if number not in left)
    shown = {row.question.media_id for row in found.rows}
    found.media = {media_id: items for media_id, items in found.media.items() if media_id in shown}


def _folded_answer(answer: str) -> str:
    return answer.casefold().rstrip(".")


def _check_labels(questions: Iterable[Question], origin: Path, names: Sequence[str]) -> None:
    if free := next((question for question in questions if not question.options), None):
        several = "numbers" if free.answer_kind == "number" else "too many different texts"
        what = several if len({question.answer for question in questions}) > 1 else "all the same"
        raise ValueError(
            f"{origin}: wanted a column with the question, as the answers are {what} and no labels. The columns are: "
            f'{", ".join(names)}. Take --columns question=NAME, ask all rows one: --question "...", or give --options.'
        )


def _collect(each: ReadSet, found: _Collected, levels: Levels, limit: int | None) -> None:
    patients: set[str] = set()
    for row in counted(each.rows(), "reading the table", unit="rows"):
        if isinstance(row, LeftOut):
            found.left_out[row.why] += 1
            continue
        if isinstance(row, RowError):
            found.rejects.append(row.reject)
            continue
        if said := each.reader.said_split(row):
            found.split_names.add(said)
        try:
            asked = list(each.reader.read(row, split=each.split))
        except RowError as error:
            found.rejects.append(error.reject)
            columns = each.reader.columns.found
            media = [name for role in roles.MEDIA for name in columns.get(role, ())]
            found.has_rejected_media |= any(str(row.values.get(name) or "").strip() for name in media)
            found.by_place += [error] if isinstance(error, PlaceAnswerError) else []
            continue
        if not asked:
            found.left_out[f"of the split {said!r}"] += 1
            continue
        found.by_words += each.reader.lists_options and any(one.question.options for one in asked)
        more = levels.of(row)
        for one in asked:
            levels.compare(more, one.question)
        for one in asked:
            question = _checked_question(one, found, each.reader)
            patient = question.patient_id or question.media_id
            if limit is not None and patient not in patients and len(patients) == limit:
                found.is_cut = True
                return
            patients.add(patient)
            found.rows.append(
                _ReadQuestion(replace(question, facets={**more, **question.facets}), one.place, one.deciding_answer)
            )
            found.media[question.media_id] = one.media
            if not one.media and len(asked) > 1:
                # Later turns repeat a turn that shows nothing, and stay with it in one split.
                found.continued[question.media_id] = asked[-1].question.media_id


def _checked_question(one: RowQuestion, found: _Collected, reader: RowReader) -> Question:
    question = one.question
    if not question.patient_id:
        return question
    spelt, place = found.patients.setdefault(same_but_for_zeros(question.patient_id), (question.patient_id, one.place))
    if spelt != question.patient_id and (column := reader.columns.of(roles.PATIENT)) and not reader.said.unanswered:
        raise one_or_two_patients(one.place, place, column)
    patient, place = found.owner.setdefault(question.media_id, (question.patient_id, one.place))
    if patient != question.patient_id:
        raise ValueError(
            f"{_place_text(one.place)}: its image, film or volume belongs to another patient in {_place_text(place)}. "
            f"Correct the patient of one of them, or leave the column out: --columns {roles.PATIENT}="
        )
    return question


def _place_text(place: Place) -> str:
    return f"{place.file}, row {place.row}"


def _checked(facets: Sequence[str] | None, names: Sequence[str]) -> Sequence[str] | None:
    for name in facets or ():
        if name not in names:
            raise ValueError(f"--facets {name}: no such column.{nearest(name, names)} They are: {', '.join(names)}.")
    return facets


def _unit(patients: Sequence[str], media: Iterable[tuple[MediaRef, ...]]) -> str:
    units = {each for each in patients if each}
    if not all(patients):
        units |= {_UNITS[ref.kind] for items in media for ref in items} or {_NOTHING}
    return " or ".join(sorted(units))
