"""Fetal-Gauge rebuilt from public sets: planes, completeness, orientation and red boxes, as the paper describes them.

Layout: one folder (or link) for each set that you have, with the name of its module in `public_sets/sets`: acouslic,
fetal_planes_db, fpus23, hc18, jnu_ifm, pbf_us1 or psfhs. Each folder holds the set's release unchanged. All sets become
one prepared folder, so that images which occur in two sets are found and their patients stay in one split.

Source: Alasmawi et al., arXiv 2512.22278, sections on construction. The paper does not publish its prompts, its splits
and the names of its 13 sets, so questions and terms are ours.
"""

from collections.abc import Iterator

from medtune.benchmarks.fetal_gauge.sources.fetal_gauge_rebuilt import set_labels
from medtune.benchmarks.fetal_gauge.sources.fetal_phantom.questions import ORIENTATION_TEXT, ORIENTATION_WORDS
from medtune.benchmarks.public_sets.public_set import Frame
from medtune.benchmarks.public_sets.rebuild import Asked, Subject, rebuilt_source
from medtune.data.media.masks import box_size
from medtune.data.raw.choices import choice_question
from medtune.data.raw.source import Source
from medtune.data.types import Box, MediaRef

SETS = ("acouslic", "fetal_planes_db", "fpus23", "hc18", "jnu_ifm", "pbf_us1", "psfhs")
PLANE_TEXT = "Which plane does this ultrasound image show?"
VIEW_TEXT = "Is this view of the fetal abdomen complete enough to measure the abdominal circumference?"
GROUNDING_TEXT = "What does the red bounding box mark?"
NUM_OPTIONS = 4
_TERMS = "medtune/benchmarks/fetal_gauge/sources/fetal_gauge_rebuilt/set_labels.py"


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


def _questions(subject: Subject) -> Iterator[Asked]:
    labels, name = subject.frame.labels, subject.set_name
    if "plane" in labels:
        answer = subject.term(set_labels.PLANES[name], labels["plane"], kind="plane", file=_TERMS)
        if answer:
            yield _ask(subject, "plane_identification", PLANE_TEXT, answer, set_labels.offered_planes(name, answer))
    if "view" in labels:
        answer = subject.term(set_labels.VIEWS, labels["view"], kind="view", file=_TERMS)
        if answer:
            yield _ask(subject, "view_completeness", VIEW_TEXT, answer, ("complete", "incomplete"))
    if "orientation" in labels:
        answer = subject.term(set_labels.ORIENTATIONS, labels["orientation"], kind="orientation", file=_TERMS)
        if answer:
            yield _ask(subject, "fetal_orientation", ORIENTATION_TEXT, answer, tuple(ORIENTATION_WORDS.values()))
    for number, (label, box) in enumerate(subject.frame.boxes):
        answer = subject.term(set_labels.STRUCTURES[name], label, kind="box", file=_TERMS)
        if answer:
            offered = set_labels.ALL_STRUCTURES
            yield _ask(subject, "visual_grounding", GROUNDING_TEXT, answer, offered, box=box, number=number)


def _ask(
    subject: Subject,
    task: str,
    text: str,
    answer: str,
    labels: tuple[str, ...],
    *,
    box: Box | None = None,
    number: int = 0,
) -> Asked:
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
    return Asked(question, MediaRef(frame.path, (box,) if box else ()))
