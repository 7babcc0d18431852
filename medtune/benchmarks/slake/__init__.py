"""SLAKE, questions on radiology images in English and Chinese, closed and open, some of which need medical knowledge.

Sources: `slake_en` and `slake_zh` have one language, whose official split shares no image; `slake` has both, and the
splits of the two languages share images with one another, which every output says.

Source: Liu et al. 2021, arXiv 2102.09542.
"""

from medtune.benchmarks import example
from medtune.benchmarks.medical_kits.medevalkit_sets import counted_by_type
from medtune.benchmarks.short_answers.kit_rules import llava_med_rules, lmms_rule, medevalkit_rules
from medtune.benchmarks.short_answers.parser import judge_task, metrics, parse, render
from medtune.benchmarks.short_answers.published_tables import part_of, prompts_by_type, published_tables
from medtune.eval.asking.answerer import AnswerProtocol
from medtune.eval.benchmark import Benchmark

TEST_QUESTIONS = (1061, 1033, 2094)
"""The official test questions in English, in Chinese and in both."""


def benchmark() -> Benchmark:
    """Returns the benchmark, whose primary metric is the accuracy of closed questions."""
    rules = {
        **medevalkit_rules("slake", counted_by_type, "utils/SLAKE/SLAKE.py", _MEDEVALKIT),
        **llava_med_rules(),
        **lmms_rule(),
    }
    return Benchmark(
        title="SLAKE",
        version="1.0",
        licence="CC BY 4.0",
        url="https://huggingface.co/datasets/BoKelvin/SLAKE",
        citation=(
            "Liu B, Zhan LM, Xu L, Ma L, Yang Y, Wu XM. SLAKE: a semantically-labeled knowledge-enhanced dataset for "
            "medical visual question answering. ISBI (2021). arXiv:2102.09542."
        ),
        sources=("slake_en", "slake_zh", "slake"),
        facets=("task", "language", "content", "modality", "organ", "knowledge"),
        render=render,
        parsers={"stated": parse},
        metrics=metrics(),
        examples=_EXAMPLES,
        rules=rules,
        tables=published_tables("slake", rules, facet="language"),
        judging=judge_task(),
        official=prompts_by_type(),
        protocol=AnswerProtocol(
            0.0, repeats=1, max_new_tokens=8192, source="alibaba-damo-academy/MedEvalKit@9b12e3b, eval.sh"
        ),
        missing=part_of(TEST_QUESTIONS),
    )


_MEDEVALKIT = "Yes and No are written with capitals here, so that they have to be equal: Yes, there is, is wrong"


_ABOUT = {"organ": "lung", "knowledge": "no", "modality": "CT", "content": "organ"}
_EXAMPLES = (
    example(1, "Is there a lung in the picture?", "yes", "yes", "no", task="yes_no", language="en", **_ABOUT),
    example(2, "图中有肺吗?", "没有", "有", "没有", task="yes_no", language="zh", **_ABOUT),
    example(3, "Which is larger, the liver or the heart?", "Liver", task="closed", language="en", **_ABOUT),
    example(4, "这是什么器官?", "肝脏", task="open", language="zh", **_ABOUT),
)
