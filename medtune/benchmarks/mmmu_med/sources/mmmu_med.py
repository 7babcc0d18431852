"""Reads MMMU's five medical subjects from the hub or from a copy of its Parquet files.

    <Subject>/validation-00000-of-00001.parquet    30 questions of each subject, with answers
    <Subject>/test-00000-of-00001.parquet          1,752 questions in all; their answers are "?"
    <Subject>/dev-00000-of-00001.parquet           5 of each, examples for prompts, which are left out
    answer_dict_test.json                          the answers of the test part, if the user has them, in the form of
                                                   answer_dict_val.json: {id: {"question_type", "ground_truth"}}

Columns: id, question, options (a text that holds a Python list), explanation, image_1 to image_7, img_type, answer,
topic_difficulty, question_type, subfield. The explanation is never read into a question.

Source: Yue et al., MMMU, arXiv 2311.16502; hub data set MMMU/MMMU; MMMU-Benchmark/MMMU@bb0b95a,
mmmu/answer_dict_val.json.
"""

import ast
import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from string import ascii_uppercase
from typing import Literal, NamedTuple

from medtune.data.json_text import json_value
from medtune.data.raw.folder import raw_folder
from medtune.data.raw.media_bytes import write_media_bytes
from medtune.data.raw.rows import Row
from medtune.data.raw.source import HubId, Source, SourceTable, read_rows
from medtune.data.raw.table_rows import file_rows, hub_rows
from medtune.data.types import MEDIA_MARK, MediaRef, Question

_PLACEHOLDER = re.compile(r"<image (\d+)>")

Part = Literal["validation", "test"]
URL = "https://huggingface.co/datasets/MMMU/MMMU"
LICENCE = "Apache-2.0"
SUBJECTS = (
    "Basic_Medical_Science",
    "Clinical_Medicine",
    "Diagnostics_and_Laboratory_Medicine",
    "Pharmacy",
    "Public_Health",
)
TEST_ANSWERS = "answer_dict_test.json"
PART, FORM = "part", "form"
LETTER, OTHERS = "letter", "other answers"
"""The names under which a question keeps the letter of its answer, and further right answers as a JSON list."""
_CHOICE = "multiple-choice"
_WITHHELD = ("?", "")


class PlacedImages(NamedTuple):
    text: str  # The question; each mark is the place of an image.
    options: tuple[str, ...]  # The options, which name images in words.
    images: tuple[int, ...]  # The numbers of the images in the order of their places.


def placed_images(text: str, options: Sequence[str]) -> PlacedImages:
    r"""Returns a question with marks in place of its placeholders.

    Every image is shown once, where the text first speaks of it. An image of which only options speak is shown behind
    the text. An image that is spoken of again, or in an option, is shown behind its name.

    >>> placed_images("<image 1> What is it?", ["cyst", "stone"]).text.replace(MEDIA_MARK, "#")
    '# What is it?'
    >>> found = placed_images("Which one follows <image 1>?", ["<image 2>", "<image 3>"])
    >>> found.text.replace(MEDIA_MARK, "#"), found.options, found.images
    ('Which one follows #?\nimage 2: #\nimage 3: #', ('image 2', 'image 3'), (1, 2, 3))
    """
    spoken = Counter(int(number) for part in (text, *options) for number in _PLACEHOLDER.findall(part))
    in_options = {int(number) for option in options for number in _PLACEHOLDER.findall(option)}
    shown: list[int] = []

    def place(found: re.Match[str]) -> str:
        number = int(found[1])
        if number in shown:
            return f"image {number}"
        shown.append(number)
        return f"image {number}: {MEDIA_MARK}" if spoken[number] > 1 or number in in_options else MEDIA_MARK

    said = _PLACEHOLDER.sub(place, text)
    behind = [number for number in sorted(in_options) if number not in shown]
    lines = [said, *(f"image {number}: {MEDIA_MARK}" for number in behind)]
    return PlacedImages("\n".join(lines), tuple(map(named_images, options)), (*shown, *behind))


