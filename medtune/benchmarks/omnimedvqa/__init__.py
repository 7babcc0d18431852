"""OmniMedVQA, multiple-choice questions about medical images of 12 modalities, made from 73 classification sets.

The open-access part, whose images can be downloaded, is the one that is asked. It is for evaluation alone.

    QA_information/Open-access/<set>.json    a list of rows: dataset, question_id, question_type, question, gt_answer
                                             (the text of an option), image_path, option_A to option_D, modality_type
    Images/<set>/...                         the images, at the rows' image_path
    OmniMedVQA.zip                           or the archive that holds both

A row has two to four options. One row of the release says `modality` for `modality_type`, and both are read. The folder
Restricted-access is left out: its images are not part of the release. The release has no training questions.

Source: Hu et al., OmniMedVQA, arXiv 2402.09181; hub data set foreverbeliever/OmniMedVQA; MedEvalKit@9b12e3b,
utils/OmniMedVQA/OmniMedVQA.py:77-113.
"""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from string import ascii_uppercase

from medtune.benchmarks import example
from medtune.benchmarks.medical_kits.choice_rules import (
    Printed,
    medevalkit_choice_prompts,
    medevalkit_rule,
    parse,
    render,
)
from medtune.benchmarks.short_answers.published_tables import part_of, printed_numbers
from medtune.data.files import json_file
from medtune.data.raw.folder import raw_folder
from medtune.data.raw.rows import Row
from medtune.data.raw.source import Place, Source, SourceTable, missing_media, read_rows
from medtune.data.raw.stored_files import StoredFiles, hub_folder, stored_files
from medtune.data.types import MediaRef, Question
from medtune.eval.asking.answerer import AnswerProtocol
from medtune.eval.benchmark import Benchmark
from medtune.eval.metrics.accuracy import metric as accuracy

TEST_QUESTIONS = (88_996,)
"""The number of questions of the open-access part, as two other repositories state it."""

_EXAMPLES = tuple(
    example(number, text, answer, *options, task=task, modality=modality, set="Invented set")
    for number, (task, modality, text, answer, options) in enumerate(
        (
            ("Modality Recognition", "X-Ray", "What kind of image is this?", "X-ray", ("CT", "X-ray", "MRI", "PET")),
            ("Disease Diagnosis", "Dermoscopy", "Is the spot malignant?", "No", ("No", "Yes")),
            ("Lesion Grading", "Fundus Photography", "Which grade is it?", "mild", ("none", "mild", "severe")),
        )
    )
)
URL = "https://huggingface.co/datasets/foreverbeliever/OmniMedVQA"
ARCHIVE = "OmniMedVQA.zip"
TABLES = "QA_information/Open-access"
RESTRICTED = "QA_information/Restricted-access"
STATED = "gt_answer"
"""The name under which a question keeps the stated answer where it is not an option character by character."""
_INSIDE = "OmniMedVQA"
_LETTERS = ascii_uppercase[:4]
_MODALITIES = ("modality_type", "modality")
_WORDS = re.compile(r"[\W_]+")


def benchmark() -> Benchmark:
    rules = {"medevalkit": medevalkit_rule("utils/OmniMedVQA/OmniMedVQA.py", _as_printed, takes_tags=True)}
    printed = printed_numbers("omnimedvqa", rules, {"accuracy": accuracy()})
    return Benchmark(
        title="OmniMedVQA",
        version="1.0",
        licence="of each of its source sets; the release states none of its own",
        url=URL,
        citation="Hu Y, Li T, Lu Q, et al. OmniMedVQA. CVPR 2024, arXiv:2402.09181.",
        sources=("omnimedvqa",),
        facets=("task", "modality", "set"),
        render=render,
        parsers={"robust": parse},
        metrics={"accuracy": accuracy()},
        examples=_EXAMPLES,
        official=medevalkit_choice_prompts(_as_printed),
        tables=printed.tables,
        published_tables=printed.published_tables,
        rules=rules,
        missing=part_of(TEST_QUESTIONS),
        protocol=AnswerProtocol(0.0, repeats=1, max_new_tokens=8192, source="MedEvalKit@9b12e3b, eval.sh"),
    )


def _as_printed(question: Question) -> Printed:
    """Returns the choices as MedEvalKit prints them, and the letter of the last option that equals the stated answer.

    Where no option equals it character by character, the stated answer itself is the truth, which the kit's letters
    never reach.
    """
    letters = ascii_uppercase[: len(question.options)]
    stated = question.printed.get(STATED, question.answer)
    equal = [letter for letter, option in zip(letters, question.options, strict=True) if option == stated]
    choices = tuple(f"{letter}. {option}" for letter, option in zip(letters, question.options, strict=True))
    return Printed(choices, equal[-1] if equal else stated)


