"""PBF-US1, a benchmark on ultrasound frames of a fetal phantom: which standard plane a frame shows.

Source: NatalIA PBF-US1, doi:10.5281/zenodo.14193949. The questions are ours, not a published benchmark's.
"""

from __future__ import annotations

from medtune.data.media.augment import ALL_CHANGES
from medtune.data.types import Question
from medtune.eval.asking.choice_prompt import render_choice
from medtune.eval.benchmark import Benchmark
from medtune.eval.metrics.accuracy import metric as accuracy
from medtune.eval.metrics.macro_f1 import metric as macro_f1
from medtune.eval.scoring.parsers.choice_parsers import parse_choice, parse_choice_strict


def benchmark() -> Benchmark:
    """Returns the benchmark."""
    return Benchmark(
        title="PBF-US1 phantom planes",
        version="1.1",
        licence="CC-BY-4.0",
        url="https://doi.org/10.5281/zenodo.14193949",
        citation="NatalIA PBF-US1, a data set of fetal ultrasound phantom planes. Zenodo 14193949.",
        sources=("phantom_planes",),
        facets=("task", "phantom", "position"),
        render=render_choice,
        parsers={"robust": parse_choice, "strict": parse_choice_strict},
        metrics={"accuracy": accuracy(), "macro_f1": macro_f1()},
        examples=_EXAMPLES,
        allowed_changes=lambda question: ALL_CHANGES,
    )


_EXAMPLES = tuple(
    Question(
        id=f"example-{number}",
        media_id=f"example-image-{number}",
        text="Which plane does this ultrasound image show?",
        options=("heart standard plane", "no plane", "abdominal standard plane", "femur standard plane"),
        answer=answer,
        answer_kind="choice",
        patient_id=f"example-sweep-{number}",
        facets={"task": "plane_identification", "phantom": "example", "position": "OA"},
    )
    for number, answer in enumerate(("no plane", "femur standard plane"))
)