def named_images(option: str) -> str:
    """Returns an option with its images' names, such as "image 2", in place of placeholders."""
    return _PLACEHOLDER.sub(r"image \1", option)


def source_of(part: Part) -> Source:
    return Source(
        title=f"MMMU, medical subjects, {part}",
        licence=LICENCE,
        url=URL,
        provenance="released",
        patient_unit="the question, because no patients are named",
        read=lambda root, seed, scratch: _read(part, root, scratch),
        read_hub=lambda hub, seed, scratch: _read_hub(part, hub, scratch),
        test_only=True,
    )


@dataclass(slots=True)
class _Reader:
    part: Part
    root: Path
    scratch: Path
    answers: Mapping[str, object]
    media: dict[str, tuple[MediaRef, ...]] = field(default_factory=dict)
    counts: Counter[str] = field(default_factory=Counter)

    def question(self, row: tuple[str, Row]) -> Question:
        subject, read = row
        number = read.text("id")
        is_choice = read.text("question_type") == _CHOICE
        options = _options(read) if is_choice else ()
        placed = placed_images(read.text("question"), options)
        answer, printed = self._answer(read, number, placed.options)
        self.media[number] = self._images(read, placed.images)
        return Question(
            id=number,
            media_id=number,
            text=placed.text,
            options=placed.options,
            answer=answer,
            answer_kind="choice" if is_choice else "text",
            patient_id=number,
            facets={
                "task": subject,
                PART: self.part,
                FORM: "choice" if is_choice else "open",
                "difficulty": str(read.values.get("topic_difficulty") or "not stated"),
                "images": str(len(self.media[number])),
            },
            printed=printed,
        )

    def _answer(self, row: Row, number: str, options: Sequence[str]) -> tuple[str, dict[str, str]]:
        said = self.answers.get(number, row.values.get("answer"))
        truths = _truths(said)
        if not truths or truths[0] in _WITHHELD:
            raise row.place.error("the answer is withheld", field="answer")
        if not options:
            return truths[0], ({OTHERS: json.dumps(truths[1:])} if len(truths) > 1 else {})
        place = ascii_uppercase.find(truths[0]) if len(truths[0]) == 1 else -1
        if not 0 <= place < len(options):
            letters = ", ".join(ascii_uppercase[: len(options)])
            raise row.place.error(f"wanted one of the letters {letters}, got {said!r}", field="answer")
        if len(set(options)) == len(options):
            return options[place], {}
        self.counts["questions have two equal options; either counts as right where it is the answer"] += 1
        return options[place], {LETTER: truths[0]}

    def _images(self, row: Row, spoken: Sequence[int]) -> tuple[MediaRef, ...]:
        there = [n for n in range(1, 8) if row.values.get(f"image_{n}") is not None]
        numbers = spoken or there[:1]
        if unused := set(there) - set(numbers):
            self.counts["images are left out, because their questions do not speak of them"] += len(unused)
        return tuple(MediaRef(self._file(row, f"image_{number}")) for number in numbers)

    def _file(self, row: Row, column: str) -> Path:
        cell = row.values.get(column)
        content = cell.get("bytes") if isinstance(cell, Mapping) else None
        stored = cell.get("path") if isinstance(cell, Mapping) else None
        if isinstance(content, bytes):
            with row.place.reject_broken(self.scratch):
                return write_media_bytes(content, self.scratch)
        if isinstance(stored, str) and (self.root / stored).is_file():
            return self.root / stored
        raise row.place.error("there is no image", field=column)


