"""Decides whether numbers may stand among published ones, or why they must stand apart from them."""

from collections.abc import Iterator, Sequence

from medtune.data.types import Question
from medtune.eval.asking.official_prompts import OUR_WORDING
from medtune.eval.benchmark import Benchmark
from medtune.eval.data_label import NOT_RECORDED, DataLabel

RELEASED = "released"


def why_unlike_published(
    label: DataLabel, benchmark: Benchmark, questions: Sequence[Question], *, parser: str | None = None
) -> str:
    """Returns why numbers must not be ranked among those of the benchmark's paper, as a clause; "" if they may.

    They may if the questions are the released ones, all of them, asked with the official prompts where the published
    numbers need them, of a model that was not trained on an evaluation set or on evaluated patients. Prompts that are
    not recorded, as in the files of other tools, are taken as the official ones.
    """
    return next(departures(label, benchmark, questions, parser=parser), "")


def departures(
    label: DataLabel, benchmark: Benchmark, questions: Sequence[Question], *, parser: str | None = None
) -> Iterator[str]:
    """Yields everything for which numbers must not be ranked among those of the benchmark's paper, as clauses."""
    if said := incomparable(label):
        yield said
    if label.unofficial_split:
        yield f"the data were divided by {label.unofficial_split}, which the benchmark does not do"
    if label.changed_data:
        yield "the data changed during the run"
    if missing := benchmark.missing(questions):
        yield f"the questions are {missing}"
    official = benchmark.official
    if official is not None and label.prompts == OUR_WORDING and any(map(official.needed, questions)):
        yield "the questions were asked in our words, not with the official prompts"
    if parser is not None and parser not in benchmark.parsers:
        yield "the likelihood of the options was read, while the published models replied in words"


def incomparable(label: DataLabel) -> str:
    """Returns why numbers say nothing about published ones at all: other data, or data that were learnt; else ""."""
    if label.provenance != RELEASED:
        return f"the data are {label.origin}, not the released ones"
    if label.unofficial_training:
        return f"the model was trained on {label.unofficial_training}, which is for evaluation alone"
    if label.seen_in_training not in ("", NOT_RECORDED):
        return f"the model's weights were trained on {label.seen_in_training}"
    return ""
