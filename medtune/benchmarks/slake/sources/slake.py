"""Reads SLAKE 1.0 as released: train, validate (or validation) and test.json with the images in imgs/ or imgs.zip.

Each language is split by image without overlap, but the splits of the two languages differ, so that both together share
images between train, validation and test. The official split is kept.

Source: Liu et al. 2021, arXiv 2102.09542; hub card of BoKelvin/SLAKE.
"""

import zipfile
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

from medtune.benchmarks.short_answers.released_answers import (
    RELEASED,
    ReleasedRow,
    released_answer,
    released_rows,
    tidy,
)
from medtune.data.raw.folder import raw_folder
from medtune.data.raw.media_bytes import hub_folder
from medtune.data.raw.row_errors import read_rows
from medtune.data.raw.source import Source, SourceTable, missing_media
from medtune.data.types import MediaRef, Question, Split

FILES: Sequence[tuple[tuple[str, ...], Split]] = (
    (("train.json",), "train"),
    (("validate.json", "validation.json"), "val"),
    (("test.json",), "test"),
)
IMAGES, ARCHIVE = "imgs", "imgs.zip"
HUB_FILES = (*(name for names, _ in FILES for name in names), ARCHIVE)
"""The files of the hub's repository that are read; of two names for one file only one is there."""
URL = "https://huggingface.co/datasets/BoKelvin/SLAKE"
LANGUAGES = ("en", "zh")


def slake_source(title: str, languages: Sequence[str]) -> Source:
    return Source(
        title=title,
        licence="CC BY 4.0",
        url=URL,
        provenance="released",
        patient_unit="an image: the release names no patients",
        read=partial(_read, languages),
        read_questions=partial(_read, languages, needs_media=False),
        read_hub=lambda hub, seed, scratch: _read(languages, hub_folder(hub, HUB_FILES), seed, scratch),
        keeps_leaks=len(languages) > 1,
    )


class _Read(NamedTuple):
    question: Question
    media: MediaRef
    is_repaired: bool


def _read(
    languages: Sequence[str], root: Path | None, seed: int, scratch: Path, *, needs_media: bool = True
) -> SourceTable:
    folder = raw_folder(root, holds="train.json, validate.json, test.json and imgs or imgs.zip")
    rows = [row for names, split in FILES for row in released_rows(_first(folder, names), split)]
    asked = [row for row in rows if row.cells.get("q_lang") not in LANGUAGES or row.cells["q_lang"] in languages]
    images = _images(folder, asked, scratch) if needs_media else folder / IMAGES
    taken, rejects = read_rows(asked, lambda row: _question(row, images, needs_media=needs_media))
    missing = missing_media(rejects, folder, fetch=URL) if images.is_relative_to(folder) else ()
    repaired = sum(each.is_repaired for each in taken)
    notes = [f"languages: {', '.join(languages)}; {len(rows) - len(asked):,} questions in another were left out"]
    if repaired:
        notes.append(f"answers repaired (numbers as texts, tabs and blanks): {repaired}")
    return SourceTable(
        [each.question for each in taken],
        {each.question.media_id: (each.media,) for each in taken},
        tuple(notes),
        rejects,
        missing,
        stands_for_patient="image",
    )


def _first(folder: Path, names: Sequence[str]) -> Path:
    return next((folder / name for name in names if (folder / name).is_file()), folder / names[0])


def _images(folder: Path, rows: Sequence[ReleasedRow], scratch: Path) -> Path:
    archive = folder / ARCHIVE
    if (folder / IMAGES).is_dir() or not archive.is_file():
        return folder / IMAGES
    wanted = {f"{prefix}{row.cells.get('img_name')}" for row in rows for prefix in ("", f"{IMAGES}/")}
    try:
        with zipfile.ZipFile(archive) as opened:
            for name in wanted & set(opened.namelist()):
                # `extract` keeps every path inside of the folder.
                opened.extract(name, scratch)
    except zipfile.BadZipFile as error:
        raise ValueError(f"{archive}: broken archive ({error}). Download it again.") from None
    return scratch / IMAGES if (scratch / IMAGES).is_dir() else scratch


def _question(row: ReleasedRow, images: Path, *, needs_media: bool) -> _Read:
    name, language, kind = row.text("img_name"), row.text("q_lang"), row.text("answer_type")
    if language not in LANGUAGES:
        raise row.place.error(f"wanted en or zh, got {language!r}.", field="q_lang")
    if kind not in ("OPEN", "CLOSED"):
        raise row.place.error(f"wanted OPEN or CLOSED, got {kind!r}.", field="answer_type")
    path = images / name
    if Path(name).is_absolute() or ".." in Path(name).parts:
        raise row.place.error("wanted the path of a file in the folder of images.", field="img_name")
    if needs_media and not path.is_file():
        raise row.place.error("there is no such image file. Copy it.", field="img_name", media=path)
    cell = row.cells.get("answer")
    answer = released_answer(cell, is_closed=kind == "CLOSED", place=row.place)
    question = Question(
        id=f"{row.place.file}, row {row.place.row}",
        media_id=name,
        text=row.text("question"),
        options=answer.options,
        answer=answer.text,
        answer_kind=answer.kind,
        patient_id=name,
        facets={
            "task": answer.task,
            "language": language,
            "content": row.text("content_type").lower(),
            "modality": row.text("modality"),
            "organ": row.text("location").lower().replace("_", " "),
            "knowledge": "yes" if row.text("base_type") == "kvqa" else "no",
        },
        split=row.split,
        printed={RELEASED: str(cell)},
    )
    return _Read(question, MediaRef(path), cell != tidy(cell))


def slake() -> Source:
    """SLAKE's questions in both languages, whose official splits share images with one another."""
    return slake_source("SLAKE, English and Chinese", LANGUAGES)


def slake_en() -> Source:
    """SLAKE's English questions, whose official split shares no image."""
    return slake_source("SLAKE, English", ("en",))


def slake_zh() -> Source:
    """SLAKE's Chinese questions, whose official split shares no image."""
    return slake_source("SLAKE, Chinese", ("zh",))
