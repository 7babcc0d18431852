"""MedXpertQA MM, expert-level multiple-choice questions about patients with one to six images each.

It is for evaluation alone.

    MM/test.jsonl                the hub's layout: id, question, options {"A": text, ...}, label (a letter), images
                                 [file name], medical_task, body_system, question_type
    medxpertqa_mm_input.jsonl    the layout of the authors' code: options [{letter, content}], label [letter], images
                                 [{image_path}]; it may also lie in eval/data/medxpertqa/input
    images/ or images.zip        the images

Every question of the release ends with its options ("Answer Choices: (A) ... (E) ..."). They are taken off, because
every prompt lists the options, and a kit that does not take them off shows them twice. The five questions of
MM/dev.jsonl are examples for prompts and are left out.

Source: Zuo et al., MedXpertQA, arXiv 2501.18362; hub data set TsinghuaC3I/MedXpertQA, configuration MM;
TsinghuaC3I/MedXpertQA@f21247d, eval/data/prepare_medxpertqa.ipynb.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from string import ascii_uppercase

from medtune.benchmarks import example
from medtune.benchmarks.medical_kits.choice_rules import (
    lettered,
    medevalkit_choice_prompts,
    medevalkit_rule,
    medxpertqa_rule,
    parse,
    render,
)
from medtune.benchmarks.short_answers.published_tables import part_of, printed_numbers
from medtune.data.json_text import json_value
from medtune.data.raw.folder import raw_folder
from medtune.data.raw.rows import Row
from medtune.data.raw.source import HubId, Place, Source, SourceTable, missing_media, read_rows
from medtune.data.raw.stored_files import StoredFiles, hub_folder, stored_files
from medtune.data.types import MediaRef, Question
from medtune.eval.asking.answerer import AnswerProtocol
from medtune.eval.benchmark import Benchmark
from medtune.eval.metrics.accuracy import metric as accuracy

TEST_QUESTIONS = (2000,)

_OPTIONS = ("a cyst", "a stone", "a clip", "a vessel", "a suture")
_FACETS = ("task", "question_type", "body_system", "images")
_EXAMPLES = tuple(
    example(facets[0], text, answer, *_OPTIONS, **dict(zip(_FACETS, facets, strict=True)))
    for text, answer, *facets in (
        ("A man of 40 has pain. What do both images show?", "a stone", "Diagnosis", "Reasoning", "Digestive", "2"),
        ("What does the arrow point to?", "a vessel", "Basic Science", "Understanding", "Digestive", "1"),
    )
)
URL = "https://huggingface.co/datasets/TsinghuaC3I/MedXpertQA"
CONFIG = "MM"
TEST = "MM/test.jsonl"
FILES = (TEST, "test.jsonl", "medxpertqa_mm_input.jsonl", "eval/data/medxpertqa/input/medxpertqa_mm_input.jsonl")
"""The files that hold the test questions; the first that is there is read."""
ARCHIVE = "images.zip"
CHOICES = "Answer Choices:"


def benchmark() -> Benchmark:
    rules = {
        "medxpertqa": medxpertqa_rule(),
        "medevalkit": medevalkit_rule("utils/MedXpertQA/MedXpertQA.py", lettered, takes_tags=True),
    }
    printed = printed_numbers("medxpertqa_mm", rules, {"accuracy": accuracy()})
    return Benchmark(
        title="MedXpertQA MM",
        version="1.0",
        licence="MIT",
        url=URL,
        citation="Zuo Y, Qu S, Li Y, et al. MedXpertQA. ICML 2025, arXiv:2501.18362.",
        sources=("medxpertqa_mm",),
        facets=("task", "question_type", "body_system", "images"),
        render=render,
        parsers={"robust": parse},
        metrics={"accuracy": accuracy()},
        examples=_EXAMPLES,
        official=medevalkit_choice_prompts(lettered),
        tables=printed.tables,
        published_tables=printed.published_tables,
        rules=rules,
        missing=part_of(TEST_QUESTIONS),
        protocol=AnswerProtocol(
            0.0, repeats=1, max_new_tokens=2048, source="TsinghuaC3I/MedXpertQA@f21247d, eval/model/api_agent.py"
        ),
    )


def medxpertqa_mm() -> Source:
    """MedXpertQA MM: the hub's JSON lines or the authors' own file, and one to six images for each question."""
    return Source(
        title="MedXpertQA MM",
        licence="MIT",
        url=URL,
        provenance="released",
        patient_unit="the question, because each is about a patient of its own",
        read=_read,
        read_questions=partial(_read, needs_media=False),
        read_hub=_read_hub,
        test_only=True,
    )


@dataclass(slots=True)
class _Reader:
    images: StoredFiles
    needs_media: bool
    media: dict[str, tuple[MediaRef, ...]] = field(default_factory=dict)
    counts: Counter[str] = field(default_factory=Counter)

    def question(self, row: Row) -> Question:
        number, options = row.text("id"), _options(row)
        label = row.values.get("label")
        letter = label[0] if isinstance(label, list) and len(label) == 1 else label
        if not isinstance(letter, str) or letter not in options:
            raise row.place.error(f"wanted one of the letters {', '.join(options)}, got {label!r}", field="label")
        names = _image_names(row)
        if number in self.media:
            raise row.place.error("an earlier row has this id too", field="id")
        self.media[number] = tuple(
            self.images.image(name, row.place, "images", needed=self.needs_media) for name in names
        )
        return Question(
            id=number,
            media_id=number,
            text=self._question_text(row, options),
            options=tuple(options.values()),
            answer=options[letter],
            answer_kind="choice",
            patient_id=number,
            facets={
                "task": row.text("medical_task"),
                "question_type": row.text("question_type"),
                "body_system": row.text("body_system"),
                "images": str(len(names)),
            },
        )

    def _question_text(self, row: Row, options: Mapping[str, str]) -> str:
        said = row.text("question")
        asked, mark, listed = said.rpartition(CHOICES)
        wanted = " ".join(f"({letter}) {text}" for letter, text in options.items())
        if mark and asked.strip() and " ".join(listed.split()) == " ".join(wanted.split()):
            self.counts["questions end with their options, which were taken off: prompts list them"] += 1
            return asked.strip()
        self.counts["questions do not end with their options, and were taken as they are"] += 1
        return said


def _read_hub(hub: HubId, seed: int, scratch: Path) -> SourceTable:
    if hub.config not in (None, CONFIG):
        raise ValueError(f"{hub}: wanted the configuration {CONFIG}, the other has no images.")
    return _read(hub_folder(hub._replace(config=None), (TEST, ARCHIVE)), seed, scratch)


def _read(root: Path | None, seed: int, scratch: Path, *, needs_media: bool = True) -> SourceTable:
    folder = raw_folder(root, holds=f"MedXpertQA's {TEST} and images")
    name = next((name for name in FILES if (folder / name).is_file()), None)
    if name is None:
        raise FileNotFoundError(f"{folder}: wanted one of {', '.join(FILES)}, found none. See {URL}.")
    reader = _Reader(stored_files(folder, ("images", "MM/images", ""), (ARCHIVE,), scratch), needs_media)
    read = read_rows(_rows(folder / name, name), reader.question)
    return SourceTable(
        read.taken,
        {question.media_id: reader.media[question.media_id] for question in read.taken},
        tuple(f"{count:,} {what}" for what, count in sorted(reader.counts.items())),
        read.rejects,
        missing_media(read.rejects, folder, fetch=URL),
        stands_for_patient="question",
    )


def _rows(path: Path, name: str) -> Iterator[Row]:
    for number, line in enumerate(path.read_text("utf-8").split("\n"), start=1):
        if not line.strip():
            continue
        try:
            values = json_value(line)
        except ValueError as error:
            raise ValueError(f"{path}, line {number}: broken JSON ({error}). Download the file again.") from error
        yield Row(Place(name, number), values if isinstance(values, Mapping) else {})


def _options(row: Row) -> dict[str, str]:
    said = row.values.get("options")
    if isinstance(said, list):
        said = {each.get("letter"): each.get("content") for each in said if isinstance(each, Mapping)}
    letters = list(said) if isinstance(said, Mapping) else []
    if not isinstance(said, Mapping) or len(letters) < 2 or letters != list(ascii_uppercase[: len(letters)]):
        raise row.place.error(f"wanted two or more options with the letters A, B, ..., got {said!r}", field="options")
    if not all(isinstance(text, str) and text.strip() for text in said.values()):
        raise row.place.error("wanted a text for each option", field="options")
    return {letter: text.strip() for letter, text in said.items()}


def _image_names(row: Row) -> list[str]:
    said = row.values.get("images")
    names = (
        [each.get("image_path") if isinstance(each, Mapping) else each for each in said]
        if isinstance(said, list)
        else []
    )
    if not names or not all(isinstance(name, str) and name for name in names):
        raise row.place.error(f"wanted a list of one or more images, got {said!r}", field="images")
    return [str(name) for name in names]
