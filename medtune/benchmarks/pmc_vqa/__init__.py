"""PMC-VQA, multiple-choice questions about figures of open-access medical articles, made by a language model.

Two versions of the release exist, whose questions, figures and columns differ; each question says which it is from.

    train.csv, test.csv, test_clean.csv    version 1: Figure_path, Question, Answer (the text), Choice A to D,
                                           Answer_label
    train_2.csv, test_2.csv                version 2: index, Figure_path, Caption, Question, Choice A to D, Answer (the
                                           letter), split
    images.zip, images_2.zip               or the folders images, images_2, figures that they were unpacked into

The caption of version 2 often gives the answer away. It is never read into a question.

Source: Zhang et al., PMC-VQA, arXiv 2305.10415; hub data set RadGenome/PMC-VQA (its card and files);
MedEvalKit@9b12e3b, utils/PMC_VQA/PMC_VQA.py:36-50.
"""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path, PurePosixPath
from string import ascii_uppercase
from typing import NamedTuple

from medtune.benchmarks import example
from medtune.benchmarks.medical_kits.choice_rules import (
    Printed,
    medevalkit_choice_prompts,
    medevalkit_rule,
    parse,
    render,
)
from medtune.benchmarks.short_answers.published_tables import MISSING_SHARE, printed_numbers
from medtune.data.raw.folder import raw_folder
from medtune.data.raw.rows import Row
from medtune.data.raw.source import Reject, Source, SourceTable, missing_media, read_rows
from medtune.data.raw.stored_files import StoredFiles, hub_folder, stored_files
from medtune.data.raw.table_rows import file_rows
from medtune.data.types import MediaRef, Question, Split
from medtune.eval.asking.answerer import AnswerProtocol
from medtune.eval.benchmark import Benchmark
from medtune.eval.metrics.accuracy import metric as accuracy

RELEASE = "release"

URL = "https://huggingface.co/datasets/RadGenome/PMC-VQA"
LICENCE = "CC BY-SA 4.0 (questions), as its card says; figures as their articles state"
LETTERS = ascii_uppercase[:4]
CHOICES = tuple(f"Choice {letter}" for letter in LETTERS)
TASK = "figure"
LETTER = "letter"
"""The name under which a question keeps the letter of its answer, as printed."""
_PREFIX = re.compile(r"\s*([A-D])\s*[:.)]\s*")
_FIGURE = re.compile(r"_F(?:ig)?\d", re.I)
_FOLDERS = ("images_2", "figures", "images", "")


def benchmark() -> Benchmark:
    rules = {"medevalkit": medevalkit_rule("utils/PMC_VQA/PMC_VQA.py", _as_printed, takes_tags=False)}
    printed = printed_numbers("pmc_vqa", rules, {"accuracy": accuracy()}, facet=RELEASE)
    return Benchmark(
        title="PMC-VQA",
        version="1.0",
        licence=LICENCE,
        url=URL,
        citation="Zhang X, Wu C, Zhao Z, et al. PMC-VQA: Visual Instruction Tuning for Medical VQA. arXiv:2305.10415.",
        sources=("pmc_vqa_2", "pmc_vqa", "pmc_vqa_clean"),
        facets=("task", RELEASE),
        render=render,
        parsers={"robust": parse},
        metrics={"accuracy": accuracy()},
        examples=_EXAMPLES,
        official=medevalkit_choice_prompts(_as_printed),
        tables=printed.tables,
        published_tables=printed.published_tables,
        rules=rules,
        missing=_missing,
        protocol=AnswerProtocol(0.0, repeats=1, max_new_tokens=8192, source="MedEvalKit@9b12e3b, eval.sh"),
    )


def _as_printed(question: Question) -> Printed:
    if not question.printed:
        letter = LETTERS[question.options.index(question.answer)]
        return Printed(tuple(f" {x}:{y} " for x, y in zip(LETTERS, question.options, strict=False)), letter)
    choices = tuple(question.printed[column] for column in CHOICES if column in question.printed)
    return Printed(choices, question.printed[LETTER])


