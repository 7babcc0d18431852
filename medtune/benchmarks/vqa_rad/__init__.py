"""VQA-RAD, questions on radiology images by clinicians: closed and open ones, about 315 images of head, chest, abdomen.

Closed and open questions are scored apart. The images of the official test, but for at most one, are training images
too; every output says so.

Source: Lau et al. 2018, doi:10.1038/sdata.2018.251.
"""

from collections.abc import Sequence

from medtune.benchmarks import example
from medtune.benchmarks.medical_kits.medevalkit_sets import counted_by_words
from medtune.benchmarks.short_answers.kit_rules import llava_med_rules, medevalkit_rules
from medtune.benchmarks.short_answers.parser import judge_task, metrics, parse, render
from medtune.benchmarks.short_answers.published_tables import part_of, prompts_by_words, published_tables
from medtune.benchmarks.short_answers.released_answers import CLOSED, is_closed
from medtune.data.types import Question
from medtune.eval.asking.answerer import AnswerProtocol
from medtune.eval.benchmark import Benchmark

TEST_QUESTIONS, CLOSED_QUESTIONS = 451, 272
"""The official test questions, and how many of them the release calls closed."""


def benchmark() -> Benchmark:
    """Returns the benchmark, whose primary metric is the accuracy of closed questions."""
    rules = {
        **medevalkit_rules("vqa_rad", counted_by_words, "utils/VQA_RAD/VQA_RAD.py", _MEDEVALKIT),
        **llava_med_rules(),
    }
    return Benchmark(
        title="VQA-RAD",
        version="1.0",
        licence="CC0-1.0",
        url="https://osf.io/89kps",
        citation=(
            "Lau JJ, Gayen S, Ben Abacha A, Demner-Fushman D. A dataset of clinically generated visual questions and "
            "answers about radiology images. Scientific Data 5, 180251 (2018)."
        ),
        sources=("vqa_rad",),
        facets=("task", "question_type", "organ", "phrase"),
        render=render,
        parsers={"stated": parse},
        metrics=metrics(),
        examples=_EXAMPLES,
        rules=rules,
        tables=published_tables("vqa_rad", rules),
        judging=judge_task(),
        official=prompts_by_words(),
        protocol=AnswerProtocol(
            0.0, repeats=1, max_new_tokens=8192, source="alibaba-damo-academy/MedEvalKit@9b12e3b, eval.sh"
        ),
        missing=_missing,
    )


def _missing(questions: Sequence[Question]) -> str:
    if less := part_of((TEST_QUESTIONS,))(questions):
        return less
    if any(question.facets["task"] == CLOSED for question in questions):
        return ""
    closed = sum(map(is_closed, questions))
    return f"in the hub's form, in which {closed} are closed, where the printed numbers have {CLOSED_QUESTIONS}"


_MEDEVALKIT = "only answers that are yes or no are closed, of which the letters count, so that normal is a no"


_CHEST, _HEAD = {"organ": "chest", "phrase": "freeform"}, {"organ": "head", "phrase": "frame"}
_EXAMPLES = (
    example(1, "Is the heart enlarged?", "no", "yes", "no", task="yes_no", question_type="size", **_CHEST),
    example(2, "Is it the left or the right lung?", "Left", task="closed", question_type="position", **_CHEST),
    example(3, "Where is the bleeding?", "right temporal lobe", task="open", question_type="position", **_HEAD),
)
