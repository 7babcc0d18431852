"""HC18, a benchmark on fetal ultrasound images: where the head is, and whether a red box marks it.

Source: HC18, van den Heuvel et al. 2018, doi:10.1371/journal.pone.0200412. The questions are ours, not a published
benchmark's.
"""

from __future__ import annotations

from medtune.data.media.augment import Change
from medtune.data.types import Question
from medtune.eval.asking.choice_prompt import render_choice
from medtune.eval.benchmark import Benchmark
from medtune.eval.metrics.accuracy import metric as accuracy
from medtune.eval.metrics.macro_f1 import metric as macro_f1
from medtune.eval.scoring.parsers.choice_parsers import parse_choice, parse_choice_strict


def benchmark() -> Benchmark:
    """Returns the benchmark."""
    return Benchmark(
        title="HC18 fetal heads",
        version="1.1",
        licence="CC-BY-4.0",
        url="https://doi.org/10.5281/zenodo.1327317",
        citation=(
            "van den Heuvel TLA, de Bruijn D, de Korte CL, van Ginneken B. Automated measurement of fetal head "
            "circumference using 2D ultrasound images. PLoS ONE 13(8), e0200412 (2018)."
        ),
        sources=("fetal_heads",),
        facets=("task", "box_size"),
        render=render_choice,
        parsers={"robust": parse_choice, "strict": parse_choice_strict},
        metrics={"accuracy": accuracy(), "macro_f1": macro_f1()},
        examples=_EXAMPLES,
        allowed_changes=_allowed_changes,
    )


def _allowed_changes(question: Question) -> frozenset[Change]:
    """Returns which random changes of a training image leave the answer to the question true.

    Mirroring or moving an image changes the place of the head, and moving it may cut off a part of the red box.
    """
    is_grounding = question.facets["task"] == "red_box_grounding"
    return frozenset({"mirror", "grey"}) if is_grounding else frozenset({"grey"})


_EXAMPLES = (
    Question(
        id="example-localisation",
        media_id="example-image",
        text="Where in the image is the fetal head?",
        options=("lower right", "center", "not visible", "upper center"),
        answer="center",
        answer_kind="choice",
        patient_id="example-patient",
        facets={"task": "head_localisation"},
    ),
    Question(
        id="example-grounding",
        media_id="example-image-box",
        text="What does the red box mark?",
        options=("background", "fetal head"),
        answer="fetal head",
        answer_kind="choice",
        patient_id="example-patient",
        facets={"task": "red_box_grounding", "box_size": "large"},
    ),
)
