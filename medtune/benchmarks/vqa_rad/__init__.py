"""VQA-RAD, questions on radiology images by clinicians: closed and open ones, about 315 images of head, chest, abdomen.

Closed and open questions are scored apart. The official split is kept; its test images, but for at most one, are
training images too, and every output says so.

Layouts: "VQA_RAD Dataset Public.json" with the images beside it or in "VQA_RAD Image Folder" (a test row has a
phrase_type that begins with "test_"); the enlarged trainset.json and testset.json with the folder images; or a copy of
the hub's repository flaviagiammarino/vqa-rad, without ids and types.

Source: Lau et al. 2018, doi:10.1038/sdata.2018.251; OSF 89kps; hub card of flaviagiammarino/vqa-rad.
"""

from collections import Counter
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from medtune.benchmarks import example
from medtune.benchmarks.medical_kits.medevalkit_sets import counted_by_words
from medtune.benchmarks.short_answers.hub_copies import hub_form_table, is_hub_copy
from medtune.benchmarks.short_answers.kit_prompts import prompts_by_words
from medtune.benchmarks.short_answers.kit_rules import llava_med_rules, medevalkit_rules
from medtune.benchmarks.short_answers.parser import judge_task, metrics, parse, render
from medtune.benchmarks.short_answers.published_tables import part_of, printed_numbers
from medtune.benchmarks.short_answers.released_answers import (
    CLOSED,
    ReleasedQuestion,
    ReleasedRow,
    answer_table,
    asked,
    is_released_as_closed,
    released_rows,
    tidy,
)
from medtune.data.raw.folder import raw_folder
from medtune.data.raw.source import HubId, Source, SourceTable, missing_media, read_rows
from medtune.data.types import Question, Split
from medtune.eval.asking.answerer import AnswerProtocol
from medtune.eval.benchmark import Benchmark

TEST_QUESTIONS, CLOSED_QUESTIONS = 451, 272
"""The official test questions, and how many of them the release calls closed."""

_MEDEVALKIT = "only answers that are yes or no are closed, of which the letters count, so that normal is a no"
_CHEST, _HEAD = {"organ": "chest", "phrase": "freeform"}, {"organ": "head", "phrase": "frame"}
_EXAMPLES = (
    example(1, "Is the heart enlarged?", "no", "yes", "no", task="yes_no", question_type="size", **_CHEST),
    example(2, "Is it the left or the right lung?", "Left", task="closed", question_type="position", **_CHEST),
    example(3, "Where is the bleeding?", "right temporal lobe", task="open", question_type="position", **_HEAD),
)
PUBLIC = "VQA_RAD Dataset Public.json"
PAIR: tuple[tuple[str, Split], ...] = (("trainset.json", "train"), ("testset.json", "test"))
IMAGES = ("VQA_RAD Image Folder", "images")
RELEASES = {
    (1797, 451): "2,248 questions, as first released (OSF)",
    (1793, 451): "2,244 questions, as on the hub: without 3 repeated rows and a train row that equals a test row",
    (3064, 451): "3,515 questions, enlarged by 1,267 re-framed train questions",
}
"""The known releases by their numbers of train and test rows.

Source: counted in the files and quoted from the hub card of flaviagiammarino/vqa-rad.
"""
TYPES = {
    "MODALITY": "modality", "PLANE": "plane", "ORGAN": "organ", "ABN": "abnormality", "PRES": "presence",
    "PRSE": "presence", "POS": "position", "COLOR": "color", "SIZE": "size", "ATTRIB": "attribute",
    "ATRIB": "attribute", "COUNT": "count", "OTHER": "other",
}  # fmt: skip
_MISSPELT = frozenset({"PRSE", "ATRIB"})
_ORGANS = {"HEAD": "head", "CHEST": "chest", "ABD": "abdomen"}
_TEST = "test_"


def benchmark() -> Benchmark:
    """Returns the benchmark, whose primary metric is the accuracy of closed questions."""
    rules = {
        **medevalkit_rules("vqa_rad", counted_by_words, "utils/VQA_RAD/VQA_RAD.py", _MEDEVALKIT),
        **llava_med_rules(),
    }
    printed = printed_numbers("vqa_rad", rules, metrics(), judged=True)
    return Benchmark(
        title="VQA-RAD",
        version="1.0",
        licence="CC0-1.0",
        url="https://osf.io/89kps",
        citation=(
            "Lau JJ, Gayen S, Ben Abacha A, Demner-Fushman D. A dataset of clinically generated visual questions and "
            "answers about radiology images. Scientific Data 5, 180251 (2018)."
        ),
        sources=("vqa_rad",),
        facets=("task", "question_type", "organ", "phrase"),
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
        missing=_missing,
    )


def _missing(questions: Sequence[Question]) -> str:
    if less := part_of((TEST_QUESTIONS,))(questions):
        return less
    if any(question.facets["task"] == CLOSED for question in questions):
        return ""
    closed = sum(map(is_released_as_closed, questions))
    return f"in the hub's form, in which {closed} are closed, where the printed numbers have {CLOSED_QUESTIONS}"


