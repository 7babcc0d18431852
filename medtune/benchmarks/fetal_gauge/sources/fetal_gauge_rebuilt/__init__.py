"""Fetal-Gauge rebuilt from public sets: planes, completeness, orientation and red boxes, as the paper describes them.

Layout: one folder (or link) for each set that you have, with the name of its module in `public_sets`: acouslic,
fetal_planes_db, fpus23, hc18, jnu_ifm, pbf_us1 or psfhs. Each folder holds the set's release unchanged. All sets become
one prepared folder, so that images which occur in two sets are found and their patients stay in one split.

Source: Alasmawi et al., arXiv 2512.22278, sections on construction. The paper does not publish its prompts, its splits
and the names of its 13 sets, so questions and terms are ours.

Translates the labels of public fetal image sets into the terms that Fetal-Gauge's questions use.

An image whose label is not in these tables is rejected. An image whose label has the term None is left out and counted.

Source: the paper (arXiv 2512.22278) expands abbreviations ("abdomcirc" becomes "abdominal circumference plane"), says
"[organ] plane" where a set names no plane within an organ, and drops classes such as "other". Its list of terms is not
published: these are ours.
"""

from collections.abc import Iterator, Mapping

from medtune.benchmarks.fetal_gauge.sources.fetal_phantom.frames import ORIENTATION_TEXT, ORIENTATION_WORDS
from medtune.benchmarks.public_sets import Frame, ImageQuestion, SetImage, rebuilt_source
from medtune.data.media.masks import box_size
from medtune.data.raw.lettered_options import choice_question
from medtune.data.raw.source import Source
from medtune.data.types import Box, MediaRef

ABDOMEN, HEAD, FEMUR = "abdominal circumference plane", "biparietal diameter plane", "femur length plane"
BRAIN = "fetal brain plane"

PLANES: Mapping[str, Mapping[str, str | None]] = {
    "fetal_planes_db": {
        "Fetal abdomen": "fetal abdomen plane",
        "Fetal brain, Trans-thalamic": "trans-thalamic plane",
        "Fetal brain, Trans-cerebellum": "trans-cerebellar plane",
        "Fetal brain, Trans-ventricular": "trans-ventricular plane",
        "Fetal brain, Other": BRAIN,
        "Fetal femur": "fetal femur plane",
        "Fetal thorax": "fetal thorax plane",
        "Maternal cervix": "maternal cervix plane",
        "Other": None,
    },
    "fpus23": {"AC_PLANE": ABDOMEN, "BPD_PLANE": HEAD, "FL_PLANE": FEMUR, "NO_PLANE": None, "Abd_plane": ABDOMEN},
    "pbf_us1": {
        "Biparietal standard plane": HEAD,
        "Abdominal standard plane": ABDOMEN,
        "Heart standard plane": "fetal heart plane",
        "Spine standard plane": "fetal spine plane",
        "Femur standard plane": FEMUR,
        "No plane": None,
    },
}
# A plane within the brain is also a brain plane, so neither of them is offered as a wrong option beside the other.
WITHIN_BRAIN = frozenset({"trans-thalamic plane", "trans-cerebellar plane", "trans-ventricular plane"})
CLINICAL_PLANES = tuple(dict.fromkeys(term for term in PLANES["fetal_planes_db"].values() if term))
PHANTOM_PLANES = tuple(dict.fromkeys(term for term in PLANES["pbf_us1"].values() if term))
"""The options for frames of phantoms. The two sets share them, because one of the sets has only three planes."""

STRUCTURES: Mapping[str, Mapping[str, str | None]] = {
    "fpus23": {"abdomen": "fetal abdomen", "arm": "fetal arm", "head": "fetal head", "legs": "fetal legs"},
    "hc18": {"head": "fetal head"},
    "psfhs": {"pubic symphysis": "pubic symphysis", "fetal head": "fetal head"},
    "jnu_ifm": {"pubic symphysis": "pubic symphysis", "fetal head": "fetal head"},
    "acouslic": {"fetal abdomen": "fetal abdomen"},
}
ALL_STRUCTURES = tuple(dict.fromkeys(term for terms in STRUCTURES.values() for term in terms.values() if term))

