"""U2-Bench rebuilt from public image sets: the scenarios whose images and labels are freely available.

Layout: one folder (or link) for each set that you have, with the name of its module in `public_sets`. The sets
give these tasks, listed with U2-Bench's ids of data sets:

    acouslic         VRA 50 view, OD 50 abdomen, CVE 50 abdominal circumference
    busi             DD 23 diagnosis, LL 23 lesion
    fetal_planes_db  VRA 03 plane
    fpus23           VRA 10 orientation, CG 10 caption of a plane
    hc18             OD 31 head, CVE 31 head circumference
    jnu_ifm          VRA 53 landmarks, OD 53 symphysis and head
    psfhs            OD 52 symphysis and head

U2-Bench took its cases from these sets but does not say which images it took. A model that is trained on this folder
may therefore have seen test images of U2-Bench.

Source: U2-Bench (arXiv 2505.17779), Tables 5 and 7; ids of dolphin-sound/u2-bench-evalkit; questions are ours.

Translates the labels of public sets into the options, ids and captions of U2-Bench's scenarios.

An image whose label is not in these tables is rejected. No question is asked about a label that has the term None.

Source: the options are those of dolphin-sound/u2-bench-evalkit, vlmeval/dataset/cla_prompt.json. According to its
image_report.py, the captions of FPUS23 name three measurements; the sentence of the captions here is ours.
"""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from medtune.benchmarks.public_sets import ImageQuestion, SetImage, rebuilt_source
from medtune.data.media.masks import NINE_CELLS, NOT_VISIBLE, box_size, cell_of_box
from medtune.data.raw.lettered_options import choice_question
from medtune.data.raw.source import Source
from medtune.data.types import MediaRef, Question

DATASETS: Mapping[str, str] = {
    "acouslic": "50", "busi": "23", "fetal_planes_db": "03", "fpus23": "10", "hc18": "31", "jnu_ifm": "53",
    "psfhs": "52",
}  # fmt: skip
ANATOMY: Mapping[str, str] = {
    "acouslic": "fetal abdomen", "busi": "breast", "fetal_planes_db": "fetus", "fpus23": "fetal phantom",
    "hc18": "fetal head", "jnu_ifm": "fetal head and pubic symphysis", "psfhs": "fetal head and pubic symphysis",
}  # fmt: skip
_PLANES = {
    "Fetal abdomen": "fetal abdomen",
    "Fetal femur": "fetal femur",
    **{
        f"Fetal brain, {part}": "fetal brain"
        for part in ("Trans-thalamic", "Trans-cerebellum", "Trans-ventricular", "Other")
    },
    "Fetal thorax": "fetal thorax",
    "Maternal cervix": "maternal cervix",
    "Other": "other",
}
_LANDMARKS = {
    "none": "None",
    "head": "OnlyFetalHead",
    "symphysis": "OnlySymphysisPubis",
    "both": "SymphysisPubis+FetalHead",
}
_POSES = ("hdvb", "hdvf", "huvb", "huvf")
_HEAD, _SYMPHYSIS = (
    "Where in this ultrasound image is the fetal head?",
    "Where in this ultrasound image is the pubic symphysis?",
)
STRUCTURES: Mapping[str, Mapping[str, str]] = {
    "acouslic": {"fetal abdomen": "Where in this ultrasound image is the fetal abdomen?"},
    "busi": {"lesion": "Where in this breast ultrasound image is the lesion?"},
    "hc18": {"head": _HEAD},
    "jnu_ifm": {"fetal head": _HEAD, "pubic symphysis": _SYMPHYSIS},
    "psfhs": {"fetal head": _HEAD, "pubic symphysis": _SYMPHYSIS},
}
VALUES: Mapping[str, Mapping[str, tuple[str, str]]] = {
    "acouslic": {"ac_mm": ("What is the abdominal circumference in mm?", "mm")},
    "hc18": {"hc_mm": ("What is the head circumference in mm?", "mm")},
}
SETS = tuple(DATASETS)
_KINDS = ("plane", "orientation", "view", "landmarks", "diagnosis")
_TERMS = "medtune/benchmarks/u2_bench/sources/u2_bench_rebuilt.py"


class Choice(NamedTuple):
    task: str  # The task, for example "VRA".
    text: str
    terms: Mapping[str, str | None]  # The option by the set's label; None for a label about which no question is asked.
    labels: tuple[str, ...]


def _same(*labels: str) -> dict[str, str | None]:
    return {label: label for label in labels}


