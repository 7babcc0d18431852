"""BUSI, a benchmark on breast ultrasound images: the diagnosis, the place of the lesion, and the content of a red box.

Source: Al-Dhabyani et al. 2020, doi:10.1016/j.dib.2019.104863. The questions are ours, not a published benchmark's.
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
