"""SLAKE, questions on radiology images in English and Chinese, closed and open, some of which need medical knowledge.

Layout: train, validate (or validation) and test.json as released, with the images in imgs/ or imgs.zip. The official
split is kept. `slake_en` and `slake_zh` have one language, whose split shares no image; `slake` has both, and the
splits of the two languages share images with one another, which every output says.

Source: Liu et al. 2021, arXiv 2102.09542; hub card of BoKelvin/SLAKE.
"""

from collections.abc import Sequence
from functools import partial
from pathlib import Path

from medtune.benchmarks import example
from medtune.benchmarks.medical_kits.medevalkit_sets import counted_by_type
from medtune.benchmarks.short_answers.kit_prompts import prompts_by_type
from medtune.benchmarks.short_answers.kit_rules import llava_med_rules, lmms_rule, medevalkit_rules
from medtune.benchmarks.short_answers.parser import judge_task, metrics, parse, render
from medtune.benchmarks.short_answers.published_tables import part_of, printed_numbers
from medtune.benchmarks.short_answers.released_answers import (
    ReleasedQuestion,
    ReleasedRow,
    answer_table,
    asked,
    released_rows,
)
from medtune.data.raw.folder import raw_folder
from medtune.data.raw.source import Source, SourceTable, missing_media, read_rows
from medtune.data.raw.stored_files import StoredFiles, hub_folder, stored_files
from medtune.data.types import Split
from medtune.eval.asking.answerer import AnswerProtocol
from medtune.eval.benchmark import Benchmark

TEST_QUESTIONS = (1061, 1033, 2094)
"""The official test questions in English, in Chinese and in both."""

_MEDEVALKIT = "Yes and No are written with capitals here, so that they have to be equal: Yes, there is, is wrong"
_ABOUT = {"organ": "lung", "knowledge": "no", "modality": "CT", "content": "organ"}
_EXAMPLES = (
    example(1, "Is there a lung in the picture?", "yes", "yes", "no", task="yes_no", language="en", **_ABOUT),
    example(2, "图中有肺吗?", "没有", "有", "没有", task="yes_no", language="zh", **_ABOUT),
    example(3, "Which is larger, the liver or the heart?", "Liver", task="closed", language="en", **_ABOUT),
    example(4, "这是什么器官?", "肝脏", task="open", language="zh", **_ABOUT),
)
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


def benchmark() -> Benchmark:
    """Returns the benchmark, whose primary metric is the accuracy of closed questions."""
    rules = {
        **medevalkit_rules("slake", counted_by_type, "utils/SLAKE/SLAKE.py", _MEDEVALKIT),
        **llava_med_rules(),
        **lmms_rule(),
    }
    printed = printed_numbers("slake", rules, metrics(), facet="language", judged=True)
    return Benchmark(
        title="SLAKE",
        version="1.0",
        licence="CC BY 4.0",
        url="https://huggingface.co/datasets/BoKelvin/SLAKE",
        citation=(
            "Liu B, Zhan LM, Xu L, Ma L, Yang Y, Wu XM. SLAKE: a semantically-labeled knowledge-enhanced dataset for "
            "medical visual question answering. ISBI (2021). arXiv:2102.09542."
        ),
        sources=("slake_en", "slake_zh", "slake"),
        facets=("task", "language", "content", "modality", "organ", "knowledge"),
        render=render,
        parsers={"stated": parse},
        metrics=metrics(),
        examples=_EXAMPLES,
        rules=rules,
        tables=printed.tables,
        published_tables=printed.published_tables,
        judging=judge_task(),
        official=prompts_by_type(),
        protocol=AnswerProtocol(
            0.0, repeats=1, max_new_tokens=8192, source="alibaba-damo-academy/MedEvalKit@9b12e3b, eval.sh"
        ),
        missing=part_of(TEST_QUESTIONS),
    )


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


def _question(row: ReleasedRow, images: StoredFiles, *, needs_media: bool) -> ReleasedQuestion:
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
