"""Reads the form in which VQA-RAD and PathVQA lie on the hub: image, question and answer, without ids and types.

Which questions are closed is not stated there: those with the answer yes or no are taken as closed. An image is told by
its content.

Source: hub cards of flaviagiammarino/vqa-rad and flaviagiammarino/path-vqa.
"""

from collections import Counter
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

from medtune.benchmarks.short_answers.released_answers import ReleasedQuestion, answer_table, asked, tidy
from medtune.data.raw.media_bytes import write_media_bytes
from medtune.data.raw.rows import Row
from medtune.data.raw.source import HubId, Reject, SourceTable, read_rows
from medtune.data.raw.table_rows import hub_rows
from medtune.data.types import Split

SPLITS: Mapping[str, Split] = {"train": "train", "validation": "val", "val": "val", "test": "test"}
COLUMNS = ("image", "question", "answer")


def is_hub_copy(folder: Path) -> bool:
    """Returns whether a folder is a copy of a hub repository with parquet files."""
    return any(folder.glob("*.parquet")) or any(folder.glob("*/*.parquet"))


def hub_form_table(
    origin: HubId | Path,
    scratch: Path,
    *,
    facets: Callable[[str], Mapping[str, str]],
    notes: Callable[[Mapping[Split, int]], tuple[str, ...]],
) -> SourceTable:
    """Returns the questions of a data set in this form, with its own splits; the images are written into `scratch`.

    Args:
        facets: Returns the facets of a question's text, but for its task.
        notes: Returns notes on the numbers of rows by split.
    """
    sets = hub_rows(origin)
    if wrong := [each.name for each in sets if each.split not in SPLITS]:
        raise ValueError(f"{origin}: wanted the splits {', '.join(SPLITS)}, there is {wrong[0]!r}.")
    if lacking := [name for each in sets for name in COLUMNS if name not in each.columns]:
        raise ValueError(f"{origin}: wanted the columns {', '.join(COLUMNS)}, there is no {lacking[0]!r}.")
    if all(each.split != "test" for each in sets):
        there = ", ".join(each.name for each in sets) or "nothing"
        raise ValueError(f"{origin}: the official split test is missing, there is {there}. Download the rest of it.")
    counts = Counter[Split]()
    found, rejects = list[ReleasedQuestion](), list[Reject]()
    for each in sets:
        split = SPLITS[each.split or ""]
        taken, lost = read_rows(each.rows(), partial(_question, split=split, scratch=scratch, facets=facets))
        found += taken
        rejects += lost
        counts[split] += len(taken) + len(lost)
    told = (*notes(counts), "closed questions: those with the answer yes or no, as this form does not state the type")
    return answer_table(found, told, rejects, repaired="answers repaired (tabs and blanks)")


def _question(row: Row, *, split: Split, scratch: Path, facets: Callable[[str], Mapping[str, str]]) -> ReleasedQuestion:
    image, text, cell = row.values["image"], tidy(row.values["question"]), row.values["answer"]
    content = image.get("bytes") if isinstance(image, Mapping) else None
    if not isinstance(content, bytes):
        raise row.place.error("wanted an image with its bytes.", field="image")
    if not text:
        raise row.place.error("wanted a question, got an empty one.", field="question")
    try:
        path = write_media_bytes(content, scratch)
    except ValueError as error:
        raise row.place.error(str(error), field="image") from error
    return asked(
        cell, is_closed=None, text=text, image=path.stem, path=path, facets=facets(text), place=row.place, split=split
    )