ORIENTATIONS: Mapping[str, str | None] = {str(pose): words for pose, words in ORIENTATION_WORDS.items()}
"""The term of each of FPUS23's poses, in the words that the source fetal_phantom uses too."""

VIEWS: Mapping[str, str | None] = {"optimal": "complete", "suboptimal": "incomplete", "none": None}
"""The term of each kind of frame of ACOUSLIC-AI: whether it is complete enough to measure the circumference."""

SETS = ("acouslic", "fetal_planes_db", "fpus23", "hc18", "jnu_ifm", "pbf_us1", "psfhs")
PLANE_TEXT = "Which plane does this ultrasound image show?"
VIEW_TEXT = "Is this view of the fetal abdomen complete enough to measure the abdominal circumference?"
GROUNDING_TEXT = "What does the red bounding box mark?"
NUM_OPTIONS = 4
_TERMS = "medtune/benchmarks/fetal_gauge/sources/fetal_gauge_rebuilt/__init__.py"


def offered_planes(set_name: str, answer: str) -> tuple[str, ...]:
    """Returns the terms that may be options of a question with this answer, the answer included.

    >>> "trans-thalamic plane" in offered_planes("fetal_planes_db", "fetal brain plane")
    False
    """
    terms = CLINICAL_PLANES if set_name == "fetal_planes_db" else PHANTOM_PLANES
    if answer == BRAIN:
        return tuple(term for term in terms if term not in WITHIN_BRAIN)
    if answer in WITHIN_BRAIN:
        return tuple(term for term in terms if term != BRAIN)
    return terms


def source() -> Source:
    """Returns the source. It has four of the five tasks, because none of the sets has labels for clinical diagnosis."""
    return rebuilt_source(
        "Fetal-Gauge, rebuilt from public sets",
        "https://arxiv.org/abs/2512.22278",
        sets=SETS,
        ask=_questions,
        left_out=_left_out,
    )


def _left_out(frame: Frame) -> str:
    labels = ", ".join(f"{kind} {label!r}" for kind, label in sorted(frame.labels.items())) or "no label"
    return f"{labels} stands for no term of the benchmark, and there is no box"


def _questions(subject: SetImage) -> Iterator[ImageQuestion]:
    labels, name = subject.frame.labels, subject.set_name
    if "plane" in labels:
        answer = subject.term(PLANES[name], labels["plane"], kind="plane", file=_TERMS)
        if answer:
            yield _ask(subject, "plane_identification", PLANE_TEXT, answer, offered_planes(name, answer))
    if "view" in labels:
        answer = subject.term(VIEWS, labels["view"], kind="view", file=_TERMS)
        if answer:
            yield _ask(subject, "view_completeness", VIEW_TEXT, answer, ("complete", "incomplete"))
    if "orientation" in labels:
        answer = subject.term(ORIENTATIONS, labels["orientation"], kind="orientation", file=_TERMS)
        if answer:
            yield _ask(subject, "fetal_orientation", ORIENTATION_TEXT, answer, tuple(ORIENTATION_WORDS.values()))
    for number, (label, box) in enumerate(subject.frame.boxes):
        answer = subject.term(STRUCTURES[name], label, kind="box", file=_TERMS)
        if answer:
            offered = ALL_STRUCTURES
            yield _ask(subject, "visual_grounding", GROUNDING_TEXT, answer, offered, box=box, number=number)


def _ask(
    subject: SetImage,
    task: str,
    text: str,
    answer: str,
    labels: tuple[str, ...],
    *,
    box: Box | None = None,
    number: int = 0,
) -> ImageQuestion:
    frame = subject.frame
    media_id = subject.media_id if box is None else f"{subject.media_id} boxed {number}"
    facets = {"task": task, "phantom": "yes" if subject.is_phantom else "no", "set": subject.set_name, **frame.facets}
    if box:
        facets["box_size"] = box_size(box, *frame.size)
    if task == "plane_identification":
        facets["plane"] = answer
    question = choice_question(
        f"{media_id} {task}",
        media_id=media_id,
        text=text,
        answer=answer,
        labels=labels,
        patient_id=subject.patient_id,
        facets=facets,
        seed=subject.seed,
        num_options=NUM_OPTIONS,
        split=frame.split,
    )
    return ImageQuestion(question, MediaRef(frame.path, (box,) if box else ()))
