"""`medtune.to_datasets` and `medtune.from_datasets`: prepared questions as a data set of Hugging Face, and back."""

from __future__ import annotations

import io
import json
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

from medtune.api.dataset import Dataset, Questions, load
from medtune.benchmarks import OWN_QUESTIONS, find_benchmark, find_source
from medtune.data.media.load import pictures_of
from medtune.data.prepared.lookalikes import TRAIN_TWIN
from medtune.data.prepared.write import prepare
from medtune.data.raw.rejects import MAX_REJECTED
from medtune.data.raw.source import Source, TableOptions
from medtune.data.types import FOLD, SPLITS, MediaRef, Question, Split
from medtune.eval.scoring.number_errors import TOLERANCE

if TYPE_CHECKING:
    import datasets

SPLIT_NAMES: Mapping[Split, str] = {"train": "train", "val": "validation", "test": "test"}
EARLIER_TURNS = "earlier_turns"
_COLUMNS = (
    *("id", "image", "images", "video", "volume", "start", "end", "box", "masks", "question", "options", "answer"),
    *("answer_type", "unit", "tolerance", "patient", EARLIER_TURNS),
)
_SHOWN_AS_STORED = {".png", ".jpg", ".jpeg"}


@overload
def to_datasets(questions: Questions) -> datasets.Dataset: ...


@overload
def to_datasets(questions: Dataset | str | Path) -> datasets.DatasetDict: ...


def to_datasets(questions: Questions | Dataset | str | Path) -> datasets.Dataset | datasets.DatasetDict:
    """Returns prepared questions as a data set of the library `datasets`, a row for each question.

    The columns have the names that `medtune prepare vqa` knows: id, question, options, answer, answer_type, unit,
    tolerance, patient and one for each facet; image (of the type Image, as it is shown, with its red boxes drawn) or
    images where several are shown together; video with start, end and box; volume with masks. Films, volumes and masks
    are paths. A question behind earlier turns has them in the column earlier_turns.

    Args:
        questions: A prepared folder, which gives a DatasetDict with the splits train, validation and test that have
            questions; or questions of one split, which give a Dataset.

    Raises:
        FileNotFoundError: The folder or a media file is missing.
        ValueError: A media file cannot be decoded, or the videos or volumes of one question are shown in different
            parts.
    """
    import datasets

    if isinstance(questions, Questions):
        return _dataset(questions)
    data = questions if isinstance(questions, Dataset) else load(questions)
    there = [split for split in SPLITS if data.prepared.num_questions(split)]
    return datasets.DatasetDict({SPLIT_NAMES[split]: _dataset(getattr(data, split)) for split in there})


def from_datasets(
    rows: datasets.Dataset | datasets.DatasetDict,
    out: str | Path,
    *,
    question: str | None = None,
    options: Sequence[str] = (),
    columns: Mapping[str, str] | None = None,
    splits: Mapping[str, str] | None = None,
    facets: Sequence[str] | None = None,
    seed: int = 0,
    max_rejected: float = MAX_REJECTED,
) -> Dataset:
    """Writes a data set of the library `datasets` as a prepared folder, as `medtune prepare vqa` does, and opens it.

    Rows that cannot be read are counted in the folder's manifest and listed in its rejects.jsonl.

    Args:
        rows: The data set; of a DatasetDict the names of the splits are kept, a Dataset is divided by patient.
        out: The folder to write; one that medtune prepared earlier is replaced.
        question: The question that is asked of every row, where no column holds one.
        options: The options of every row that has none of its own.
        columns: The column of each role where its name does not say it, e.g. {"answer": "diagnosis"}.
        splits: The split that a name stands for, e.g. {"mini": "test"}; "none" leaves it out.
        facets: The columns by which scores are broken down; None takes all with few values.
        seed: Decides the splits and the order of options that are drawn.
        max_rejected: The largest share of rows, from 0 to 1, that may be unusable before nothing is written.

    Raises:
        TypeError: It is no data set of that library, or one that is streamed.
        ValueError: A column is missing, or too many rows cannot be used.
    """
    import datasets

    if not isinstance(rows, datasets.Dataset | datasets.DatasetDict):
        raise TypeError(
            f"a {type(rows).__name__} is no datasets.Dataset or datasets.DatasetDict; load a streamed data set whole, "
            f"and give a table or folder to `medtune prepare {OWN_QUESTIONS}`"
        )
    parts: Mapping[Any, datasets.Dataset] = rows if isinstance(rows, datasets.DatasetDict) else {"": rows}
    if any(EARLIER_TURNS in part.column_names for part in parts.values()):
        raise ValueError(
            f"the column {EARLIER_TURNS!r} holds turns before the question, which are read from a column `messages` "
            "with all turns of the conversation; make that column, or remove this one to ask the questions alone"
        )
    said = TableOptions(
        question=question,
        options=tuple(options),
        columns=dict(columns or {}),
        splits=dict(splits or {}),
        facets=None if facets is None else tuple(facets),
    )
    with tempfile.TemporaryDirectory(prefix="medtune-") as saved:
        rows.save_to_disk(saved)
        prepared = prepare(
            _source(Path(saved), said),
            benchmark=OWN_QUESTIONS,
            root=Path(saved),
            out=Path(out).expanduser(),
            seed=seed,
            max_rejected=max_rejected,
        )
    return Dataset(prepared)


