"""Reads SLAKE 1.0 as released: train, validate (or validation) and test.json with the images in imgs/ or imgs.zip.

Each language is split by image without overlap, but the splits of the two languages differ, so that both together share
images between train, validation and test. The official split is kept.

Source: Liu et al. 2021, arXiv 2102.09542; hub card of BoKelvin/SLAKE.
"""

from collections.abc import Sequence
from functools import partial
from pathlib import Path

from medtune.benchmarks.short_answers.released_answers import Asked, ReleasedRow, answer_table, asked, released_rows
from medtune.data.raw.folder import raw_folder
from medtune.data.raw.media_bytes import StoredFiles, hub_folder, stored_files
from medtune.data.raw.row_errors import read_rows
from medtune.data.raw.source import Source, SourceTable, missing_media
from medtune.data.types import Split

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


def _read(
    languages: Sequence[str], root: Path | None, seed: int, scratch: Path, *, needs_media: bool = True
) -> SourceTable:
    folder = raw_folder(root, holds="train.json, validate.json, test.json and imgs or imgs.zip")
    rows = [row for names, split in FILES for row in released_rows(_first(folder, names), split)]
    wanted = [row for row in rows if row.cells.get("q_lang") not in LANGUAGES or row.cells["q_lang"] in languages]
    images = stored_files(folder, (IMAGES,), () if (folder / IMAGES).is_dir() else (ARCHIVE,), scratch)
    taken, rejects = read_rows(wanted, lambda row: _question(row, images, needs_media=needs_media))
    note = f"languages: {', '.join(languages)}; {len(rows) - len(wanted):,} questions in another were left out"
    return answer_table(taken, (note,), rejects, missing_media(rejects, folder, fetch=URL))


def _first(folder: Path, names: Sequence[str]) -> Path:
    return next((folder / name for name in names if (folder / name).is_file()), folder / names[0])


def _question(row: ReleasedRow, images: StoredFiles, *, needs_media: bool) -> Asked:
    name, language, kind = row.text("img_name"), row.text("q_lang"), row.text("answer_type")
    if language not in LANGUAGES:
        raise row.place.error(f"wanted en or zh, got {language!r}.", field="q_lang")
    if kind not in ("OPEN", "CLOSED"):
        raise row.place.error(f"wanted OPEN or CLOSED, got {kind!r}.", field="answer_type")
    return asked(
        row.cells.get("answer"),
        is_closed=kind == "CLOSED",
        text=row.text("question"),
        image=name,
        path=images.image(name, row.place, "img_name", needed=needs_media).path,
        facets={
            "language": language,
            "content": row.text("content_type").lower(),
            "modality": row.text("modality"),
            "organ": row.text("location").lower().replace("_", " "),
            "knowledge": "yes" if row.text("base_type") == "kvqa" else "no",
        },
        place=row.place,
        split=row.split,
    )


def slake() -> Source:
    """SLAKE's questions in both languages, whose official splits share images with one another."""
    return slake_source("SLAKE, English and Chinese", LANGUAGES)


def slake_en() -> Source:
    """SLAKE's English questions, whose official split shares no image."""
    return slake_source("SLAKE, English", ("en",))


def slake_zh() -> Source:
    """SLAKE's Chinese questions, whose official split shares no image."""
    return slake_source("SLAKE, Chinese", ("zh",))
