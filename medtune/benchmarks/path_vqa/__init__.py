"""PathVQA, questions on pathology images that were made from the captions of textbooks: about half of them yes or no.

Layouts: a copy of the hub's parquet repository; or pvqa_train.json, pvqa_val.json and pvqa_test.json ({"img_id",
"sentf": {"pvqa": [questions]}, "labelf": {"pvqa": [{answer: 1}]}}), and the images as images/PART/IMG_ID.jpg or
images/IMG_ID.jpg. The original pickle files are not read, because unpickling runs code.

Source: He et al. 2020, arXiv 2003.10286; UCSD-AI4H/PathVQA@dd51804, baselines/method1/saved/lxmert; hub card of
flaviagiammarino/path-vqa.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

from medtune.benchmarks import example
from medtune.benchmarks.medical_kits.medevalkit_sets import counted_by_words
from medtune.benchmarks.short_answers.hub_copies import hub_form_table, is_hub_copy
from medtune.benchmarks.short_answers.kit_prompts import prompts_by_words
from medtune.benchmarks.short_answers.kit_rules import llava_med_rules, medevalkit_rules, pathvqa_rule
from medtune.benchmarks.short_answers.parser import judge_task, metrics, parse, render
from medtune.benchmarks.short_answers.published_tables import part_of, printed_numbers
from medtune.benchmarks.short_answers.released_answers import (
    ReleasedQuestion,
    ReleasedRow,
    answer_table,
    asked,
    released_rows,
    tidy,
)
from medtune.data.raw.folder import raw_folder
from medtune.data.raw.source import HubId, Source, SourceTable, missing_media, read_rows
from medtune.data.types import SPLITS, Split
from medtune.eval.asking.answerer import AnswerProtocol
from medtune.eval.benchmark import Benchmark

TEST_QUESTIONS = (6719, 6761)
"""The official test questions on the hub, without repeated ones, and in the repository's files."""

_MEDEVALKIT = "the letters of yes and no count, so that normal is a no"
_EXAMPLES = (
    example(1, "Is necrosis seen?", "yes", "yes", "no", task="yes_no", asks="is"),
    example(2, "Does the section show fat?", "no", "yes", "no", task="yes_no", asks="does"),
    example(3, "What do the arrows mark?", "giant cells", task="open", asks="what"),
)
FILES: Sequence[tuple[str, Split]] = (
    ("pvqa_train.json", "train"),
    ("pvqa_val.json", "val"),
    ("pvqa_test.json", "test"),
)
HUB_ROWS = (19_654, 6259, 6719)
"""The train, validation and test rows of the hub's copy. Source: hub card of flaviagiammarino/path-vqa."""
IMAGES, SUFFIX, KEY = "images", ".jpg", "pvqa"
URL = "https://github.com/UCSD-AI4H/PathVQA"


def benchmark() -> Benchmark:
    """Returns the benchmark, whose primary metric is the accuracy of yes/no questions."""
    rules = {
        **medevalkit_rules("path_vqa", counted_by_words, "utils/PATH_VQA/PATH_VQA.py", _MEDEVALKIT),
        **llava_med_rules(),
        **pathvqa_rule(),
    }
    printed = printed_numbers("path_vqa", rules, metrics(), judged=True)
    return Benchmark(
        title="PathVQA",
        version="1.0",
        licence="MIT (questions); images and captions belong to the publishers of two textbooks and to PEIR",
        url="https://github.com/UCSD-AI4H/PathVQA",
        citation=(
            "He X, Zhang Y, Mou L, Xing E, Xie P. PathVQA: 30000+ questions for medical visual question answering. "
            "arXiv:2003.10286 (2020)."
        ),
        sources=("path_vqa",),
        facets=("task", "asks"),
        render=render,
        parsers={"stated": parse},
        metrics=metrics(),
        examples=_EXAMPLES,
        rules=rules,
        tables=printed.tables,
        published_tables=printed.published_tables,
        judging=judge_task(),
        official=prompts_by_words(),
        protocol=AnswerProtocol(
            0.0, repeats=1, max_new_tokens=8192, source="alibaba-damo-academy/MedEvalKit@9b12e3b, eval.sh"
        ),
        missing=part_of(TEST_QUESTIONS),
    )


def path_vqa() -> Source:
    """PathVQA in the JSON form of its own repository, or a copy of the hub's parquet repository."""
    return Source(
        title="PathVQA",
        licence="MIT (repository); images and captions belong to the publishers of two textbooks and to PEIR",
        url=URL,
        provenance="released",
        patient_unit="an image: the release names no patients, and figures of one case may be several images",
        read=_read,
        read_questions=partial(_read, needs_media=False),
        read_hub=_read_hub,
    )