def _source(saved: Path, said: TableOptions) -> Source:
    for name in find_benchmark(OWN_QUESTIONS).sources:
        source = find_source(name)
        if source.recognises is not None and source.recognises(saved) and source.with_options is not None:
            return source.with_options(said)
    raise ValueError(f"{saved}: no source of {OWN_QUESTIONS!r} reads a data set that `save_to_disk` wrote")


def _dataset(questions: Questions) -> datasets.Dataset:
    import datasets

    without_media = questions.prepared.manifest.without_media
    media = {} if without_media else {group.media_id: group.media for group in questions.groups()}
    cells = {media_id: _media_cells(refs) for media_id, refs in media.items()}
    several = any(len(found.get("images", ())) > 1 for found in cells.values())
    facets = sorted({name for each in questions for name in each.facets} - {TRAIN_TWIN, FOLD})
    rows = []
    for each in questions:
        by_facet = {_facet_column(name): each.facets.get(name) for name in facets}
        rows.append({**_question_cells(each), **cells.get(each.media_id, {}), **by_facet})
    text, image = datasets.Value("string"), datasets.Image()
    types: dict[str, Any] = dict.fromkeys(("id", "question"), text)
    if any(row.get("images") for row in rows):
        types["images" if several else "image"] = datasets.List(image) if several else image
        for row in rows:
            shown = row.pop("images", [])
            row |= {"images": shown} if several else {"image": shown[0] if shown else None}
    for kind in ("video", "volume"):
        if any(row.get(kind) for row in rows):
            types[kind] = datasets.List(text)
    types |= {name: datasets.Value("float64") for name in ("start", "end") if any(name in row for row in rows)}
    types |= {name: text for name in ("box", "masks") if any(name in row for row in rows)}
    types |= {"options": datasets.List(text), "answer": text, "answer_type": text, "patient": text}
    types |= {name: text for name in ("unit", TOLERANCE) if any(row[name] for row in rows)}
    if any(row[EARLIER_TURNS] for row in rows):
        types[EARLIER_TURNS] = datasets.List({"question": text, "answer": text})
    types |= {_facet_column(name): text for name in facets}
    values = {name: [row.get(name) for row in rows] for name in types}
    split = datasets.NamedSplit(SPLIT_NAMES[questions.split])
    return datasets.Dataset.from_dict(values, features=datasets.Features(types), split=split)


def _question_cells(question: Question) -> dict[str, Any]:
    return {
        "id": question.id,
        "question": question.text,
        "options": list(question.options),
        "answer": question.answer,
        "answer_type": question.answer_kind,
        "unit": question.unit,
        TOLERANCE: question.printed.get(TOLERANCE),
        "patient": question.patient_id,
        EARLIER_TURNS: [{"question": turn.asked, "answer": turn.answer} for turn in question.turns],
    }


def _facet_column(name: str) -> str:
    return f"facet_{name}" if name in _COLUMNS else name


def _media_cells(refs: Sequence[MediaRef]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    parts = []
    for ref in refs:
        if ref.kind == "image":
            found.setdefault("images", []).append(_picture(ref))
            continue
        found.setdefault(ref.kind, []).append(str(ref.path.resolve()))
        masks = json.dumps({organ: str(path.resolve()) for organ, path in ref.masks}) if ref.masks else None
        box = json.dumps(list(ref.region)) if ref.region else None
        parts.append({"start": ref.start_s, "end": ref.end_s, "box": box, "masks": masks})
    if any(part != parts[0] for part in parts):
        names = ", ".join(ref.path.name for ref in refs if ref.kind != "image")
        raise ValueError(f"{names}: they are shown together and in different parts, which one row cannot say")
    return {**found, **{name: value for name, value in (parts[0] if parts else {}).items() if value is not None}}


def _picture(ref: MediaRef) -> dict[str, Any]:
    """Returns a cell of the type Image: the stored file where it is what is shown, else the picture with its boxes."""
    if not ref.boxes and ref.path.suffix.lower() in _SHOWN_AS_STORED:
        return {"path": str(ref.path.resolve()), "bytes": None}
    (picture,) = pictures_of(ref)
    written = io.BytesIO()
    picture.save(written, "PNG")
    return {"path": None, "bytes": written.getvalue()}
