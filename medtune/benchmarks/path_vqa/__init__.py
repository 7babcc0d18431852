"""PathVQA, questions on pathology images that were made from the captions of textbooks: about half of them yes or no.

Source: He et al. 2020, arXiv 2003.10286; UCSD-AI4H/PathVQA@dd51804.
"""

from medtune.benchmarks import example
from medtune.benchmarks.medical_kits.medevalkit_sets import counted_by_words
from medtune.benchmarks.short_answers.kit_rules import llava_med_rules, medevalkit_rules, pathvqa_rule
from medtune.benchmarks.short_answers.parser import judge_task, metrics, parse, render
from medtune.benchmarks.short_answers.published_tables import part_of, prompts_by_words, published_tables
from medtune.eval.asking.answerer import AnswerProtocol
from medtune.eval.benchmark import Benchmark

TEST_QUESTIONS = (6719, 6761)
"""The official test questions on the hub, without repeated ones, and in the repository's files."""


def benchmark() -> Benchmark:
    """Returns the benchmark, whose primary metric is the accuracy of yes/no questions."""
    rules = {
        **medevalkit_rules("path_vqa", counted_by_words, "utils/PATH_VQA/PATH_VQA.py", _MEDEVALKIT),
        **llava_med_rules(),
        **pathvqa_rule(),
    }
    return Benchmark(
        title="PathVQA",
        version="1.0",
        licence="MIT (questions); images and captions belong to the publishers of two textbooks and to PEIR",
        url="https://github.com/UCSD-AI4H/PathVQA",
        citation=(
            "He X, Zhang Y, Mou L, Xing E, Xie P. PathVQA: 30000+ questions for medical visual question answering. "
            "arXiv:2003.10286 (2020)."
        ),
        sources=("path_vqa",),
        facets=("task", "asks"),
        render=render,
        parsers={"stated": parse},
        metrics=metrics(),
        examples=_EXAMPLES,
        rules=rules,
        tables=published_tables("path_vqa", rules),
        judging=judge_task(),
        official=prompts_by_words(),
        protocol=AnswerProtocol(
            0.0, repeats=1, max_new_tokens=8192, source="alibaba-damo-academy/MedEvalKit@9b12e3b, eval.sh"
        ),
        missing=part_of(TEST_QUESTIONS),
    )


_MEDEVALKIT = "the letters of yes and no count, so that normal is a no"


_EXAMPLES = (
    example(1, "Is necrosis seen?", "yes", "yes", "no", task="yes_no", asks="is"),
    example(2, "Does the section show fat?", "no", "yes", "no", task="yes_no", asks="does"),
    example(3, "What do the arrows mark?", "giant cells", task="open", asks="what"),
)
