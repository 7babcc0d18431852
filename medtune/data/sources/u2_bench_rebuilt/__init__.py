"""U2-Bench rebuilt from public sets: the scenarios whose images and labels are freely to be had.

Layout: one folder (or link) per set that you have, named as in medtune/data/sets. What each gives, by U2-Bench's ids:

    acouslic         VRA 50 view, OD 50 abdomen, CVE 50 abdominal circumference
    busi             DD 23 diagnosis, LL 23 lesion
    fetal_planes_db  VRA 03 plane
    fpus23           VRA 10 orientation, CG 10 caption of a plane
    hc18             OD 31 head, CVE 31 head circumference
    jnu_ifm          VRA 53 landmarks, OD 53 symphysis and head
    psfhs            OD 52 symphysis and head

U2-Bench took its cases from these sets and names none of them: training on this folder may train on its test images.

Source: U2-Bench (arXiv 2505.17779), Tables 5 and 7; ids of dolphin-sound/u2-bench-evalkit; questions are ours.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path

from medtune.data.catalog import nearest
from medtune.data.choices import choice_question
from medtune.data.masks import NINE_CELLS, NOT_VISIBLE, nine_cell
from medtune.data.public_set import Frame, public_set, read_set, sub_folders
from medtune.data.raw_folder import raw_folder
from medtune.data.source import Source, SourceTable
from medtune.data.sources.u2_bench_rebuilt.vocabulary import (
    ANATOMY,
    CAPTIONS,
    CHOICES,
    DATASETS,
    STRUCTURES,
    VALUES,
    Choice,
)
from medtune.data.types import MediaRef, Question

SETS = tuple(DATASETS)
_KINDS = ("plane", "orientation", "view", "landmarks", "diagnosis")


def source() -> Source:
    """Returns the source."""
    return Source(
        title="U2-Bench, rebuilt from public sets",
        licence="that of each set: " + "; ".join(f"{name} {public_set(name).licence}" for name in SETS),
        url="https://arxiv.org/abs/2505.17779",
        provenance="reconstruction",
        patient_unit="by set: " + "; ".join(f"{name}: {public_set(name).patient_unit}" for name in SETS),
        read=_read,
        write_example=_write_example,
    )


def _read(root: Path | None, seed: int, scratch: Path) -> SourceTable:
    """Returns the questions of all sets that are there; a set's own split is kept, the rest is split by patient.

    Raises:
        FileNotFoundError: A file of a set is missing.
        ValueError: No set is there, or a file or label is not as documented.
    """
    folder = raw_folder(root, holds=f"one folder per set ({', '.join(SETS)})")
    questions: list[Question] = []
    media: dict[str, MediaRef] = {}
    notes = ["U2-Bench took its test cases from these sets and does not say which"]
    for name, place in sub_folders(folder, SETS).items():
        table = read_set(name, place, scratch)
        asked = Counter[bool]()
        for frame in table.frames:
            found = list(_questions(name, frame, seed))
            asked[bool(found)] += 1
            questions += found
            media |= {question.media_id: MediaRef(frame.path) for question in found}
        notes += [f"{name}: {len(table.frames)} images", *(f"{name}: {note}" for note in table.notes)]
        if asked[False]:
            notes.append(f"{name}: {asked[False]} images left out: nothing of them is asked")
    return SourceTable(tuple(questions), media, tuple(notes))


def _questions(set_name: str, frame: Frame, seed: int) -> Iterator[Question]:
    for kind in _KINDS:
        choice = CHOICES.get((set_name, kind))
        label = frame.labels.get(kind)
        if choice and label is not None and (answer := _term(choice.terms, label, set_name, frame)):
            yield _choice(set_name, frame, choice, answer, seed)
        if (set_name, kind) in CAPTIONS and label is not None:
            caption = _term(CAPTIONS[set_name, kind], label, set_name, frame)
            if caption:
                yield _free(set_name, frame, "CG", "Describe the image in one sentence.", caption)
    if frame.labels.get("measurable") != "no":
        for structure, text in STRUCTURES.get(set_name, {}).items():
            yield from _place(set_name, frame, structure, text, seed)
    for value, (text, unit) in VALUES.get(set_name, {}).items():
        if value in frame.values:
            yield _value(set_name, frame, text, frame.values[value], unit)


def _choice(set_name: str, frame: Frame, choice: Choice, answer: str, seed: int) -> Question:
    return choice_question(
        f"{set_name} {frame.name} {choice.task}",
        media_id=f"{set_name} {frame.name}",
        text=choice.text,
        answer=answer,
        labels=choice.labels,
        patient_id=f"{set_name} {frame.patient}",
        facets=_facets(set_name, choice.task),
        seed=seed,
        split=frame.split,
    )


def _place(set_name: str, frame: Frame, structure: str, text: str, seed: int) -> Iterator[Question]:
    """Yields where the structure is; of several boxes of it, the first counts, as in the official code."""
    boxes = [marked.box for marked in frame.boxes if marked.label == structure]
    task = "LL" if structure == "lesion" else "OD"
    yield choice_question(
        f"{set_name} {frame.name} {task} {structure}",
        media_id=f"{set_name} {frame.name}",
        text=text,
        answer=nine_cell(boxes[0], *frame.size) if boxes else NOT_VISIBLE,
        labels=(*NINE_CELLS, NOT_VISIBLE),
        patient_id=f"{set_name} {frame.patient}",
        facets={**_facets(set_name, task), "structure": structure},
        seed=seed,
        split=frame.split,
    )


def _value(set_name: str, frame: Frame, text: str, value: float, unit: str) -> Question:
    """Returns a question for a number; the width of a pixel is said where the set has it, as in the official prompt."""
    pixel = frame.values.get("pixel_size_mm")
    if pixel is None:
        return _free(set_name, frame, "CVE", text, f"{value:.6g}", unit=unit)
    asked = f"{text} One pixel is {pixel:.6g} mm wide."
    return _free(set_name, frame, "CVE", asked, f"{value:.6g}", unit=unit, pixel_size_mm=f"{pixel:.6g}")


def _free(
    set_name: str, frame: Frame, task: str, text: str, answer: str, *, unit: str | None = None, **facets: str
) -> Question:
    return Question(
        id=f"{set_name} {frame.name} {task}",
        media_id=f"{set_name} {frame.name}",
        text=text,
        options=(),
        answer=answer,
        answer_kind="number" if unit else "text",
        patient_id=f"{set_name} {frame.patient}",
        facets={**_facets(set_name, task), **facets},
        unit=unit,
        split=frame.split,
    )


def _facets(set_name: str, task: str) -> dict[str, str]:
    return {"task": task, "dataset": DATASETS[set_name], "anatomy": ANATOMY[set_name]}


def _term(terms: Mapping[str, str | None], label: str, set_name: str, frame: Frame) -> str | None:
    if label not in terms:
        raise ValueError(
            f"{frame.path}: the label {label!r} of {set_name} has no term.{nearest(label, terms)} "
            "Add it to medtune/data/sources/u2_bench_rebuilt/vocabulary.py."
        )
    return terms[label]


def _write_example(folder: Path) -> None:
    """Writes the examples of all sets, each in its folder."""
    for name in SETS:
        (folder / name).mkdir(parents=True, exist_ok=True)
        public_set(name).write_example(folder / name)
