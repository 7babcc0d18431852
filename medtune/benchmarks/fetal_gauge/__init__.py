"""Fetal-Gauge, a multiple-choice benchmark on fetal ultrasound: plane, completeness, orientation, diagnosis, red boxes.

Source: Alasmawi, Saeed, Yaqub, arXiv 2512.22278. Neither questions nor code were published when this was written, so
prompts, parsers and the names of facets are ours.
"""

from medtune.benchmarks.fetal_gauge.tables import missing, references, tables
from medtune.data.media.augment import ALL_CHANGES, NO_CHANGES, Change
from medtune.data.types import Question
from medtune.eval.asking.choice_prompt import render_choice
from medtune.eval.benchmark import Benchmark
from medtune.eval.metrics.accuracy import metric as accuracy
from medtune.eval.metrics.macro_f1 import metric as macro_f1
from medtune.eval.scoring.parsers.choice_parsers import parse_choice, parse_choice_strict


def benchmark() -> Benchmark:
    """Returns the benchmark, whose overall score is the mean over all questions, as the paper's numbers imply."""
    return Benchmark(
        title="Fetal-Gauge",
        version="1.1",
        licence="not stated; the questions are not published yet",
        url="https://arxiv.org/abs/2512.22278",
        citation="Alasmawi H, Saeed N, Yaqub M. Fetal-Gauge. arXiv:2512.22278 (ICLR 2026).",
        sources=("fetal_phantom", "table", "fetal_gauge_rebuilt"),
        facets=("task", "subtype", "box_size", "phantom", "plane", "geometry", "set", "position", "scanner"),
        class_facet="subtype",
        render=render_choice,
        parsers={"robust": parse_choice, "strict": parse_choice_strict},
        metrics={"accuracy": accuracy(), "macro_f1": macro_f1()},
        examples=_EXAMPLES,
        tables=tables,
        references=references,
        missing=missing,
        allowed_changes=_allowed_changes,
        # The paper counts 93,451 questions about 42,036 images, so about two for each image.
    )


def _allowed_changes(question: Question) -> frozenset[Change]:
    """Returns which random changes of a training image leave the answer to the question true.

    Moving an image may cut off a landmark or an edge of the red box. Mirroring an image changes how the fetus lies.
    """
    task_allows: dict[str, frozenset[Change]] = {
        "plane_identification": ALL_CHANGES,
        "view_completeness": frozenset({"mirror", "grey"}),
        "fetal_orientation": frozenset({"grey"}),
        "visual_grounding": frozenset({"mirror", "grey"}),
    }
    if question.facets["task"] == "clinical_diagnosis":
        # The answers about echo pattern and shadow depend on the grey values.
        return (
            ALL_CHANGES if question.facets.get("subtype", "diagnosis") == "diagnosis" else frozenset({"mirror", "move"})
        )
    return task_allows.get(question.facets["task"], NO_CHANGES)


def _example(task: str, text: str, options: tuple[str, ...], answer: str, **facets: str) -> Question:
    return Question(
        id=f"example-{task}",
        media_id=f"example-image-{task}",
        text=text,
        options=options,
        answer=answer,
        answer_kind="choice",
        patient_id=f"example-patient-{task}",
        facets={"task": task, **facets},
    )


_EXAMPLES = (
    _example(
        "plane_identification",
        "Which plane of the fetus does this image show?",
        ("femur plane", "abdominal circumference plane", "four-chamber heart plane", "thalamic head plane"),
        "femur plane",
        phantom="yes",
        plane="femur",
        geometry="sector",
        set="pbf_us1",
        position="SA",
    ),
    _example(
        "view_completeness",
        "Is the view complete?",
        ("complete", "incomplete"),
        "incomplete",
        phantom="yes",
    ),
    _example(
        "fetal_orientation",
        "How does the fetus lie?",
        (
            "head up, back to the front",
            "head down, back to the front",
            "head up, back behind",
            "head down, back behind",
        ),
        "head down, back behind",
        phantom="yes",
    ),
    _example(
        "clinical_diagnosis",
        "What is the finding?",
        ("malignant", "normal", "benign"),
        "normal",
        phantom="no",
        subtype="diagnosis",
    ),
    _example(
        "visual_grounding",
        "What does the red box mark?",
        ("fetal head", "pubic symphysis", "stomach", "femur"),
        "pubic symphysis",
        phantom="no",
        box_size="small",
        scanner="Voluson E6",
    ),
)
