"""Fetal sweeps, a benchmark on simulated ultrasound videos: the path of the probe and the place of the placenta.

The probe moves along a fetus. Three of the four questions (direction of the sweep, first and last part that is seen)
need the order of the frames; the fourth asks for the place of the placenta.

Source: a simulation. The questions are ours, not a published benchmark's.
"""

from medtune.benchmarks import example
from medtune.data.media.augment import ALL_CHANGES, NO_CHANGES, Change
from medtune.data.types import Question
from medtune.eval.asking.choice_prompt import render_choice
from medtune.eval.benchmark import Benchmark
from medtune.eval.metrics.accuracy import metric as accuracy
from medtune.eval.metrics.macro_f1 import metric as macro_f1
from medtune.eval.scoring.parsers.choice_parsers import parse_choice, parse_choice_strict


def benchmark() -> Benchmark:
    return Benchmark(
        title="Fetal sweeps (simulated)",
        version="1.1",
        licence="Apache-2.0",
        url="https://doi.org/10.1002/uog.24888",
        citation="medtune, a simulation of its own, after Salomon et al., Ultrasound Obstet Gynecol 59 (2022).",
        sources=("fetal_sweep",),
        facets=("task", "geometry"),
        render=render_choice,
        parsers={"robust": parse_choice, "strict": parse_choice_strict},
        metrics={"accuracy": accuracy(), "macro_f1": macro_f1()},
        examples=_EXAMPLES,
        allowed_changes=_allowed_changes,
    )


def _allowed_changes(question: Question) -> frozenset[Change]:
    """Returns which random changes of a training video leave the answer to the question true.

    The probe moves at a right angle to the frames, and the fetus may lie in them in any direction, so mirroring or
    moving the frames does not change the path of the sweep. But a moved frame may no longer show the placenta.
    """
    if question.facets["task"] == "placenta_side":
        return frozenset({"mirror", "grey"})
    return ALL_CHANGES if question.facets["task"] in ("sweep_direction", "first_part", "last_part") else NO_CHANGES


_WAYS, _PARTS = ("towards the head", "towards the feet"), ("legs", "head", "chest", "abdomen")
_EXAMPLES = (
    example(1, "Which way does the probe move?", _WAYS[1], *_WAYS, task="sweep_direction", geometry="sector"),
    example(2, "Which part of the fetus is seen first?", "chest", *_PARTS, task="first_part", geometry="sector"),
)