def _read_hub(part: Part, hub: HubId, scratch: Path) -> SourceTable:
    if hub.config not in (None, *SUBJECTS):
        raise ValueError(f"{hub}: wanted one of the medical subjects {', '.join(SUBJECTS)}, or none for all of them.")
    # Streamed, because the test part is many times larger than the others and would be downloaded with them.
    rows = (
        (subject, row)
        for subject in ((hub.config,) if hub.config else SUBJECTS)
        for rows in hub_rows(hub._replace(config=subject), stream=True)
        if rows.split == part
        for row in rows.rows()
    )
    folder = Path(hub.id)
    answers = _answers(folder) if folder.is_dir() else {}
    return _table(_Reader(part, scratch, scratch, answers), rows, str(hub))


def _read(part: Part, root: Path | None, scratch: Path) -> SourceTable:
    folder = raw_folder(root, holds=f"MMMU's Parquet files, such as {SUBJECTS[3]}/{part}-00000-of-00001.parquet")
    files = [(subject, path) for subject in SUBJECTS for path in sorted((folder / subject).glob(f"{part}-*.parquet"))]
    if not files:
        raise FileNotFoundError(
            f"{folder}: wanted {SUBJECTS[3]}/{part}-*.parquet and the like, found none. The source mmmu_med reads the "
            f"validation part, mmmu_med_test the test part. See {URL}."
        )
    rows = ((subject, row) for subject, path in files for row in file_rows(path, name=f"{subject}/{path.name}").rows())
    table = _table(_Reader(part, folder, scratch, _answers(folder)), rows, str(folder))
    lacking = [subject for subject in SUBJECTS if subject not in {found for found, _ in files}]
    note = (f"not in this folder: {', '.join(lacking)}",) if lacking else ()
    return replace(table, notes=(*table.notes, *note))


def _table(reader: _Reader, rows: Iterator[tuple[str, Row]], where: str) -> SourceTable:
    read = read_rows(rows, reader.question)
    withheld = [reject for reject in read.rejects if reject.reason == "the answer is withheld"]
    if withheld and not read.taken:
        raise ValueError(
            f"{where}: the answers of all {len(withheld)} questions are withheld by MMMU's authors, so nothing could "
            f"be scored. Put {TEST_ANSWERS} beside the subjects if you have the answers, or take the validation part."
        )
    notes = tuple(f"{count:,} {what}" for what, count in sorted(reader.counts.items()))
    media = {question.media_id: reader.media[question.media_id] for question in read.taken}
    return SourceTable(read.taken, media, notes, read.rejects, stands_for_patient="question")


def _answers(folder: Path) -> dict[str, object]:
    file = folder / TEST_ANSWERS
    if not file.is_file():
        return {}
    try:
        said = json_value(file.read_text("utf-8"))
        return {number: each["ground_truth"] for number, each in said.items()}
    except (ValueError, AttributeError, KeyError, TypeError) as error:
        raise ValueError(f'{file}: wanted {{id: {{"ground_truth": answer}}}} ({type(error).__name__}).') from error


def _options(row: Row) -> tuple[str, ...]:
    said = row.values.get("options")
    try:
        read = ast.literal_eval(said) if isinstance(said, str) else said
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        read = None
    if not isinstance(read, list) or len(read) < 2 or not all(isinstance(option, str | int | float) for option in read):
        raise row.place.error(
            f"wanted the text of a Python list with two or more options, got {said!r}", field="options"
        )
    options = tuple(str(option).strip() for option in read)
    if not all(options):
        raise row.place.error("an option is empty", field="options")
    return options


def _truths(said: object) -> list[str]:
    if isinstance(said, str) and said.startswith("["):
        try:
            said = ast.literal_eval(said)
        except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
            return [str(said).strip()]
    return [str(each).strip() for each in said] if isinstance(said, list) else [str(said or "").strip()]


def mmmu_med() -> Source:
    """MMMU's medical subjects, the validation part; medtune/benchmarks/mmmu_med/sources/mmmu_med.py has the layout."""
    return source_of("validation")


def mmmu_med_test() -> Source:
    """MMMU's medical subjects, the test part; medtune/benchmarks/mmmu_med/sources/mmmu_med.py has the layout."""
    return source_of("test")
