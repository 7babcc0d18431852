"""Prepares folders of the benchmark vqa with questions of chosen kinds in each split, about drawn pictures."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Literal, get_args

import numpy as np
import PIL.Image

from medtune.benchmarks import find_source
from medtune.data.prepared.read import Prepared
from medtune.data.prepared.write import prepare
from medtune.data.raw.source import SourceTable
from medtune.data.types import AnswerKind, MediaRef, Question, Split

Kind = Literal["choice", "yes_no", "number", "short", "report"]
KINDS: tuple[Kind, ...] = get_args(Kind)
ANSWERS: Mapping[Kind, Sequence[str]] = {
    "choice": ("liver", "spleen", "kidney"),
    "yes_no": ("yes", "no"),
    "number": ("12", "7.5", "30"),
    "short": ("the left lung", "the heart", "a small cyst"),
    "report": (
        "The heart is of normal size and both lungs are clear.",
        "There is a small effusion at the left base and no pneumothorax.",
    ),
}
DRAWN: Sequence[Kind] = ("choice", "yes_no")
"""The kinds of the questions that medtune divides into splits itself."""
_FORM: Mapping[Kind, tuple[AnswerKind, str]] = {
    "choice": ("choice", "Which organ is shown?"),
    "yes_no": ("yes_no", "Is there a nodule?"),
    "number": ("number", "How wide is the mass?"),
    "short": ("text", "What is seen?"),
    "report": ("text", "Describe the picture."),
}


def own_question(kind: Kind, number: int, *, split: Split | None = None) -> Question:
    """Returns a question of a kind; its answer follows its number."""
    answer_kind, text = _FORM[kind]
    answers = ANSWERS[kind]
    return Question(
        id=f"{kind}-{number}",
        media_id=f"picture-{number}",
        text=text,
        options=tuple(answers) if answer_kind in ("choice", "yes_no") else (),
        answer=answers[number % len(answers)],
        answer_kind=answer_kind,
        patient_id=f"patient-{number}",
        facets={"task": kind, "side": ("left", "right")[number % 2]},
        unit="mm" if answer_kind == "number" else None,
        split=split,
    )


def prepare_own(
    folder: Path, kinds: Mapping[Split, Sequence[Kind]] | None, *, patients: int = 6, one_each: bool = False
) -> Prepared:
    """Prepares `folder/prepared`: for each split so many patients, each with a picture and a question of each kind.

    With `one_each`, each patient has one question, of the kinds in turn.
    """
    raw = folder / "raw"
    raw.mkdir(parents=True)
    questions: list[Question] = []
    media: dict[str, tuple[MediaRef, ...]] = {}
    of_split: Mapping[Split | None, Sequence[Kind]] = {None: DRAWN} if kinds is None else dict(kinds.items())
    for place, (split, asked) in enumerate(of_split.items()):
        for number in range(place * patients, (place + 1) * patients):
            path = raw / f"{number}.png"
            pixels_HWC = np.random.default_rng(number).integers(0, 255, (24, 24, 3), dtype=np.uint8)
            PIL.Image.fromarray(pixels_HWC).save(path)
            media[f"picture-{number}"] = (MediaRef(path),)
            chosen = [asked[number % len(asked)]] if one_each else asked
            questions += [own_question(kind, number, split=split) for kind in chosen]
    source = replace(find_source("ms_swift"), read=lambda root, seed, scratch: SourceTable(questions, media))
    return prepare(source, benchmark="vqa", root=raw, out=folder / "prepared")
