"""Turns the rows of a table into questions: a row gives one question, or one for each turn of its conversation."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

from medtune.benchmarks.vqa import columns as roles
from medtune.benchmarks.vqa.columns import Columns
from medtune.benchmarks.vqa.conversation import ASSISTANT, SYSTEM, USER, SpokenTurn, asked_turns, said_in
from medtune.benchmarks.vqa.label_questions import is_of_labels, read_labels
from medtune.benchmarks.vqa.media_cells import MediaCells, MediaPart, media_in
from medtune.benchmarks.vqa.row_answers import (
    NOT_KNOWN,
    answered,
    cell_text,
    listed_options,
    option_texts,
    states_kind,
    unanswered,
)
from medtune.benchmarks.vqa.spreadsheet_changes import made_a_date, made_dates
from medtune.data.json_text import json_value
from medtune.data.raw.folder import LEFT_OUT, split_named
from medtune.data.raw.lettered_options import choice_question
from medtune.data.raw.rows import Row
from medtune.data.raw.source import NOTHING_SAID, Place, TableOptions
from medtune.data.types import REJECTED, MediaKind, MediaRef, Question, Split
from medtune.eval.scoring.number_errors import TOLERANCE, read_tolerance

KINDS: Mapping[str, MediaKind] = {"image": "image", "video": "video", "volume": "volume"}
_WHOLE = re.compile(r"^(\d+)\.0$")
"""What pandas appends to the whole numbers of a column with an empty cell: patient 7.0 of one file is 7 of another."""
QUESTION = "Which of these classes does the picture belong to?"
"""The question about labels that have none of their own."""
NO_ANSWER = "the answer is empty"
MOST_CLASSES = 10
"""Where a question has no options of its own, at most so many classes are shown (our own choice)."""


@dataclass(frozen=True, slots=True)
class RowQuestion:
    """A question of a row with its media; the patient is "" where the row names none."""

    question: Question
    media: tuple[MediaRef, ...]
    place: Place
    # The answer as the row has it where the kind of answer follows from answers alone; else None.
    deciding_answer: str | None = None


@dataclass(frozen=True, slots=True)
class RowReader:
    """Reads rows whose columns have the same meaning."""

    columns: Columns
    media: MediaCells
    said: TableOptions = NOTHING_SAID  # What the user says about the table.
    question: str | None = None  # The question that is asked of every row; None takes the row's own.
    # The classes among which every row's answer is one; empty where rows have questions of their own.
    classes: tuple[str, ...] = ()
    seed: int = 0  # Decides which classes are shown, and their order.

    @property
    def of_labels(self) -> bool:
        """Whether the rows have no questions, so that `QUESTION` is asked of each."""
        return self.question == QUESTION and self.said.question is None

    def read(self, row: Row, *, split: Split | None) -> Iterator[RowQuestion]:
        stated = self._split(row, split)
        if stated == LEFT_OUT:
            return
        media = self._media(row)
        patient = self._patient(row, media)
        turns = asked_turns(self._spoken_turns(row), media, row.place)
        base = Question(
            id=self._text(row, roles.ID) or f"{row.place.file}, {row.place.row}",
            media_id="",
            text="",
            options=(),
            answer="",
            answer_kind="text",
            patient_id=patient,
            facets=self._task(row),
            printed=self._tolerance(row),
            split=split_named(stated, {}) if stated else None,
        )
        for number, turn in enumerate(turns, start=1):
            question = replace(base, id=f"{base.id}, turn {number}") if len(turns) > 1 else base
            question = replace(
                question, text=turn.text, turns=turn.turns, media_id=self._media_id(turn.media, question.id)
            )
            if turn.is_last and (worse := self._text(row, REJECTED)):
                question = replace(question, printed={**question.printed, REJECTED: worse})
            answered = self._answered(row, question, turn.answer, is_last=turn.is_last)
            is_free = (
                not self.classes
                and not self.said.unanswered
                and answered.text == turn.text
                and not self._states_kind(row, turn.is_last)
                and answered.answer_kind != "set"
            )
            yield RowQuestion(answered, turn.media, row.place, turn.answer if is_free else None)

    def said_split(self, row: Row) -> str:
        """Returns the name of a split in the row's own words; "" where it states none."""
        return "" if self.said.unanswered else cell_text(self._cell(row, roles.SPLIT))

    @property
    def patient_unit(self) -> str:
        """What the rows name as a patient: "patient" or "study"; "" where they name none."""
        return self.columns.patient_unit or ("patient" if self.said.patient else "")

    def _patient(self, row: Row, media: Sequence[MediaRef]) -> str:
        if self.said.patient is None or self.columns.of(roles.PATIENT):
            patient = _WHOLE.sub(r"\1", self._text(row, roles.PATIENT))
            if not patient and self.columns.patient_unit and not self.said.unanswered:
                raise row.place.error("the patient is empty. Fill it in.", field=self.columns.of(roles.PATIENT))
            return patient
        written = self.media.written(media[0].path) if media else ""
        found = self.said.patient.search(written)
        if found is None or not (patient := found[1] if found.re.groups else found[0]):
            reason = f"the pattern --patient {self.said.patient.pattern!r} finds no patient in the path of its file."
            raise row.place.error(reason, media=media[0].path if media else None)
        return patient

    def _answered(self, row: Row, question: Question, answer: str, *, is_last: bool) -> Question:
        """Returns the question with its answer; `of_one_kind` may change the kind once all rows are read."""
        if columns := self._label_columns(row, is_last=is_last):
            return read_labels(row, question, columns, self._options(row), self.said)
        if self.classes and not self.said.unanswered:
            return self._of_classes(row, question, answer)
        found = (unanswered if self.said.unanswered else answered)(
            row.place,
            text=question.text,
            answer=answer,
            options=self._options(row) if is_last else (),
            declared=self._text(row, roles.ANSWER_TYPE) if is_last else "",
            unit=self._text(row, roles.UNIT) if is_last else "",
            field=self.columns.of(roles.ANSWER) or "answer",
        )
        return replace(
            question,
            text=found.text,
            options=found.options,
            answer=found.answer,
            answer_kind=found.kind,
            unit=found.unit,
            facets=question.facets if question.facets else {"task": found.kind},
        )

    @property
    def lists_options(self) -> bool:
        """Whether the rows have options, of their own or for all, that no one made of the answers."""
        return bool(self.said.options or self.columns.found.get(roles.LETTERS) or self.columns.of(roles.OPTIONS))

    def _tolerance(self, row: Row) -> dict[str, str]:
        own, unit = self._text(row, roles.TOLERANCE), self._text(row, roles.UNIT) or None
        found = read_tolerance(own or self.said.tolerance, unit)
        if found is None and own and not self.said.unanswered:
            reason = "wanted a tolerance of 0 or more, with the answer's unit, or in % of the true number."
            raise row.place.error(reason, field=self.columns.of(roles.TOLERANCE), cell=own)
        return {} if found is None else {TOLERANCE: found}

    def _label_columns(self, row: Row, *, is_last: bool) -> tuple[str, ...]:
        """Returns the columns of a row's labels; none where its answer is something else."""
        if self.said.unanswered or not is_last:
            return ()
        columns = self.columns.found.get(roles.LABELS, ())
        return columns or ((self._name(roles.ANSWER),) if is_of_labels(self._text(row, roles.ANSWER_TYPE)) else ())

    def _states_kind(self, row: Row, is_last: bool) -> bool:
        return is_last and (bool(self._options(row)) or states_kind(self._text(row, roles.ANSWER_TYPE)))

    def _of_classes(self, row: Row, question: Question, answer: str) -> Question:
        try:
            made = choice_question(
                question.id,
                media_id=question.media_id,
                text=question.text,
                answer=answer,
                labels=self.classes,
                patient_id=question.patient_id,
                facets=question.facets or {"task": "choice"},
                seed=self.seed,
                num_options=MOST_CLASSES,
                split=question.split,
            )
        except ValueError as error:
            raise row.place.error(str(error), field=self.columns.of(roles.ANSWER)) from None
        return made

    def _spoken_turns(self, row: Row) -> Sequence[SpokenTurn]:
        system = self._text(row, roles.SYSTEM)
        before = [SpokenTurn(SYSTEM, system)] if system else []
        if (column := self.columns.of(roles.TURNS)) is not None and row.values.get(column) is not None:
            said = [*before, *said_in(row.values[column], row.place, column)]
            is_open = self.said.unanswered and said[-1].role == USER
            return [*said, SpokenTurn(ASSISTANT, NOT_KNOWN)] if is_open else said
        if (columns := self._turn_columns(row)) and not self.question:
            # TRL's prompt and completion are the two halves of a conversation.
            said = [*before, *(turn for column in columns for turn in said_in(row.values[column], row.place, column))]
            return said if said[-1].role != USER else [*said, SpokenTurn(ASSISTANT, self._answer(row))]
        text = self.question or self._text(row, roles.QUESTION)
        if not text:
            raise row.place.error(
                "the question is empty. Write it, or remove the row.", field=self._name(roles.QUESTION)
            )
        return [*before, SpokenTurn(USER, text), SpokenTurn(ASSISTANT, self._answer(row))]

    def _answer(self, row: Row) -> str:
        if self.said.unanswered or self._label_columns(row, is_last=True):
            return NOT_KNOWN
        answer = self.said.renamed(self._stated_answer(row))
        options = self._options(row) if self.said.index_from is not None else ()
        if answer.isdecimal() and options and answer not in options:
            place = int(answer) - (self.said.index_from or 0)
            return options[place] if 0 <= place < len(options) else answer
        return answer

    def _stated_answer(self, row: Row) -> str:
        column = self._name(roles.ANSWER)
        value = row.values.get(column)
        if isinstance(value, str) and value.strip().startswith("["):
            with suppress(ValueError):
                value = json_value(value)
        if isinstance(value, list):
            texts = list(dict.fromkeys(filter(None, (self._simple(row, each, column) for each in value))))
            if len(texts) != 1:
                raise row.place.error(
                    f"wanted one answer, the list has {len(texts)} different ones. Choose one, or ask for "
                    f"all of them with --labels {column}.",
                    field=column,
                )
            return texts[0]
        text = self._simple(row, value, column)
        if not text and isinstance(value, str) and value.strip() in self._options(row):
            return value.strip()
        if not text:
            raise row.place.error(f"{NO_ANSWER}. Write it, or remove the row.", field=column)
        return text

    def _options(self, row: Row) -> tuple[str, ...]:
        letters = self.columns.found.get(roles.LETTERS, ())
        own = option_texts((row.values.get(name) for name in letters), row.place, None)
        column = self.columns.of(roles.OPTIONS)
        if not own and column is not None:
            own = listed_options(row.values.get(column), row.place, column)
        own = tuple(map(self.said.renamed, own))
        if made_dates(own):
            raise row.place.error(made_a_date("an option"), field=column or " + ".join(letters))
        return own or self.said.options

    def _media(self, row: Row) -> tuple[MediaRef, ...]:
        cells = (self._cell(row, role) for role in (roles.START, roles.END, roles.BOX, roles.MASKS))
        part = MediaPart(*cells)
        found: list[MediaRef] = []
        for role, kind in KINDS.items():
            for column in self.columns.found.get(role, ()):
                found += self.media.refs(row.values.get(column), kind, row.place, column, part)
        found = found or [
            ref
            for column in self._turn_columns(row)
            for kind, item in media_in(row.values.get(column))
            for ref in self.media.refs(item, KINDS[kind], row.place, column, part)
        ]
        named = [column for role in KINDS for column in self.columns.found.get(role, ())]
        if not found and named and self._asks_of_pictures:
            raise row.place.error("the image is empty. Fill it in, or remove the row.", field=named[0])
        return tuple(found)

    def _turn_columns(self, row: Row) -> tuple[str, ...]:
        """Returns the columns whose cells are turns: of a conversation, or of its prompt and its completion."""
        turns = self.columns.of(roles.TURNS)
        if turns is not None and row.values.get(turns) is not None:
            return (turns,)
        names = [self.columns.of(role) for role in (roles.QUESTION, roles.ANSWER)]
        return tuple(name for name in names if name is not None and _is_turns(row.values.get(name)))

    @property
    def _asks_of_pictures(self) -> bool:
        """Whether medtune words the question, which is then about a picture."""
        return bool(self.question) and self.said.question is None

    def _split(self, row: Row, of_file: Split | None) -> str | None:
        said = self._text(row, roles.SPLIT)
        if not said or self.said.unanswered:
            return of_file
        try:
            stated = split_named(said, self.said.splits) or LEFT_OUT
        except ValueError as error:
            raise ValueError(f"{row.place.file}, row {row.place.row}: {error}") from None
        if of_file is not None and stated not in (of_file, LEFT_OUT):
            raise row.place.error(
                f"the row says that it is {stated}, the name of its file says {of_file}. Correct one of them, or leave "
                "the column out: --columns split=",
                field=self.columns.of(roles.SPLIT),
            )
        return stated

    def _task(self, row: Row) -> dict[str, str]:
        task = self._text(row, roles.TASK)
        return {"task": task} if task else {}

    def _cell(self, row: Row, role: str) -> object:
        column = self.columns.of(role)
        return None if column is None else row.values.get(column)

    def _media_id(self, media: Sequence[MediaRef], question_id: str) -> str:
        if not media:
            return f"nothing is shown: {question_id}"

        def shown(ref: MediaRef) -> str:
            # Files that were written from bytes or fetched are named after their content, wherever they lie.
            inside = ref.path.is_relative_to(self.media.scratch)
            path, masks = ref.path.name if inside else str(ref.path), [str(mask) for _, mask in ref.masks]
            return json.dumps([path, ref.boxes, ref.start_s, ref.end_s, ref.region, masks])

        return "\n".join(map(shown, media))

    def _text(self, row: Row, role: str) -> str:
        return self._simple(row, self._cell(row, role), self._name(role))

    def _simple(self, row: Row, value: object, column: str) -> str:
        if isinstance(value, list | Mapping | bytes):
            raise row.place.error(f"wanted a text or a number, got {type(value).__name__}.", field=column)
        return cell_text(value)

    def _name(self, role: str) -> str:
        return self.columns.of(role) or role


def _is_turns(cell: object) -> bool:
    return isinstance(cell, list) and bool(cell) and all(isinstance(turn, Mapping) and "role" in turn for turn in cell)