def omnimedvqa() -> Source:
    """OmniMedVQA: the JSON files of the open-access part, one for each source set, and the images at their paths."""
    return Source(
        title="OmniMedVQA, open-access part",
        licence="of each of its source sets; the release states none of its own",
        url=URL,
        provenance="released",
        patient_unit="the image, because the release names no patients",
        read=_read,
        read_questions=partial(_read, needs_media=False),
        read_hub=lambda hub, seed, scratch: _read(hub_folder(hub, (ARCHIVE,)), seed, scratch),
        test_only=True,
    )


@dataclass(slots=True)
class _Reader:
    images: StoredFiles
    needs_media: bool
    media: dict[str, tuple[MediaRef, ...]] = field(default_factory=dict)
    ids: set[str] = field(default_factory=set)
    counts: Counter[str] = field(default_factory=Counter)

    def question(self, row: Row) -> Question:
        options = _options(row)
        answer = self._answer(row, options)
        image = _text(row, "image_path")
        if image not in self.media:
            self.media[image] = (self.images.image(image, row.place, "image_path", needed=self.needs_media),)
        said = row.values.get(STATED)
        return Question(
            id=self._id(row),
            media_id=image,
            text=_text(row, "question"),
            options=options,
            answer=answer,
            answer_kind="choice",
            patient_id=image,
            facets={"task": _text(row, "question_type"), "modality": self._modality(row), "set": _text(row, "dataset")},
            printed={} if said in options else {STATED: str(said)},
        )

    def _id(self, row: Row) -> str:
        said = _text(row, "question_id")
        if said in self.ids:
            self.counts["rows have an id that an earlier row has too"] += 1
            said = f"{said} {row.place.file} {row.place.row}"
        self.ids.add(said)
        return said

    def _answer(self, row: Row, options: Sequence[str]) -> str:
        stated = _text(row, STATED)
        if len(set(options)) < len(options):
            self.counts["questions have two equal options; either counts as right where it is the answer"] += 1
        if stated in options:
            return stated
        alike = {option for option in options if _without_marks(option) == _without_marks(stated)}
        if len(alike) != 1:
            raise row.place.error(f"{stated!r} is none of the options {', '.join(map(repr, options))}", field=STATED)
        self.counts["answers are an option but for capitals and punctuation, which is taken"] += 1
        return alike.pop()

    def _modality(self, row: Row) -> str:
        name = next((name for name in _MODALITIES if name in row.values), _MODALITIES[0])
        self.counts["rows state their modality in the field 'modality'"] += name == _MODALITIES[1]
        return _text(row, name)


def _read(root: Path | None, seed: int, scratch: Path, *, needs_media: bool = True) -> SourceTable:
    folder = raw_folder(root, holds=f"OmniMedVQA's {TABLES} and Images, or {ARCHIVE}")
    if (folder / _INSIDE / TABLES).is_dir():
        folder /= _INSIDE
    images = stored_files(folder, ("",), (ARCHIVE,), scratch)
    tables = images.listed(TABLES, ".json")
    if not tables:
        raise FileNotFoundError(f"{folder}: wanted {TABLES}/*.json or {ARCHIVE}, found neither. See {URL}.")
    reader = _Reader(images, needs_media)
    read = read_rows((row for name in tables for row in _rows(images, name)), reader.question)
    notes = [f"{count:,} {what}" for what, count in sorted(reader.counts.items()) if count]
    if (folder / RESTRICTED).is_dir():
        notes.append("the restricted-access part is left out: the release does not hold its images")
    missing = missing_media(read.rejects, folder, fetch=URL)
    return SourceTable(read.taken, reader.media, tuple(notes), read.rejects, missing, stands_for_patient="image")


def _rows(images: StoredFiles, name: str) -> Iterator[Row]:
    path = images.find(name)
    if path is None:
        raise FileNotFoundError(f"{images.root / name}: this table is missing.")
    for number, values in enumerate(json_file(path, list, "a JSON list of questions"), start=1):
        yield Row(Place(path.name, number), values if isinstance(values, Mapping) else {})


def _options(row: Row) -> tuple[str, ...]:
    found = [str(row.values.get(f"option_{letter}") or "").strip() for letter in _LETTERS]
    while found and not found[-1]:
        found.pop()
    if len(found) < 2 or not all(found):
        raise row.place.error("wanted two to four options, without gaps between them", field=f"option_{_LETTERS[0]}")
    return tuple(found)


def _text(row: Row, column: str) -> str:
    said = row.values.get(column)
    if isinstance(said, bool) or not isinstance(said, str | int | float) or not str(said).strip():
        raise row.place.error(f"wanted a text, got {said!r}", field=column)
    return str(said).strip()


def _without_marks(text: str) -> str:
    return _WORDS.sub("", text.casefold())
