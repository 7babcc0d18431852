"""BUSI, a benchmark on breast ultrasound images: the diagnosis, the place of the lesion, and the content of a red box.

The layout of the image folder is described in medtune/benchmarks/public_sets/busi.py.

Source: Al-Dhabyani et al. 2020, doi:10.1016/j.dib.2019.104863. The questions are ours, not a published benchmark's.
"""

from collections.abc import Iterator
from functools import partial
from pathlib import Path

from medtune.benchmarks import example
from medtune.benchmarks.public_sets.busi import CLASSES, LICENCE, PATIENT_UNIT, BusiImage, busi_cases
from medtune.data.media.augment import ALL_CHANGES, NO_CHANGES, Change
from medtune.data.media.masks import NINE_CELLS, NOT_VISIBLE, box_size, cell_of_box
from medtune.data.raw.folder import raw_folder
from medtune.data.raw.lettered_options import choice_question
from medtune.data.raw.source import Source, SourceTable, missing_media, repeat_rejects
from medtune.data.seeding import stable_int
from medtune.data.types import Box, MediaRef, Question
from medtune.eval.asking.choice_prompt import render_choice
from medtune.eval.benchmark import Benchmark
from medtune.eval.metrics.accuracy import metric as accuracy
from medtune.eval.metrics.macro_f1 import metric as macro_f1
from medtune.eval.scoring.parsers.choice_parsers import parse_choice, parse_choice_strict

_PLACES, _TISSUES = ("center", "upper left", "not visible", "middle left"), ("malignant", "normal", "benign")
_MARKED = ("normal tissue", "malignant lesion", "benign lesion")
_ABOUT = {"lesion_class": "benign"}
_EXAMPLES = (
    example(1, "What does this breast ultrasound image show?", "benign", *_TISSUES, task="diagnosis", **_ABOUT),
    example(2, "Where in the image is the lesion?", "middle left", *_PLACES, task="lesion_localisation", **_ABOUT),
    example(
        3, "What does the red box mark?", _MARKED[2], *_MARKED, task="red_box_grounding", box_size="small", **_ABOUT
    ),
)
TISSUE = "normal breast tissue"
MARKED = {"normal": TISSUE, "benign": "benign lesion", "malignant": "malignant lesion"}


def benchmark() -> Benchmark:
    return Benchmark(
        title="BUSI breast ultrasound",
        version="1.1",
        licence="CC0-1.0 (as listed in U2-Bench, Table 7)",
        url="https://doi.org/10.1016/j.dib.2019.104863",
        citation=(
            "Al-Dhabyani W, Gomaa M, Khaled H, Fahmy A. Dataset of breast ultrasound images. "
            "Data in Brief 28, 104863 (2020)."
        ),
        sources=("busi",),
        facets=("task", "lesion_class", "box_size"),
        render=render_choice,
        parsers={"robust": parse_choice, "strict": parse_choice_strict},
        metrics={"accuracy": accuracy(), "macro_f1": macro_f1()},
        examples=_EXAMPLES,
        allowed_changes=_allowed_changes,
    )


def _allowed_changes(question: Question) -> frozenset[Change]:
    """Returns which random changes of a training image leave the answer to the question true.

    Mirroring or moving an image does not change the diagnosis, but it changes the place of a lesion. Moving an image
    may also cut off a part of the red box.
    """
    task_allows: dict[str, frozenset[Change]] = {
        "diagnosis": ALL_CHANGES,
        "red_box_grounding": frozenset({"mirror", "grey"}),
        "lesion_localisation": frozenset({"grey"}),
    }
    return task_allows.get(question.facets["task"], NO_CHANGES)


def busi() -> Source:
    """BUSI: questions about the diagnosis, the place of the lesion and a red box, from breast ultrasound images."""
    return Source(
        title="BUSI, breast ultrasound images",
        licence=LICENCE,
        url="https://doi.org/10.1016/j.dib.2019.104863",
        provenance="reconstruction",
        patient_unit=PATIENT_UNIT,
        read=_read,
    )


def _read(root: Path | None, seed: int, scratch: Path) -> SourceTable:
    folder = raw_folder(root, holds="the BUSI folders benign, malignant and normal")
    cases, notes, rejects = busi_cases(folder)
    donors = [case for case in cases if case.largest is not None]
    questions: list[Question] = []
    media: dict[str, tuple[MediaRef, ...]] = {}
    for case in cases:
        media[case.stem] = (MediaRef(case.path),)
        questions.append(_diagnosis(case, seed))
        if case.is_measurable and donors:
            box = case.largest or _tissue_box(case, donors[stable_int(seed, "tissue", case.stem) % len(donors)])
            media[f"{case.stem} boxed"] = (MediaRef(case.path, (box,)),)
            questions.extend(_place_questions(case, box, seed))
    missing = missing_media(rejects, folder, fetch=busi().url)
    rejects = repeat_rejects(rejects, made=len(questions), of=len(cases))
    return SourceTable(tuple(questions), media, notes, rejects, missing, stands_for_patient="image")


def _diagnosis(case: BusiImage, seed: int) -> Question:
    return choice_question(
        f"{case.stem} diagnosis",
        media_id=case.stem,
        text="What does this breast ultrasound image show?",
        answer=case.lesion_class,
        labels=CLASSES,
        patient_id=case.stem,
        facets={"task": "diagnosis", "lesion_class": case.lesion_class},
        seed=seed,
    )


def _place_questions(case: BusiImage, box: Box, seed: int) -> Iterator[Question]:
    ask = partial(choice_question, patient_id=case.stem, seed=seed)
    facets = {"lesion_class": case.lesion_class}
    around = case.around
    yield ask(
        f"{case.stem} lesion_localisation",
        media_id=case.stem,
        text="Where in this breast ultrasound image is the lesion? "
        "If there are several, answer for the smallest box around all of them.",
        answer=cell_of_box(around, *case.size) if around else NOT_VISIBLE,
        labels=(*NINE_CELLS, NOT_VISIBLE),
        facets={"task": "lesion_localisation", **facets}
        | ({"box_size": box_size(around, *case.size)} if around else {}),
    )
    yield ask(
        f"{case.stem} red_box_grounding",
        media_id=f"{case.stem} boxed",
        text="What does the red box in this breast ultrasound image mark?",
        answer=MARKED[case.lesion_class],
        labels=tuple(MARKED.values()),
        facets={"task": "red_box_grounding", "box_size": box_size(box, *case.size), **facets},
    )


def _tissue_box(case: BusiImage, donor: BusiImage) -> Box:
    box, (width, height) = donor.largest, case.size
    if box is None:
        raise ValueError(f"{donor.path}: a normal image has no lesion box to lend.")
    x0, y0 = box.x0 * width // donor.size.width, box.y0 * height // donor.size.height
    x1, y1 = box.x1 * width // donor.size.width, box.y1 * height // donor.size.height
    return Box(x0, y0, max(x1, x0 + 1), max(y1, y0 + 1))
