"""Fetal-Gauge, a multiple-choice benchmark on fetal ultrasound: plane, completeness, orientation, diagnosis, red boxes.

Source: Alasmawi, Saeed, Yaqub, arXiv 2512.22278. Neither questions nor code were published when this was written, so
prompts, parsers and the names of facets are ours.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from medtune.benchmarks import example, published
from medtune.benchmarks.fetal_gauge.published_tables import FINE_TUNING, SIZES, TASKS, published_tables
from medtune.data.media.augment import ALL_CHANGES, NO_CHANGES, Change
from medtune.data.types import Question
from medtune.eval.asking.choice_prompt import render_choice
from medtune.eval.benchmark import Benchmark
from medtune.eval.evidence import Evidence
from medtune.eval.metrics.accuracy import metric as accuracy
from medtune.eval.metrics.macro_f1 import metric as macro_f1
from medtune.eval.published import PublishedNumber
from medtune.eval.scoring.parsers.choice_parsers import parse_choice, parse_choice_strict
from medtune.eval.scoring.tables import Table
from medtune.eval.studies.one_run import answers_of, tables_of_run

_REJECTED_SHARE = 0.01

_PLANES = ("femur plane", "abdominal circumference plane", "four-chamber heart plane", "thalamic head plane")
_OF_PLANE = {"plane": "femur", "geometry": "sector", "set": "pbf_us1", "position": "SA"}
_LIES = tuple(f"head {way}, back {side}" for side in ("to the front", "behind") for way in ("up", "down"))
_TISSUES, _MARKED = ("malignant", "normal", "benign"), ("fetal head", "pubic symphysis", "stomach", "femur")
_BOX = {"box_size": "small", "scanner": "Voluson E6"}
_EXAMPLES = tuple(
    example(task, text, answer, *options, task=task, phantom=phantom, **facets)
    for task, text, answer, options, phantom, facets in (
        ("plane_identification", "Which plane of the fetus is this?", _PLANES[0], _PLANES, "yes", _OF_PLANE),
        ("view_completeness", "Is the view complete?", "incomplete", ("complete", "incomplete"), "yes", {}),
        ("fetal_orientation", "How does the fetus lie?", _LIES[3], _LIES, "yes", {}),
        ("clinical_diagnosis", "What is the finding?", "normal", _TISSUES, "no", {"subtype": "diagnosis"}),
        ("visual_grounding", "What does the red box mark?", "pubic symphysis", _MARKED, "no", _BOX),
    )
)


def tables(evidence: Evidence) -> Sequence[Table]:
    """Returns the paper's tables with a row for each parser, and of fine-tuning one for the primary parser."""
    read = {
        f"ours, read by {name}": answers_of(replace(evidence, parser=name))
        for name, rows in evidence.parsed["image"].items()
        if rows
    }
    made = [
        found
        for table in published_tables()
        if table.name != FINE_TUNING
        for found in tables_of_run(table, read, unlike_published=evidence.unlike_published)
    ]
    return (*made, *_fine_tuning(evidence))


def references() -> Sequence[PublishedNumber]:
    """Returns the printed accuracies overall, by task and by box size."""
    printed = published("fetal_gauge")
    found = []
    for model, *accuracies, overall in printed["main"]["rows"]:
        found.append(PublishedNumber(model, overall))
        for column, value in zip(printed["main"]["columns"][1:-1], accuracies, strict=True):
            found.append(PublishedNumber(model, value, "task", TASKS[column]))
    for model, *accuracies in printed["box_size"]["rows"]:
        found += [
            PublishedNumber(model, value, "box_size", size) for size, value in zip(SIZES, accuracies, strict=True)
        ]
    return found


def missing(questions: Sequence[Question]) -> str:
    """Returns how many of the published questions about red boxes these are, or which task is missing; "" if all.

    The paper states the number of test questions for red boxes alone. One in a hundred may be missing, because
    `prepare` could not read it.
    """
    asked = Counter(question.facets.get("task") for question in questions)
    boxes = sum(published("fetal_gauge")["box_size"]["questions"])
    if asked[TASKS["VG"]] < (1 - _REJECTED_SHARE) * boxes:
        return f"{len(questions):,}, with {asked[TASKS['VG']]:,} of its {boxes:,} about red boxes"
    without = [task for task in TASKS.values() if not asked[task]]
    return f"without the task {without[0]}" if without else ""


def _fine_tuning(evidence: Evidence) -> Sequence[Table]:
    (table,) = [each for each in published_tables() if each.name == FINE_TUNING]
    after, before = accuracy().value(evidence.rows("image")), evidence.before
    ours = {} if before is None else {"ours": {"before": before, "after": after, "gain": after - before}}
    return tables_of_run(table, {}, unlike_published=evidence.unlike_published, more=ours)


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
        published_tables=published_tables,
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
