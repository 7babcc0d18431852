"""MedXpertQA MM, expert-level multiple-choice questions about patients with one to six images each.

It is for evaluation alone. The release's questions hold their options, which are taken off; the prompt lists them once.

Source: Zuo et al., MedXpertQA, arXiv 2501.18362; TsinghuaC3I/MedXpertQA@f21247d.
"""

from medtune.benchmarks import example
from medtune.benchmarks.medical_kits.choice_rules import (
    lettered,
    medevalkit_choice_prompts,
    medevalkit_rule,
    medxpertqa_rule,
    parse,
    render,
)
from medtune.benchmarks.medxpertqa_mm.sources.medxpertqa_mm import URL
from medtune.benchmarks.short_answers.published_tables import part_of, printed_tables
from medtune.eval.asking.answerer import AnswerProtocol
from medtune.eval.benchmark import Benchmark
from medtune.eval.metrics.accuracy import metric as accuracy

TEST_QUESTIONS = (2000,)


def benchmark() -> Benchmark:
    rules = {
        "medxpertqa": medxpertqa_rule(),
        "medevalkit": medevalkit_rule("utils/MedXpertQA/MedXpertQA.py", lettered, takes_tags=True),
    }
    return Benchmark(
        title="MedXpertQA MM",
        version="1.0",
        licence="MIT",
        url=URL,
        citation="Zuo Y, Qu S, Li Y, et al. MedXpertQA. ICML 2025, arXiv:2501.18362.",
        sources=("medxpertqa_mm",),
        facets=("task", "question_type", "body_system", "images"),
        render=render,
        parsers={"robust": parse},
        metrics={"accuracy": accuracy()},
        examples=_EXAMPLES,
        official=medevalkit_choice_prompts(lettered),
        tables=printed_tables("medxpertqa_mm", rules),
        rules=rules,
        missing=part_of(TEST_QUESTIONS),
        protocol=AnswerProtocol(
            0.0, repeats=1, max_new_tokens=2048, source="TsinghuaC3I/MedXpertQA@f21247d, eval/model/api_agent.py"
        ),
    )


_OPTIONS = ("a cyst", "a stone", "a clip", "a vessel", "a suture")
_FACETS = ("task", "question_type", "body_system", "images")
_EXAMPLES = tuple(
    example(facets[0], text, answer, *_OPTIONS, **dict(zip(_FACETS, facets, strict=True)))
    for text, answer, *facets in (
        ("A man of 40 has pain. What do both images show?", "a stone", "Diagnosis", "Reasoning", "Digestive", "2"),
        ("What does the arrow point to?", "a vessel", "Basic Science", "Understanding", "Digestive", "1"),
    )
)