def _missing(questions: Sequence[Question]) -> str:
    for release, count in Counter(question.facets.get(RELEASE, "") for question in questions).items():
        wanted = _TEST_QUESTIONS.get(release, 0)
        if count < (1 - MISSING_SHARE) * wanted:
            return f"{count:,} of the {wanted:,} of {release}"
    return ""


class Version(NamedTuple):
    """One version of the release, with the test file that is taken."""

    release: str  # The level of the facet "release".
    train: str  # The file of the training rows; it may be missing.
    test: str
    # The archives that may hold the images; on the hub the first one does. MedEvalKit's script renames images_2.zip to
    # images.zip.
    archives: tuple[str, ...]
    letter_in: str
    text_in: str = ""  # The column that holds the text of the answer; "" where there is none.

    @property
    def hub_files(self) -> tuple[str, ...]:
        """The files of the hub's repository that are downloaded."""
        return (self.train, self.test, self.archives[0])

    @property
    def columns(self) -> tuple[str, ...]:
        return ("Figure_path", "Question", *CHOICES, *filter(None, (self.letter_in, self.text_in)))


V1 = Version("v1 test", "train.csv", "test.csv", ("images.zip",), "Answer_label", "Answer")
V1_CLEAN = V1._replace(release="v1 test_clean", test="test_clean.csv")
V2 = Version("v2 test_2", "train_2.csv", "test_2.csv", ("images_2.zip", "images.zip"), "Answer")
_SOURCES = {V2.test: "pmc_vqa_2", V1.test: "pmc_vqa", V1_CLEAN.test: "pmc_vqa_clean"}


@dataclass(slots=True)
class _Reader:
    version: Version
    images: StoredFiles
    needs_media: bool
    media: dict[str, tuple[MediaRef, ...]] = field(default_factory=dict)
    counts: Counter[str] = field(default_factory=Counter)

    def question(self, row: Row, split: Split) -> Question:
        figure = row.text("Figure_path")
        options = _options(row)
        answer, letter = self._answer(row, options)
        if len(set(options)) < len(options):
            self.counts["questions have two equal options; either counts as right where it is the answer"] += 1
        if figure not in self.media:
            self.media[figure] = (self.images.image(figure, row.place, "Figure_path", needed=self.needs_media),)
        return Question(
            id=f"{row.place.file} {row.place.row}",
            media_id=figure,
            text=row.text("Question"),
            options=options,
            answer=answer,
            answer_kind="choice",
            patient_id=article_of(figure),
            facets={"task": TASK, "release": self.version.release},
            split=split,
            printed={column: str(row.values[column] or "") for column in CHOICES[: len(options)]} | {LETTER: letter},
        )

    def _answer(self, row: Row, options: Sequence[str]) -> tuple[str, str]:
        said = row.text(self.version.letter_in)
        place = LETTERS.find(said.upper()) if len(said) == 1 else -1
        text = str(row.values[self.version.text_in] or "").strip() if self.version.text_in else ""
        if not 0 <= place < len(options):
            if text not in options:
                raise row.place.error(f"{said!r} is the letter of none of the options", field=self.version.letter_in)
            self.counts["questions state no letter of an option, and their answer's text counts"] += 1
            place = options.index(text)
        elif text and text.casefold() != options[place].casefold():
            self.counts["questions have an answer in words that is not the option of its letter, which counts"] += 1
        return options[place], LETTERS[place]


def source_of(version: Version) -> Source:
    return Source(
        title=f"PMC-VQA, {version.release}",
        licence=LICENCE,
        url=URL,
        provenance="released",
        patient_unit="the article that a figure is from, because no patients are named",
        read=lambda root, seed, scratch: read_version(version, root, scratch),
        read_questions=lambda root, seed, scratch: read_version(version, root, scratch, needs_media=False),
        read_hub=lambda hub, seed, scratch: read_version(version, hub_folder(hub, version.hub_files), scratch),
        keeps_leaks=True,
    )