class _ListedAnswer(NamedTuple):
    row: ReleasedRow
    number: int
    text: object
    answer: object


def _read(root: Path | None, seed: int, scratch: Path, *, needs_media: bool = True) -> SourceTable:
    folder = raw_folder(root, holds=f"{', '.join(name for name, _ in FILES)} and the folder {IMAGES}")
    if is_hub_copy(folder):
        return _read_hub(folder, seed, scratch)
    rows = [row for name, split in FILES for row in released_rows(folder / name, split)]
    read = read_rows(rows, lambda row: list(_questions(row)))
    listed = [each for of_image in read.taken for each in of_image]
    taken = read_rows(listed, lambda each: _question(each, folder / IMAGES, needs_media=needs_media))
    rejects = (*read.rejects, *taken.rejects)
    note = f"questions by the release's files: {len(listed):,} about {len(read.taken):,} listed images"
    missing = missing_media(rejects, folder, fetch=URL)
    repaired = "answers repaired (tabs and blanks at the ends)"
    return answer_table(taken.taken, (note,), rejects, missing, repaired=repaired)


def _read_hub(origin: HubId | Path, seed: int, scratch: Path) -> SourceTable:
    return hub_form_table(
        origin, scratch, facets=lambda text: {"asks": first_word(text)}, notes=lambda counts: (hub_note(counts),)
    )


def hub_note(counts: Mapping[Split, int]) -> str:
    """Returns whether the numbers of rows are those of the hub's copy.

    >>> hub_note({"train": 19654, "val": 6259, "test": 6719})
    'release: 32,632 questions, as on the hub: without the repeated rows of the repository'
    >>> hub_note({"train": 20, "test": 3})
    'release: unknown, with 20 train, 0 val and 3 test rows, where the hub has 19,654, 6,259 and 6,719'
    """
    train, val, test = (counts.get(split, 0) for split in SPLITS)
    if (train, val, test) == HUB_ROWS:
        return f"release: {sum(HUB_ROWS):,} questions, as on the hub: without the repeated rows of the repository"
    wanted = "{:,}, {:,} and {:,}".format(*HUB_ROWS)
    return f"release: unknown, with {train:,} train, {val:,} val and {test:,} test rows, where the hub has {wanted}"


def _questions(row: ReleasedRow) -> Iterator[_ListedAnswer]:
    texts, answers = _listed(row, "sentf"), _listed(row, "labelf")
    if len(texts) != len(answers):
        raise row.place.error(f"there are {len(texts)} questions and {len(answers)} answers.", field="labelf")
    for number, (text, answer) in enumerate(zip(texts, answers, strict=True), start=1):
        yield _ListedAnswer(row, number, text, next(iter(answer), None) if isinstance(answer, dict) else answer)


def _listed(row: ReleasedRow, column: str) -> Sequence[object]:
    held = row.cells.get(column)
    listed = held.get(KEY) if isinstance(held, Mapping) else None
    if not isinstance(listed, list):
        raise row.place.error(f'wanted an object with a list "{KEY}".', field=column)
    return listed


def _question(one: _ListedAnswer, images: Path, *, needs_media: bool) -> ReleasedQuestion:
    name, place, text = one.row.text("img_id"), one.row.place, tidy(one.text)
    if not text:
        raise place.error("wanted a question, got an empty one.", field="sentf")
    if Path(name).name != name:
        raise place.error("wanted the name of an image in the folder of images.", field="img_id")
    paths = [images / name.partition("_")[0] / f"{name}{SUFFIX}", images / f"{name}{SUFFIX}"]
    path = next((each for each in paths if each.is_file()), paths[0])
    if needs_media and not path.is_file():
        raise place.error("there is no such image file. Copy it.", field="img_id", media=path)
    return asked(
        one.answer,
        is_closed=None,
        text=text,
        image=name,
        path=path,
        facets={"asks": first_word(text)},
        place=place,
        split=one.row.split,
        field="labelf",
        part=f", question {one.number}",
    )


def first_word(text: str) -> str:
    """Returns the first word of a question, which tells its kind, or "other" if few questions begin with it.

    >>> first_word("What is shown?"), first_word("Does this show it?"), first_word("By which way?")
    ('what', 'does', 'other')
    """
    word = text.partition(" ")[0].lower()
    return word if word in ("what", "where", "how", "when", "why", "is", "are", "does", "do") else "other"