def vqa_rad() -> Source:
    """VQA-RAD as released: the JSON of OSF, the enlarged JSON pair, or the hub's parquet without ids and types."""
    return Source(
        title="VQA-RAD",
        licence="CC0-1.0",
        url="https://osf.io/89kps",
        provenance="released",
        patient_unit="an image: the release names no patients, and one patient may have several images",
        read=_read,
        read_questions=partial(_read, needs_media=False),
        read_hub=_read_hub,
        keeps_leaks=True,
    )


def _read(root: Path | None, seed: int, scratch: Path, *, needs_media: bool = True) -> SourceTable:
    folder = raw_folder(root, holds=f"{PUBLIC}, or {' and '.join(name for name, _ in PAIR)}, and the images")
    if not (folder / PUBLIC).is_file() and is_hub_copy(folder):
        return _read_hub(folder, seed, scratch)
    rows = _rows(folder)
    images = next((folder / name for name in IMAGES if (folder / name).is_dir()), folder)
    taken, rejects = read_rows(rows, lambda row: _question(row, images, needs_media=needs_media))
    missing = missing_media(rejects, folder, fetch="https://osf.io/89kps")
    counts = Counter(row.split for row in rows)
    note = release_note(counts["train"], counts["test"])
    repaired = "cells repaired (numbers as texts, tabs and blanks, spellings of types)"
    return answer_table(taken, (note,), rejects, missing, repaired=repaired)


def _read_hub(origin: HubId | Path, seed: int, scratch: Path) -> SourceTable:
    return hub_form_table(
        origin,
        scratch,
        facets=lambda text: {},
        notes=lambda counts: (release_note(counts.get("train", 0), counts.get("test", 0)),),
    )


def _rows(folder: Path) -> list[ReleasedRow]:
    is_single = (folder / PUBLIC).is_file()
    rows = (
        _single_rows(folder) if is_single else [r for name, split in PAIR for r in released_rows(folder / name, split)]
    )
    for name, split in PAIR:
        if all(row.split != split for row in rows):
            raise ValueError(
                f"{folder / (PUBLIC if is_single else name)}: the official split {split} is missing, none of "
                f"{len(rows):,} rows is of it. Download the file again (https://osf.io/89kps)."
            )
    return rows


def _single_rows(folder: Path) -> list[ReleasedRow]:
    rows = released_rows(folder / PUBLIC, "train")
    return [row._replace(split="test") if tidy(row.cells.get("phrase_type")).startswith(_TEST) else row for row in rows]


def release_note(num_train: int, num_test: int) -> str:
    """Returns which release the numbers of rows are those of.

    >>> release_note(1793, 451)[:39], release_note(10, 2)
    ('release: 2,244 questions, as on the hub', 'release: unknown, with 10 train and 2 test rows')
    """
    known = RELEASES.get((num_train, num_test))
    return f"release: {known or f'unknown, with {num_train:,} train and {num_test:,} test rows'}"


def _question(row: ReleasedRow, images: Path, *, needs_media: bool) -> ReleasedQuestion:
    name, kind = row.text("image_name"), row.text("answer_type")
    path = images / name
    if path.parent != images:
        raise row.place.error("wanted the name of a file in the folder of images.", field="image_name")
    if needs_media and not path.is_file():
        raise row.place.error("there is no such image file. Copy it.", field="image_name", media=path)
    if kind not in ("OPEN", "CLOSED"):
        raise row.place.error(f"wanted OPEN or CLOSED, got {kind!r}.", field="answer_type")
    found = asked(
        row.cells.get("answer"),
        is_closed=kind == "CLOSED",
        text=row.text("question"),
        image=name,
        path=path,
        facets={
            "question_type": _types(row),
            "organ": _ORGANS.get(row.text("image_organ"), row.text("image_organ").lower()),
            "phrase": row.text("phrase_type").removeprefix(_TEST),
        },
        place=row.place,
        split=row.split,
    )
    return found._replace(repairs=_repairs(row))


def _types(row: ReleasedRow) -> str:
    codes = [code.strip().upper() for code in row.text("question_type").split(",")]
    unknown = [code for code in codes if code not in TYPES]
    if unknown:
        raise row.place.error(f"wanted types among {', '.join(TYPES)}, got {unknown[0]!r}.", field="question_type")
    return "+".join(sorted({TYPES[code] for code in codes}))


def _repairs(row: ReleasedRow) -> int:
    answer, kind = row.cells.get("answer"), row.cells.get("answer_type")
    types = str(row.cells.get("question_type"))
    return sum(
        (
            not isinstance(answer, str) or answer != tidy(answer),
            kind != tidy(kind),
            types != tidy(types).upper() or any(code.strip() in _MISSPELT for code in types.split(",")),
        )
    )