CHOICES: Mapping[tuple[str, str], Choice] = {
    ("fetal_planes_db", "plane"): Choice(
        "VRA", "Which plane does this fetal ultrasound image show?", _PLANES, tuple(dict.fromkeys(_PLANES.values()))
    ),
    ("fpus23", "orientation"): Choice(
        "VRA",
        "How does the fetus lie: head down (hd) or up (hu), seen from its back (vb) or its front (vf)?",
        _same(*_POSES),
        _POSES,
    ),
    ("acouslic", "view"): Choice(
        "VRA",
        "How fit is this view of the fetal abdomen for measuring the abdominal circumference?",
        _same("none", "optimal", "suboptimal"),
        ("none", "optimal", "suboptimal"),
    ),
    ("jnu_ifm", "landmarks"): Choice(
        "VRA",
        "Which of these are visible: the fetal head, the pubic symphysis?",
        _LANDMARKS,
        tuple(_LANDMARKS.values()),
    ),
    ("busi", "diagnosis"): Choice(
        "DD",
        "What does this breast ultrasound image show?",
        _same("normal", "benign", "malignant"),
        ("normal", "benign", "malignant"),
    ),
}


def _caption(measurement: str) -> str:
    return f"A fetal phantom in the standard plane for measuring the {measurement}."


CAPTIONS: Mapping[tuple[str, str], Mapping[str, str | None]] = {
    ("fpus23", "plane"): {
        "AC_PLANE": _caption("abdominal circumference"),
        "Abd_plane": _caption("abdominal circumference"),
        "BPD_PLANE": _caption("biparietal diameter"),
        "FL_PLANE": _caption("femur length"),
        "NO_PLANE": None,
    }
}


def source() -> Source:
    return rebuilt_source(
        "U2-Bench, rebuilt from public sets",
        "https://arxiv.org/abs/2505.17779",
        sets=SETS,
        ask=lambda subject: (ImageQuestion(each, MediaRef(subject.frame.path)) for each in _questions(subject)),
        left_out=lambda frame: "nothing of them is asked",
        notes=("U2-Bench took its test cases from these sets and does not say which",),
    )


def _questions(subject: SetImage) -> Iterator[Question]:
    name, frame = subject.set_name, subject.frame
    for kind in _KINDS:
        label = frame.labels.get(kind)
        if label is None:
            continue
        choice = CHOICES.get((name, kind))
        if choice and (answer := subject.term(choice.terms, label, kind=kind, file=_TERMS)):
            yield _choice(subject, choice, answer)
        if (name, kind) in CAPTIONS:
            caption = subject.term(CAPTIONS[name, kind], label, kind=kind, file=_TERMS)
            if caption:
                yield _free(subject, "CG", "Describe the image in one sentence.", caption)
    if frame.labels.get("measurable") != "no":
        for structure, text in STRUCTURES.get(name, {}).items():
            yield _place(subject, structure, text)
    for value, (text, unit) in VALUES.get(name, {}).items():
        if value in frame.values:
            yield _value(subject, text, frame.values[value], unit)


def _choice(subject: SetImage, choice: Choice, answer: str) -> Question:
    return choice_question(
        f"{subject.media_id} {choice.task}",
        media_id=subject.media_id,
        text=choice.text,
        answer=answer,
        labels=choice.labels,
        patient_id=subject.patient_id,
        facets=_facets(subject, choice.task),
        seed=subject.seed,
        split=subject.frame.split,
    )


def _place(subject: SetImage, structure: str, text: str) -> Question:
    frame = subject.frame
    boxes = [marked.box for marked in frame.boxes if marked.label == structure]
    task = "LL" if structure == "lesion" else "OD"
    size = {"box_size": box_size(boxes[0], *frame.size)} if boxes else {}
    return choice_question(
        f"{subject.media_id} {task} {structure}",
        media_id=subject.media_id,
        text=text,
        answer=cell_of_box(boxes[0], *frame.size) if boxes else NOT_VISIBLE,
        labels=(*NINE_CELLS, NOT_VISIBLE),
        patient_id=subject.patient_id,
        facets={**_facets(subject, task), "structure": structure, **size},
        seed=subject.seed,
        split=frame.split,
    )


def _value(subject: SetImage, text: str, value: float, unit: str) -> Question:
    pixel = subject.frame.values.get("pixel_size_mm")
    if pixel is None:
        return _free(subject, "CVE", text, f"{value:.6g}", unit=unit)
    asked = f"{text} One pixel is {pixel:.6g} mm wide."
    return _free(subject, "CVE", asked, f"{value:.6g}", unit=unit, pixel_size_mm=f"{pixel:.6g}")


def _free(subject: SetImage, task: str, text: str, answer: str, *, unit: str | None = None, **facets: str) -> Question:
    return Question(
        id=f"{subject.media_id} {task}",
        media_id=subject.media_id,
        text=text,
        options=(),
        answer=answer,
        answer_kind="number" if unit else "text",
        patient_id=subject.patient_id,
        facets={**_facets(subject, task), **facets},
        unit=unit,
        split=subject.frame.split,
    )


def _facets(subject: SetImage, task: str) -> dict[str, str]:
    dataset = DATASETS[subject.set_name]
    return {
        "task": task,
        "scenario": f"{task} {dataset}",
        "dataset": dataset,
        "anatomy": ANATOMY[subject.set_name],
        "phantom": "yes" if subject.is_phantom else "no",
        **subject.frame.facets,
    }