def read_version(version: Version, root: Path | None, scratch: Path, *, needs_media: bool = True) -> SourceTable:
    """Returns the questions of one version. The options keep the order of the files."""
    folder = raw_folder(root, holds=f"PMC-VQA's {version.test} and its images")
    if not (folder / version.test).is_file():
        there = ", ".join(sorted(path.name for path in folder.glob("*.csv"))) or "no .csv file"
        others = "".join(
            f" --source {name} reads {file}." for file, name in _SOURCES.items() if (folder / file).is_file()
        )
        raise FileNotFoundError(f"{folder / version.test}: this table is missing; there is {there}.{others} See {URL}.")
    here = next((name for name in _FOLDERS if (folder / name).is_dir()), "")
    images = stored_files(folder, (here, *(name for name in _FOLDERS if name != here)), version.archives, scratch)
    reader = _Reader(version, images, needs_media)
    questions, rejects = list[Question](), list[Reject]()
    splits: Mapping[str, Split] = {version.train: "train", version.test: "test"}
    for name, split in splits.items():
        if not (folder / name).is_file():
            continue
        rows = file_rows(folder / name, name=name)
        if lacking := [column for column in version.columns if column not in rows.columns]:
            raise ValueError(
                f"{folder / name}: wanted the columns {', '.join(version.columns)}, there is no {lacking[0]!r} among "
                f"{', '.join(rows.columns)}. Is it a file of the other version?"
            )
        read = read_rows(rows.rows(), partial(reader.question, split=split))
        questions += read.taken
        rejects += read.rejects
    return SourceTable(
        questions,
        reader.media,
        tuple(f"{count:,} {what}" for what, count in sorted(reader.counts.items())),
        tuple(rejects),
        missing_media(rejects, folder, fetch=URL),
        stands_for_patient="article",
    )


def article_of(figure: str) -> str:
    """Returns the article of a figure, which is the unit of splitting: what stands in front of "_F" and a number.

    >>> article_of("PMC1064097_F1.jpg"), article_of("PMC8253797_Fig4_41.jpg"), article_of("scan.png")
    ('PMC1064097', 'PMC8253797', 'scan')
    """
    name = PurePosixPath(figure).name
    found = _FIGURE.search(name)
    return name[: found.start()] if found else PurePosixPath(name).stem


def _options(row: Row) -> tuple[str, ...]:
    cells = [str(row.values[column] or "") for column in CHOICES]
    lettered = all(
        cell.strip()[:1] == letter and _PREFIX.match(cell) for cell, letter in zip(cells, LETTERS, strict=True)
    )
    options = [(_PREFIX.sub("", cell, count=1) if lettered else cell).strip() for cell in cells]
    while options and not options[-1]:
        options.pop()
    if len(options) < 2 or not all(options):
        raise row.place.error("wanted two or more options, without gaps between them", field=CHOICES[len(options) % 4])
    return tuple(options)


def pmc_vqa() -> Source:
    """PMC-VQA, version 1 with its whole test file; medtune/benchmarks/pmc_vqa has the layout."""
    return source_of(V1)


def pmc_vqa_2() -> Source:
    """PMC-VQA, version 2, without compound figures; medtune/benchmarks/pmc_vqa has the layout."""
    return source_of(V2)


def pmc_vqa_clean() -> Source:
    """PMC-VQA, version 1 with the 2,000 test questions that its authors checked by hand."""
    return source_of(V1_CLEAN)


_TEST_QUESTIONS = {V1_CLEAN.release: 2000, V2.release: 33_430}
"""The number of test questions. Source: the card (test_clean); one other repository (test_2)."""
_EXAMPLES = tuple(
    example(version.release, text, answer, *options, task=TASK, release=version.release)
    for version, text, answer, options in (
        (V1, "Which organ does the figure show?", "spleen", ("liver", "spleen", "kidney", "colon")),
        (V1_CLEAN, "Which stain was used?", "PAS", ("H&E", "Gram", "PAS", "Giemsa")),
        (V2, "What does the arrow mark?", "a cyst", ("a cyst", "a stone", "a clip", "a vessel")),
    )
)
